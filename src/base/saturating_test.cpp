#include "tenure/detail/saturating.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>

namespace tenure::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using Time = std::chrono::sys_time<nanoseconds>;

TEST(Saturating, StopsAtTheEnds) {
  EXPECT_EQ(saturating_add(1ns, 2ns), 3ns);
  EXPECT_EQ(saturating_add(nanoseconds::max(), 1ns), nanoseconds::max());
  EXPECT_EQ(saturating_add(nanoseconds::min(), -1ns), nanoseconds::min());
  EXPECT_EQ(saturating_add(nanoseconds::max(), -1ns), nanoseconds::max() - 1ns);
  EXPECT_EQ(saturating_sub(1ns, 2ns), -1ns);
  EXPECT_EQ(saturating_sub(nanoseconds::min(), 1ns), nanoseconds::min());
  EXPECT_EQ(saturating_sub(0ns, nanoseconds::min()), nanoseconds::max());
  EXPECT_EQ(saturating_sub(-1ns, nanoseconds::min()), nanoseconds::max());
}

TEST(Saturating, SoDoInstants) {
  const Time now{1'800'000'000s};
  EXPECT_EQ(saturating_add(now, 1s), now + 1s);
  EXPECT_EQ(saturating_add(now, nanoseconds::max()), Time::max());
  EXPECT_EQ(saturating_sub(now, 1s), now - 1s);
  EXPECT_EQ(saturating_sub(Time::min(), 1s), Time::min());
  EXPECT_EQ(saturating_sub(now, now), 0ns);
  EXPECT_EQ(saturating_sub(Time::min(), now), nanoseconds::min());
  EXPECT_EQ(saturating_sub(now, Time::min()), nanoseconds::max());
}

TEST(Saturating, TakesAnyLengthOfTime) {
  EXPECT_EQ(to_nanoseconds(2h), 7'200'000'000'000ns);
  EXPECT_EQ(to_nanoseconds(-2h), -7'200'000'000'000ns);
  EXPECT_EQ(to_nanoseconds(nanoseconds::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(nanoseconds::min()), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(std::chrono::years::max()), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(std::chrono::hours::min()), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(std::chrono::duration<double, std::pico>{1}), 1ns) << "rounded up";
  using Seconds = std::chrono::duration<double>;
  EXPECT_EQ(to_nanoseconds(Seconds{1.5}), 1'500'000'000ns);
  EXPECT_EQ(to_nanoseconds(Seconds{1e300}), nanoseconds::max());
  EXPECT_EQ(to_nanoseconds(Seconds{-1e300}), nanoseconds::min());
  EXPECT_EQ(to_nanoseconds(Seconds{std::numeric_limits<double>::quiet_NaN()}), nanoseconds::max());
}

}  // namespace
}  // namespace tenure::detail
