// saturating.hpp: arithmetic of times that stops at the smallest and largest number of nanoseconds
// in 64 bits, about 292 years either way, instead of overflowing. Callers may pass any duration,
// and stored deadlines may have any value: all instants and deadlines are computed with this.
#pragma once

#include <chrono>
#include <cstdint>
#include <type_traits>

namespace tenure::detail {

// Rounded up. Of lengths within a millionth of the ends, some are the ends as well.
template <class Rep, class Period>
[[nodiscard]] constexpr std::chrono::nanoseconds to_nanoseconds(
    std::chrono::duration<Rep, Period> time) noexcept {
  using std::chrono::nanoseconds;
  if constexpr (std::is_same_v<std::chrono::duration<Rep, Period>, nanoseconds>) {
    return time;
  } else {
    constexpr double most = 9.223372e9;
    const double seconds = std::chrono::duration<double>(time).count();
    if (!(seconds < most)) return nanoseconds::max();  // Or not a number.
    if (seconds <= -most) return nanoseconds::min();
    return std::chrono::ceil<nanoseconds>(time);
  }
}

[[nodiscard]] constexpr std::chrono::nanoseconds saturating_add(
    std::chrono::nanoseconds a, std::chrono::nanoseconds b) noexcept {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a.count(), b.count(), &sum)) return std::chrono::nanoseconds{sum};
  return b.count() > 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds::min();
}

[[nodiscard]] constexpr std::chrono::nanoseconds saturating_sub(
    std::chrono::nanoseconds a, std::chrono::nanoseconds b) noexcept {
  std::int64_t rest = 0;
  if (!__builtin_sub_overflow(a.count(), b.count(), &rest)) return std::chrono::nanoseconds{rest};
  return b.count() < 0 ? std::chrono::nanoseconds::max() : std::chrono::nanoseconds::min();
}

template <class Clock>
using Nanotime = std::chrono::time_point<Clock, std::chrono::nanoseconds>;

template <class Clock>
[[nodiscard]] constexpr Nanotime<Clock> saturating_add(Nanotime<Clock> time,
                                                       std::chrono::nanoseconds by) noexcept {
  return Nanotime<Clock>{saturating_add(time.time_since_epoch(), by)};
}

template <class Clock>
[[nodiscard]] constexpr Nanotime<Clock> saturating_sub(Nanotime<Clock> time,
                                                       std::chrono::nanoseconds by) noexcept {
  return Nanotime<Clock>{saturating_sub(time.time_since_epoch(), by)};
}

// From `b` to `a`.
template <class Clock>
[[nodiscard]] constexpr std::chrono::nanoseconds saturating_sub(Nanotime<Clock> a,
                                                                Nanotime<Clock> b) noexcept {
  return saturating_sub(a.time_since_epoch(), b.time_since_epoch());
}

}  // namespace tenure::detail
