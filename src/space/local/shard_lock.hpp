// shard_lock.hpp: the lock of one shard: nearly free for a thread that has it to itself, one locked
// instruction for those that share it, and asleep when it takes long.
//
//   bias_ == me     the shard leans to this thread, which takes it by setting `inside_` and looking
//                   again whether it still leans: two plain stores a lock and release
//   bias_ == 0      taken by a compare-exchange of `word_`, given back by a plain store
//   bias_ == other  `word_` is taken, and then the lean: bias_ = 0, wait until inside_ == 0
//
// The first thread to have `streak_limit` turns in a row is the shard's `leaner_`: the shard leans
// to it after each such streak, until another thread comes. There is one leaner for good, because
// only one thread may ever write `inside_`: it may be late with setting and clearing that when it
// finds that the shard no longer leans to it. Where a plain store and a later load must not change
// places, the side that comes rarely pays: it makes all threads of the process pass a memory
// barrier (membarrier). That is
//
//   - whoever takes the lean away, between `bias_ = 0` and reading `inside_`: the thread that had
//     it either sees that, or is seen inside;
//   - whoever goes to sleep, between saying so in `sleepers_` and looking at `word_` once more: the
//     thread that gives it back either sees the sleeper, or its store is seen.
//
// Where the kernel has no membarrier, nothing leans, and sleepers look again after a millisecond.
// On the machines that this was measured on a locked instruction costs 10 ns, as much as all else
// that a free lock does; taking a lean away costs microseconds, at most once in `streak_limit`
// turns.
//
// After the last store in unlock() another thread may destroy the shard; the read of `sleepers_`
// that follows it is why shards are in memory that is never unmapped (block.hpp), and why there
// is no constructor: all zero is an unlocked lock, and renew() makes one of a lock that was used.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/annotations.hpp"

namespace tenure::local {

// A number for this thread that no other has had, from 1 upwards, once it needed one.
inline constexpr std::uint64_t no_thread = ~std::uint64_t{0};
[[gnu::tls_model("initial-exec")]] inline thread_local constinit std::uint64_t thread_number =
    no_thread;

class TENURE_CAPABILITY("shard") ShardLock {
 public:
  void lock() noexcept TENURE_ACQUIRE() TENURE_LOCKS_A_SET {
    if (!enter_leaning()) lock_word();
  }

  // For a new space: forgets who had it.
  void renew() noexcept {
    bias_ = leaner_ = last_ = 0;
    streak_ = 0;
  }

  // Never waits.
  bool try_lock() noexcept TENURE_TRY_ACQUIRE(true);

  void unlock() noexcept TENURE_RELEASE() TENURE_LOCKS_A_SET {
    if (inside().load(std::memory_order_relaxed) == thread_number) {
      inside().store(0, std::memory_order_release);
      return;
    }
    word().store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // The compiler keeps the order as well.
    if (sleepers().load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

 private:
  static constexpr std::uint32_t streak_limit = 4096;

  [[nodiscard]] std::atomic_ref<std::uint32_t> word() noexcept { return std::atomic_ref{word_}; }
  [[nodiscard]] std::atomic_ref<std::uint32_t> sleepers() noexcept {
    return std::atomic_ref{sleepers_};
  }
  [[nodiscard]] std::atomic_ref<std::uint64_t> bias() noexcept { return std::atomic_ref{bias_}; }
  [[nodiscard]] std::atomic_ref<std::uint64_t> inside() noexcept {
    return std::atomic_ref{inside_};
  }

  [[nodiscard]] bool enter_leaning() noexcept {
    const std::uint64_t me = thread_number;
    if (bias().load(std::memory_order_relaxed) != me) return false;
    inside().store(me, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (bias().load(std::memory_order_acquire) == me) [[likely]]
      return true;
    inside().store(0, std::memory_order_release);
    return false;
  }
  // Or did a moment ago.
  [[nodiscard]] bool leans() noexcept {
    return (bias().load(std::memory_order_relaxed) | inside().load(std::memory_order_acquire)) != 0;
  }
  [[nodiscard]] bool take_word() noexcept {
    std::uint32_t free = 0;
    return word().compare_exchange_strong(free, 1, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void lock_word() noexcept {
    if (!take_word()) [[unlikely]]
      wait_for_word();
    if (leans()) [[unlikely]]
      take_lean_away();
    if (last_ != thread_number || ++streak_ == streak_limit) [[unlikely]]
      end_streak();
  }
  void wait_for_word() noexcept;
  void take_lean_away() noexcept;
  void end_streak() noexcept;
  void wake() noexcept;

  std::uint32_t word_;      // 0: free, 1: taken.
  std::uint32_t sleepers_;  // Threads that sleep, or are about to.
  std::uint64_t bias_;      // The thread that the shard leans to, or 0. Changed with word_ taken.
  std::uint64_t inside_;    // That thread while it is inside without word_, or 0. Only it writes.
  std::uint64_t leaner_;    // The only thread that it ever leans to, or 0; guarded by word_.
  std::uint64_t last_;      // Who took word_ last; the same.
  std::uint32_t streak_;    // How often in a row; the same.
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
