// clock.hpp: this machine's estimate of the server's clock, by which leases are counted.
//
// Between the sending of a call and its answer the server's clock showed `server`. So server -
// received <= offset <= server - sent holds for the offset to CLOCK_BOOTTIME. Each answer moves two
// estimates into that interval: now() starts at its lower end, latest() at its upper end. Each is
// wrong by at most one round trip, and follows steps of the server's clock. Other processes are
// judged by the lower estimate; a holder counts its own time down by the upper one.
//
// Thread safety: all of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

#include "base/boot_clock.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

using base::boot_ns;

class ServerClock {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): three readings of clocks.
  void saw(std::int64_t server, std::int64_t sent, std::int64_t received) noexcept {
    const std::int64_t low = server - received;
    const std::int64_t high = std::max(server - sent, low);
    move_into(highest_, high, low, high);
    move_into(offset_, low, low, high);
    seen_.store(received);
  }
  [[nodiscard]] bool known() const noexcept { return offset_.load() != unset; }
  [[nodiscard]] bool fresh(std::chrono::nanoseconds within) const noexcept {
    return known() && boot_ns() - seen_.load() <= within.count();
  }
  [[nodiscard]] Instant latest() const noexcept {
    return Instant{std::chrono::nanoseconds{boot_ns() + highest_.load()}};
  }
  // Never goes back, even if the server's clock does.
  [[nodiscard]] Instant now() noexcept {
    const std::int64_t time = boot_ns() + offset_.load();
    std::int64_t last = last_.load();
    while (last < time && !last_.compare_exchange_weak(last, time)) {
    }
    return Instant{std::chrono::nanoseconds{std::max(last, time)}};
  }

 private:
  static constexpr std::int64_t unset = std::numeric_limits<std::int64_t>::min();
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as above.
  static void move_into(std::atomic<std::int64_t>& estimate, std::int64_t first, std::int64_t low,
                        std::int64_t high) noexcept {
    const std::int64_t old = estimate.load();
    const std::int64_t next = old == unset ? first : std::clamp(old, low, high);
    if (next != old) estimate.store(next);
  }
  std::atomic<std::int64_t> offset_{unset};
  std::atomic<std::int64_t> highest_{unset};
  std::atomic<std::int64_t> seen_{0};
  std::atomic<std::int64_t> last_{0};
};

}  // namespace tenure::postgres
