// boot_clock.hpp: CLOCK_BOOTTIME, the time since the machine was started. It never steps, all
// processes of the machine share it, and it continues while the machine sleeps. Leases and
// deadlines are counted on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace tenure::base {

[[nodiscard]] inline std::int64_t boot_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return (std::int64_t{time.tv_sec} * 1'000'000'000) + time.tv_nsec;
}

// The same as a duration.
using BootTime = std::chrono::nanoseconds;
[[nodiscard]] inline BootTime boot_time() noexcept { return BootTime{boot_ns()}; }

}  // namespace tenure::base
