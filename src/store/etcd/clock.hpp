// clock.hpp: the clock that all clients of a store share, and the revisions that they propose.
//
// etcd shows its clients no clock. So each keeps one, which begins at the machine's wall time, runs
// by CLOCK_BOOTTIME, whatever is done to wall time later, and is put forward, never back, to what
// others show: every apply that writes leaves its client's time in the head (layout.hpp), and
// every apply reads it. Two clients that have met through the store agree, but for the time that a
// message takes. What this does not do: a client whose wall time is ahead when it opens the store
// takes all others along, and deadlines pass early by that much. Leases are etcd's own, and do not
// depend on it.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/boot_clock.hpp"
#include "store/etcd/numbers.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

using base::boot_ns;

class Clock {
 public:
  // Where time comes from; tests give their own.
  struct Source {
    std::int64_t (*boot_ns)() noexcept;
    std::int64_t wall_ns = 0;  // When the clock begins.
    std::int64_t tag = 0;      // Which offset this process uses for unique times.
  };
  Clock() noexcept;
  explicit Clock(const Source& source) noexcept;

  [[nodiscard]] Instant now() const noexcept;
  // About now, and no two alike, of this process or (but for a chance in a billion) of others: who
  // finds it in the head knows whose it is.
  [[nodiscard]] Instant unique_time() noexcept;
  void see(Instant time) noexcept;

  // A head: larger than any that this process proposed or saw; by the time since 1970, so that
  // those of several processes come in the order in which they were proposed, mostly.
  [[nodiscard]] std::uint64_t propose() noexcept;
  // The first behind the largest that this process saw.
  [[nodiscard]] std::uint64_t next() const noexcept { return (seen_.load() + 1) * apart; }
  // A head that nobody proposes for about a second, if clocks are right.
  [[nodiscard]] std::uint64_t far() const noexcept;
  void see(Revision revision) noexcept;

 private:
  [[nodiscard]] std::uint64_t by_time() const noexcept;

  std::int64_t (*const boot_ns_)() noexcept;
  std::atomic<std::int64_t> ahead_ns_;  // Of CLOCK_BOOTTIME.
  const std::int64_t tag_;
  std::atomic<std::int64_t> last_unique_{0};
  // Heads, without the part that is zero.
  std::atomic<std::uint64_t> newest_{0};  // That was proposed or seen.
  std::atomic<std::uint64_t> seen_{0};
};

}  // namespace tenure::etcd
