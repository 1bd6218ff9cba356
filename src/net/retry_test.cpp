#include "net/retry.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace tenure::net {
namespace {

using namespace std::chrono_literals;

const WallTime now = std::chrono::sys_days{std::chrono::year{1994} / 11 / 6} + 8h + 49min + 37s;

TEST(RetryAfter, ReadsSeconds) {
  EXPECT_EQ(parse_retry_after("0", now), 0s);
  EXPECT_EQ(parse_retry_after(" 120\t", now), 120s);
  EXPECT_EQ(parse_retry_after("99999999999999999999999", now), std::chrono::days{36'525});
}

TEST(RetryAfter, ReadsAllThreeFormsOfADate) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", now), 60s);
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:50:37 GMT", now), 60s);
  EXPECT_EQ(parse_retry_after("Sun Nov  6 08:50:37 1994", now), 60s);
  EXPECT_EQ(parse_retry_after("Wed Nov 16 08:49:37 1994", now), std::chrono::days{10});
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now + 1ms), 0s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:38 GMT", now + 1ms), 1s) << "rounded up";
}

TEST(RetryAfter, ADateThatHasPassedIsNow) {
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1993 08:49:37 GMT", now), 0s);
  // Two digits: 2050 would be more than 50 years ahead of 1994.
  EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-50 08:49:37 GMT", now), 0s);
}

TEST(RetryAfter, IgnoresAnythingElse) {
  for (const std::string_view text :
       {"", " ", "-1", "1.5", "1s", "soon", "Sun, 06 Nov 1994", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT!", "Xyz, 06 Nov 1994 08:49:37 GMT",
        "Sun Nov 06 08:49:37 "}) {
    EXPECT_EQ(parse_retry_after(text, now), std::nullopt) << text;
  }
}

TEST(RetryPauses, AreJitteredAndDouble) {
  std::mt19937 random{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same numbers each time.
  std::chrono::nanoseconds most{0};
  for (int i = 0; i < 1000; ++i) {
    RetryPauses pauses{3, 1s, 3s, 1h};
    EXPECT_LE(pauses.next({}, random).value(), 1s);
    EXPECT_LE(pauses.next({}, random).value(), 2s);
    most = std::max(most, pauses.next({}, random).value());
    EXPECT_FALSE(pauses.next({}, random).has_value());
  }
  EXPECT_LE(most, 3s);
  EXPECT_GT(most, 2s);
}

// S29: slept after the last failed attempt.
TEST(RetryPauses, S29_NoPauseAfterTheLastAttempt) {
  std::mt19937 random{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same numbers each time.
  RetryPauses pauses{0, 1s, 3s, 1h};
  EXPECT_EQ(pauses.next(5s, random), std::nullopt);
}

TEST(RetryPauses, TheServersPauseIsTheLeast) {
  std::mt19937 random{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same numbers each time.
  RetryPauses pauses{3, 1s, 3s, 1h};
  const auto pause = pauses.next(30s, random).value();
  EXPECT_GE(pause, 30s);
  EXPECT_LE(pause, 31s);
  EXPECT_EQ(pauses.next(2h, random), std::nullopt) << "longer than is allowed";
}

}  // namespace
}  // namespace tenure::net
