#include "space/local/shard_lock.hpp"

#include <sched.h>

#include <ctime>

#include "base/futex.hpp"
#include "base/membarrier.hpp"

namespace tenure::local {

using base::barrier_everywhere;
using base::has_membarrier;

namespace {

std::uint64_t next_thread_number() noexcept {
  constinit static std::atomic<std::uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

timespec in_a_millisecond() noexcept {
  constexpr long second = 1'000'000'000;
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_nsec += second / 1000;
  if (at.tv_nsec >= second) {
    at.tv_nsec -= second;
    ++at.tv_sec;
  }
  return at;
}

constexpr int spins = 100;  // About the time of a few critical sections.

}  // namespace

bool ShardLock::try_lock() noexcept {
  if (inside().load(std::memory_order_relaxed) == thread_number) return false;
  if (enter_leaning()) return true;
  if (!take_word()) return false;
  if (!biased()) return true;
  bias().store(0, std::memory_order_relaxed);
  barrier_everywhere();
  if (inside().load(std::memory_order_acquire) == 0) return true;
  unlock();
  return false;
}

void ShardLock::wait_for_word() noexcept {
  for (int i = 0; i < spins; ++i) {
    if (word().load(std::memory_order_relaxed) == 0 && take_word()) return;
    __builtin_ia32_pause();
  }
  sleepers().fetch_add(1, std::memory_order_relaxed);
  const bool sure = has_membarrier();
  if (sure) barrier_everywhere();
  while (word().exchange(1, std::memory_order_acquire) != 0) {
    const timespec limit = sure ? timespec{} : in_a_millisecond();
    base::futex_wait(&word_, 1, sure ? nullptr : &limit);
  }
  sleepers().fetch_sub(1, std::memory_order_relaxed);
}

// Requires word_ to be taken, so no other thread does this.
void ShardLock::revoke_bias() noexcept {
  bias().store(0, std::memory_order_relaxed);
  barrier_everywhere();
  for (int i = 0; inside().load(std::memory_order_acquire) != 0; ++i) {
    if (i < spins) {
      __builtin_ia32_pause();
    } else {
      ::sched_yield();  // That thread lost its core inside; happens once in the life of a bias.
    }
  }
}

// word_ is taken: another thread's turn begins, or this one's streak is long enough.
void ShardLock::end_streak() noexcept {
  if (thread_number == no_thread) thread_number = next_thread_number();
  if (last_ == thread_number && has_membarrier()) {
    if (bias_owner_ == 0) bias_owner_ = thread_number;
    if (bias_owner_ == thread_number) bias().store(thread_number, std::memory_order_relaxed);
  }
  last_ = thread_number;
  streak_ = 0;
}

void ShardLock::wake() noexcept { base::futex_wake(&word_, 1); }

}  // namespace tenure::local
