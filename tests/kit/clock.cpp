#include "tests/kit/clock.hpp"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <string_view>

#include "tests/kit/process.hpp"

namespace tenure::kit {
namespace {

using Offset = std::atomic<std::int64_t>;

Offset wall = 0;
std::atomic<Offset*> boot = nullptr;

}  // namespace

void move_wall_clock(std::chrono::nanoseconds by) { wall.fetch_add(by.count()); }

void share_boot_clock() {
  if (boot.load() != nullptr) return;
  // For all cases of this process: a clock does not go back. Never freed: threads that are still
  // there at the end of the program look at it.
  static const auto* const offset = new Shared<Offset>;
  boot.store(&**offset);
}

void move_boot_clock(std::chrono::nanoseconds by) {
  share_boot_clock();
  boot.load()->fetch_add(by.count());
}

namespace {

// gRPC and abseil sleep until a time of the kernel's wall clock. If they saw the moved one, which
// the kernel does not, they would sleep for hours, or never and keep a core busy. A wall clock that
// is really wrong is the kernel's too.
bool sleeps_by_the_wall_clock(const void* caller) noexcept {
  Dl_info info{};
  if (::dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return file.starts_with("libgpr.") || file.starts_with("libgrpc") || file.starts_with("libabsl_");
}

std::int64_t moved(clockid_t clock, const void* caller) noexcept {
  if (clock == CLOCK_REALTIME) {
    const std::int64_t by = wall.load();
    return by == 0 || sleeps_by_the_wall_clock(caller) ? 0 : by;
  }
  const Offset* const offset = boot.load();
  return clock == CLOCK_BOOTTIME && offset != nullptr ? offset->load() : 0;
}

}  // namespace
}  // namespace tenure::kit

// In the place of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t by = tenure::kit::moved(clock, __builtin_return_address(0));
  if (result != 0 || by == 0) return result;
  const std::int64_t sum = time->tv_nsec + by % second;
  time->tv_sec += by / second + (sum >= second ? 1 : 0) - (sum < 0 ? 1 : 0);
  time->tv_nsec = (sum + second) % second;
  return 0;
}
