#include "space/local/shard_lock.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "base/futex.hpp"

namespace tenure::local {
namespace {

long membarrier(int command) noexcept { return ::syscall(SYS_membarrier, command, 0, 0); }

// Every other thread of the process has passed a barrier when this returns true.
bool barrier_everywhere() noexcept {
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  return registered && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

timespec in_a_millisecond() noexcept {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_nsec += 1'000'000;
  if (at.tv_nsec >= 1'000'000'000) {
    at.tv_nsec -= 1'000'000'000;
    ++at.tv_sec;
  }
  return at;
}

}  // namespace

void ShardLock::lock_slowly() noexcept {
  constexpr int spins = 100;  // A few critical sections' worth.
  for (int i = 0; i < spins; ++i) {
    if (word().load(std::memory_order_relaxed) == 0 && try_lock()) return;
    __builtin_ia32_pause();
  }
  sleepers().fetch_add(1, std::memory_order_relaxed);
  const bool sure = barrier_everywhere();
  while (word().exchange(1, std::memory_order_acquire) != 0) {
    const timespec limit = sure ? timespec{} : in_a_millisecond();
    base::futex_wait(&word_, 1, sure ? nullptr : &limit);
  }
  sleepers().fetch_sub(1, std::memory_order_relaxed);
}

void ShardLock::wake() noexcept { base::futex_wake(&word_, 1); }

}  // namespace tenure::local
