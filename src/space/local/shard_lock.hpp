// shard_lock.hpp: the lock of one shard: nearly free for a thread that uses it alone, one locked
// instruction for threads that share it, and sleeping when it takes long.
//
//   bias_ == me     the shard is biased to this thread, which locks it by setting `inside_` and
//                   checking the bias again: two plain stores per lock and release
//   bias_ == 0      locked by a compare-exchange of `word_`, unlocked by a plain store
//   bias_ == other  `word_` is locked, then the bias is revoked: bias_ = 0, wait until inside_ == 0
//
// The first thread that has `streak_limit` turns in a row is the shard's `bias_owner_`: the shard
// becomes biased to it after each such streak, until another thread comes. There is only ever one
// leaner, because only one thread may write `inside_`: it may set and clear it late, when it finds
// that the bias was revoked. Where a plain store and a later load must not be reordered, the rare
// side pays: it makes all threads of the process pass a memory barrier (membarrier). That is
//
//   - the thread that revokes the bias, between `bias_ = 0` and reading `inside_`: the biased
//     thread either sees the revocation, or is seen inside;
//   - a thread that goes to sleep, between raising `sleepers_` and reading `word_` once more: the
//     unlocking thread either sees the sleeper, or its store is seen.
//
// If the kernel has no membarrier, nothing is biased, and sleepers check again after a millisecond.
// On the measured machines a locked instruction costs 10 ns, as much as everything else that a free
// lock does; revoking a bias costs microseconds, at most once per `streak_limit` turns.
//
// After the last store in unlock() another thread may destroy the shard. unlock() then still reads
// `sleepers_`, so shards are in memory that is never unmapped (block.hpp), and there is no
// constructor: all zero is an unlocked lock, and renew() resets a lock that was used.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/annotations.hpp"

namespace tenure::local {

// A number for this thread that no other thread has had, from 1 upwards, assigned when first
// needed.
inline constexpr std::uint64_t no_thread = ~std::uint64_t{0};
[[gnu::tls_model("initial-exec")]] inline thread_local constinit std::uint64_t thread_number =
    no_thread;

class TENURE_CAPABILITY("shard") ShardLock {
 public:
  void lock() noexcept TENURE_ACQUIRE() TENURE_LOCKS_A_SET {
    if (!enter_leaning()) lock_word();
  }

  // For a new space: forgets who used it.
  void renew() noexcept {
    bias_ = bias_owner_ = last_ = 0;
    streak_ = 0;
  }

  // Never waits. Returns false if the calling thread itself has the lock.
  bool try_lock() noexcept TENURE_TRY_ACQUIRE(true);

  void unlock() noexcept TENURE_RELEASE() TENURE_LOCKS_A_SET {
    if (inside().load(std::memory_order_relaxed) == thread_number) {
      leave_leaning();
    } else {
      unlock_word();
    }
  }

 private:
  friend class ShardGuard;
  static constexpr std::uint32_t streak_limit = 4096;

  void leave_leaning() noexcept { inside().store(0, std::memory_order_release); }
  void unlock_word() noexcept {
    word().store(0, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // Keeps the compiler from reordering.
    if (sleepers().load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake();
  }

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
  // Or was a moment ago.
  [[nodiscard]] bool biased() noexcept {
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
    if (biased()) [[unlikely]]
      revoke_bias();
    if (last_ != thread_number || ++streak_ == streak_limit) [[unlikely]]
      end_streak();
  }
  void wait_for_word() noexcept;
  void revoke_bias() noexcept;
  void end_streak() noexcept;
  void wake() noexcept;

  std::uint32_t word_;      // 0: free, 1: taken.
  std::uint32_t sleepers_;  // Threads that sleep, or are about to.
  // The thread that the shard is biased to, or 0. Changed with word_ taken.
  std::uint64_t bias_;
  std::uint64_t inside_;  // That thread while it is inside without word_, or 0. Only it writes.
  // The only thread that the shard is ever biased to, or 0; guarded by word_.
  std::uint64_t bias_owner_;
  std::uint64_t last_;    // The last thread that took word_; guarded by word_.
  std::uint32_t streak_;  // How often in a row; guarded by word_.
};

class TENURE_SCOPED_CAPABILITY ShardGuard {
 public:
  explicit ShardGuard(ShardLock& lock) noexcept TENURE_ACQUIRE(lock)
      : lock_(lock), leaning_(lock.enter_leaning()) {
    if (!leaning_) lock_.lock_word();
  }
  ShardGuard(const ShardGuard&) = delete;
  ShardGuard& operator=(const ShardGuard&) = delete;
  ~ShardGuard() TENURE_RELEASE() {
    if (leaning_) {
      lock_.leave_leaning();
    } else {
      lock_.unlock_word();
    }
  }

 private:
  ShardLock& lock_;
  const bool leaning_;
};

}  // namespace tenure::local
