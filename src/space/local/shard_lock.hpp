// shard_lock.hpp: the lock of one shard: spins briefly, then sleeps.
//
// Taking it is one compare-exchange, and giving it back is a plain store: on the machines this was
// measured on, each locked instruction costs as much as everything else that a free lock does. So
// that no sleeper is missed, whoever goes to sleep first says so in `sleepers_` and then makes
// every other thread of the process pass a memory barrier (membarrier): a thread that gives the
// lock back then either sees the sleeper, or its store is seen by the sleeper before that sleeps.
// Where the kernel has no membarrier, sleepers look again after a millisecond.
//
// While the process has one thread only, taking it is a plain store too, as in glibc's mutex. It is
// never held while code that could start a thread runs.
//
// After the store in unlock() another thread may destroy the shard; the read that follows it is why
// shards are in memory that is never unmapped (block.hpp), and why the constructor writes nothing:
// all zero is an unlocked one.
#pragma once

#include <sys/single_threaded.h>

#include <atomic>
#include <cstdint>

#include "base/annotations.hpp"

namespace tenure::local {

class TENURE_CAPABILITY("shard") ShardLock {
 public:
  void lock() noexcept TENURE_ACQUIRE() {
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }

  bool try_lock() noexcept TENURE_TRY_ACQUIRE(true) {
    if (__libc_single_threaded != 0 && word_ == 0) {
      word_ = 1;
      return true;
    }
    std::uint32_t free = 0;
    return word().compare_exchange_strong(free, 1, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  void unlock() noexcept TENURE_RELEASE() {
    word().store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // The compiler keeps the order as well.
    if (sleepers().load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  using Word = std::atomic_ref<std::uint32_t>;
  [[nodiscard]] Word word() noexcept { return Word{word_}; }
  [[nodiscard]] Word sleepers() noexcept { return Word{sleepers_}; }
  void lock_slowly() noexcept TENURE_LOCKS_A_SET;
  void wake() noexcept;

  std::uint32_t word_;      // 0: free, 1: held.
  std::uint32_t sleepers_;  // Threads that sleep, or are about to.
};

class TENURE_SCOPED_CAPABILITY ShardGuard {
 public:
  explicit ShardGuard(ShardLock& lock) noexcept TENURE_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ShardGuard(const ShardGuard&) = delete;
  ShardGuard& operator=(const ShardGuard&) = delete;
  ~ShardGuard() TENURE_RELEASE() { lock_.unlock(); }

 private:
  ShardLock& lock_;
};

}  // namespace tenure::local
