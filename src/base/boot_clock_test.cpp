#include "base/boot_clock.hpp"

#include <gtest/gtest.h>

#include <ctime>

namespace tenure::base {
namespace {

TEST(BootClock, IsTheKernelsAndDoesNotGoBack) {
  timespec kernel{};
  ASSERT_EQ(::clock_gettime(CLOCK_BOOTTIME, &kernel), 0);
  const std::int64_t first = boot_ns();
  const BootTime second = boot_time();
  EXPECT_GE(first, std::int64_t{kernel.tv_sec} * 1'000'000'000 + kernel.tv_nsec);
  EXPECT_GE(second.count(), first);
}

}  // namespace
}  // namespace tenure::base
