// membarrier.hpp: a memory barrier on every thread of the process, for the side of a protocol that
// runs rarely.
//
// Two threads that each store one word and then load the other's need a full barrier between store
// and load, or both loads can miss both stores. With membarrier(2) the side that runs often needs
// only a compiler barrier: the other side makes it pass a full one.
#pragma once

#include <atomic>

namespace tenure::base {

// Whether the kernel has it. Registers the process on the first call.
[[nodiscard]] bool has_membarrier() noexcept;

// Every other thread of the process has passed a full barrier when this returns. Requires:
// has_membarrier().
void barrier_everywhere() noexcept;

// Both sides of the protocol, with membarrier(2) or, where it is missing, with full barriers.
class AsymmetricFence {
 public:
  explicit AsymmetricFence(bool allow_membarrier) noexcept
      : asymmetric_(allow_membarrier && has_membarrier()) {}

  // The side that runs often.
  void light() const noexcept {
    if (asymmetric_) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      full();
    }
  }
  // The side that runs rarely.
  void heavy() const noexcept {
    full();
    if (asymmetric_) barrier_everywhere();
  }
  [[nodiscard]] bool asymmetric() const noexcept { return asymmetric_; }

 private:
  // g++ warns that its thread sanitizer ignores fences; data is handed over by release and acquire
  // alone, so no report depends on one.
  static void full() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

  bool asymmetric_;
};

}  // namespace tenure::base
