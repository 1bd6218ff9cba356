// clock.hpp: the clock that all clients of a store share.
//
// etcd offers its clients no clock. So each client has one: it begins at the machine's wall time,
// runs by CLOCK_BOOTTIME whatever happens to wall time later, and is moved forward, never back, to
// times of other clients. Every apply that writes stores its client's time in the heads that it
// moves (layout.hpp), and every apply reads those of its orders; a client that renews its lease
// reads the one that every new session moves. Two clients of one root agree, except for the delay
// of a message; two others, except for the time between two renewals. Limitation: a client whose
// wall time is ahead when it opens the store moves all others forward, and deadlines pass early by
// that much. Leases are etcd's own, and do not depend on this clock.
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
  // About now, and unique in this process and (except for a chance of one in a billion) among
  // processes: it identifies a request in the head.
  [[nodiscard]] Instant unique_time() noexcept;
  void see(Instant time) noexcept;

  // The slot of this moment (numbers.hpp).
  [[nodiscard]] std::uint64_t slot() const noexcept;

 private:
  std::int64_t (*const boot_ns_)() noexcept;
  std::atomic<std::int64_t> ahead_ns_;  // The offset to CLOCK_BOOTTIME.
  const std::int64_t tag_;
  std::atomic<std::int64_t> last_unique_{0};
};

}  // namespace tenure::etcd
