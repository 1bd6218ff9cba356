// membarrier.hpp: a memory barrier on every thread of the process, for the side of a protocol that
// runs rarely.
//
// Two threads that each store one word and then load the other's need a full barrier between store
// and load; otherwise both loads can miss both stores. With membarrier(2) the frequent side needs
// only a compiler barrier: the rare side makes every thread pass a full barrier.
#pragma once

#include <atomic>

namespace tenure::base {

// Whether the kernel supports it. The first call registers the process.
[[nodiscard]] bool has_membarrier() noexcept;

// When this returns, every other thread of the process has passed a full barrier. Requires
// has_membarrier().
void barrier_everywhere() noexcept;

// Both sides of the protocol, with membarrier(2) or, if the kernel lacks it, with full barriers.
class AsymmetricFence {
 public:
  explicit AsymmetricFence(bool allow_membarrier) noexcept
      : asymmetric_(allow_membarrier && has_membarrier()) {}

  // For the frequent side.
  void light() const noexcept {
    if (asymmetric_) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full();
    }
  }
  // For the rare side.
  void heavy() const noexcept {
    full();
    if (asymmetric_) barrier_everywhere();
  }
  [[nodiscard]] bool asymmetric() const noexcept { return asymmetric_; }

 private:
  // g++ warns that its thread sanitizer ignores fences. No report depends on one, because data is
  // passed with release and acquire only.
  static void full() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

  bool asymmetric_;
};

}  // namespace tenure::base
