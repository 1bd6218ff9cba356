// clock.hpp: this machine's idea of the server's clock, and the clock that leases are counted by.
//
// Between the sending of a call and its answer the server's clock showed `server`. So
// server - received <= offset <= server - sent holds for the offset to CLOCK_BOOTTIME, and each
// answer moves the estimate into that interval: it is wrong by no more than a round trip, and
// follows steps of the server's clock.
//
// Thread safety: all of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>

#include "tenure/store.hpp"

namespace tenure::postgres {

// It goes on while the machine sleeps.
[[nodiscard]] inline std::int64_t boot_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return (static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000) + time.tv_nsec;
}

class ServerClock {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): three readings of clocks.
  void saw(std::int64_t server, std::int64_t sent, std::int64_t received) noexcept {
    const std::int64_t old = offset_.load();
    const std::int64_t low = server - received;
    const std::int64_t high = std::max(server - sent, low);
    const std::int64_t next = old == unset ? low : std::clamp(old, low, high);
    if (next != old) offset_.store(next);
    seen_.store(received);
  }
  [[nodiscard]] bool known() const noexcept { return offset_.load() != unset; }
  [[nodiscard]] bool fresh(std::chrono::nanoseconds within) const noexcept {
    return known() && boot_ns() - seen_.load() <= within.count();
  }
  // Does not go back, though the server's may.
  [[nodiscard]] Instant now() noexcept {
    const std::int64_t time = boot_ns() + offset_.load();
    std::int64_t last = last_.load();
    while (last < time && !last_.compare_exchange_weak(last, time)) {
    }
    return Instant{std::chrono::nanoseconds{std::max(last, time)}};
  }

 private:
  static constexpr std::int64_t unset = std::numeric_limits<std::int64_t>::min();
  std::atomic<std::int64_t> offset_{unset};
  std::atomic<std::int64_t> seen_{0};
  std::atomic<std::int64_t> last_{0};
};

}  // namespace tenure::postgres
