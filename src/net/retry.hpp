// retry.hpp: whether, and after which pause, an HTTP request is made again. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string_view>

#include "base/backoff.hpp"

namespace tenure::net {

using WallTime = std::chrono::system_clock::time_point;

// A Retry-After header: a number of seconds, or a date in one of HTTP's three forms (RFC 9110,
// 5.6.7). A date that has passed is 0. Null: neither; the header is ignored. At most 100 years.
[[nodiscard]] std::optional<std::chrono::seconds> parse_retry_after(std::string_view text,
                                                                    WallTime now);

// Statuses that a later attempt may not get.
[[nodiscard]] constexpr bool is_transient(std::uint32_t status) noexcept {
  return status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// The pauses of one request. With Retry-After the pause is what the server asks for and the jitter
// on top: clients that were refused together do not come back together.
class RetryPauses {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of Backoff.
  RetryPauses(std::uint32_t retries, std::chrono::nanoseconds base, std::chrono::nanoseconds cap,
              std::chrono::nanoseconds max_retry_after) noexcept
      : left_(retries), max_retry_after_(max_retry_after), backoff_(base, cap) {}

  // Null: do not try again, and do not wait either.
  template <std::uniform_random_bit_generator Random>
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next(
      std::optional<std::chrono::seconds> retry_after, Random& random) {
    if (left_ == 0 || (retry_after && *retry_after > max_retry_after_)) return std::nullopt;
    --left_;
    return backoff_.next(random) + retry_after.value_or(std::chrono::seconds{0});
  }

 private:
  std::uint32_t left_;
  std::chrono::nanoseconds max_retry_after_;
  base::Backoff backoff_;
};

}  // namespace tenure::net
