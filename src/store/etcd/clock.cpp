#include "store/etcd/clock.hpp"

#include <sys/random.h>

#include <algorithm>
#include <chrono>

namespace tenure::etcd {
namespace {

constexpr std::int64_t ns_in_second = 1'000'000'000;
// A machine without a real-time clock starts in 1970. A clock far in the future is as wrong, and
// would move all other clients forward.
constexpr std::int64_t earliest_ns = 1'500'000'000'000'000'000;
constexpr std::int64_t latest_ns = 4'200'000'000'000'000'000;

// Unique times are so many nanoseconds apart, and each process has an offset of its own in between.
constexpr std::int64_t tags = 4096;

std::int64_t random_tag() noexcept {
  std::uint16_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
  }
  return number % tags;
}

template <typename Number>
void raise(std::atomic<Number>& value, Number to) noexcept {
  Number old = value.load(std::memory_order_relaxed);
  while (old < to && !value.compare_exchange_weak(old, to, std::memory_order_relaxed)) {
  }
}

std::int64_t wall_clock_ns() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

Clock::Clock() noexcept
    : Clock(Source{.boot_ns = &base::boot_ns, .wall_ns = wall_clock_ns(), .tag = random_tag()}) {}

Clock::Clock(const Source& source) noexcept
    : boot_ns_(source.boot_ns),
      ahead_ns_(std::clamp(source.wall_ns, earliest_ns, latest_ns) - boot_ns_()),
      tag_(source.tag) {}

Instant Clock::now() const noexcept {
  return Instant{std::chrono::nanoseconds{boot_ns_() + ahead_ns_.load()}};
}

Instant Clock::unique_time() noexcept {
  const std::int64_t now = boot_ns_() + ahead_ns_.load();
  std::int64_t last = last_unique_.load(std::memory_order_relaxed);
  std::int64_t next = 0;
  do {
    // Not ahead of now: other clients would follow.
    next = std::max((now / tags - 1) * tags, last + tags);
  } while (!last_unique_.compare_exchange_weak(last, next, std::memory_order_relaxed));
  return Instant{std::chrono::nanoseconds{next + tag_}};
}

void Clock::see(Instant time) noexcept {
  const std::int64_t shown = time.time_since_epoch().count();
  if (shown <= latest_ns) raise(ahead_ns_, shown - boot_ns_());
}

std::uint64_t Clock::slot() const noexcept {
  constexpr auto second = static_cast<std::uint64_t>(ns_in_second);
  const auto now = static_cast<std::uint64_t>(boot_ns_() + ahead_ns_.load());
  return (now / second * heads_a_second) + (now % second * heads_a_second / second);
}

}  // namespace tenure::etcd
