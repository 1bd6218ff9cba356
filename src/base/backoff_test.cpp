#include "base/backoff.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>

namespace tenure::base {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST(Backoff, TheLimitDoublesUpToTheCap) {
  std::mt19937_64 random{7};
  Backoff backoff{10ms, 75ms};
  for (const nanoseconds expected : {10ms, 20ms, 40ms, 75ms, 75ms}) {
    EXPECT_EQ(backoff.limit(), expected);
    EXPECT_EQ(backoff.at_cap(), expected == 75ms);
    EXPECT_LE(backoff.next(random), expected);
  }
  backoff.reset();
  EXPECT_EQ(backoff.limit(), 10ms);
}

TEST(Backoff, PausesAreSpreadEvenly) {
  constexpr int count = 40'000;
  std::mt19937_64 random{7};
  Backoff backoff{1s, 1s};
  int low = 0;
  nanoseconds shortest = 1s;
  nanoseconds longest = 0s;
  nanoseconds sum{0};
  for (int i = 0; i < count; ++i) {
    const nanoseconds pause = backoff.next(random);
    if (pause < 250ms) ++low;
    sum += pause;
    shortest = std::min(shortest, pause);
    longest = std::max(longest, pause);
  }
  EXPECT_NEAR(low, count / 4, count / 50);
  EXPECT_LT(shortest, 1ms);
  EXPECT_GT(longest, 999ms);
  EXPECT_NEAR(std::chrono::duration<double>(sum / count).count(), 0.5, 0.01);
}

TEST(Backoff, NothingOverflowsAndNoPauseExceedsTheCap) {
  EXPECT_TRUE(rc::check([] {
    const auto any = rc::gen::inRange<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
    const nanoseconds base{*any};
    const nanoseconds cap{*any};
    std::mt19937_64 random{static_cast<std::uint64_t>(*any)};
    Backoff backoff{base, cap};
    for (int i = 0; i < 70; ++i) {
      const nanoseconds pause = backoff.next(random);
      RC_ASSERT(pause >= 0ns);
      RC_ASSERT(pause <= cap);
    }
    RC_ASSERT(base == 0ns || backoff.at_cap());
  }));
}

}  // namespace
}  // namespace tenure::base
