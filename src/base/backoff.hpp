// backoff.hpp: how long to wait before a retry: exponential backoff with full jitter.
//
// The pause before attempt n is uniform in [0, min(base * 2^n, cap)], so that clients that failed
// at the same moment do not retry at the same moment. Pure: the caller sleeps, and provides the
// randomness.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace tenure::base {

class Backoff {
 public:
  // Both must be at least zero.
  constexpr Backoff(std::chrono::nanoseconds base, std::chrono::nanoseconds cap) noexcept
      : base_(std::min(base, cap)), cap_(cap), limit_(base_) {}

  template <std::uniform_random_bit_generator Random>
  [[nodiscard]] std::chrono::nanoseconds next(Random& random) {
    const std::chrono::nanoseconds limit = limit_;
    limit_ = limit_ > cap_ / 2 ? cap_ : limit_ * 2;
    return std::chrono::nanoseconds{
        std::uniform_int_distribution<std::int64_t>{0, limit.count()}(random)};
  }

  // The largest value that the next call of next() can return.
  [[nodiscard]] constexpr std::chrono::nanoseconds limit() const noexcept { return limit_; }
  [[nodiscard]] constexpr bool at_cap() const noexcept { return limit_ == cap_; }

  // After a success.
  constexpr void reset() noexcept { limit_ = base_; }

 private:
  std::chrono::nanoseconds base_;
  std::chrono::nanoseconds cap_;
  std::chrono::nanoseconds limit_;
};

}  // namespace tenure::base
