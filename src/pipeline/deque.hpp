// deque.hpp: the ready tasks of one worker: the owner pushes and takes at one end, thieves steal at
// the other one (Chase and Lev).
//
// Memory ordering. take() lowers `bottom_` and then reads `top_`; steal() reads `top_` and then
// `bottom_`. Between the two each needs a full barrier, or both could take the last task. The owner
// has the light side of an AsymmetricFence, thieves the heavy one: they run rarely. The task
// itself, and all that happened before its push, is handed over by the release of `bottom_`. Every
// store to `bottom_` is a release: a thief may read the one of a take().
//
// Rejected: stealing half of the deque at once. The owner takes without a compare-and-swap while it
// sees more than one task, so a thief that moves `top_` by more than one can take what the owner
// has taken.
//
// Thread safety: push() and take() by the owner; the others by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/membarrier.hpp"

namespace tenure::pipeline {

class Deque {
 public:
  explicit Deque(base::AsymmetricFence fence) : fence_(fence) {
    rings_.push_back(std::make_unique<Ring>(first_size));
    ring_.store(rings_.back().get(), std::memory_order_relaxed);
  }

  void push(std::uint32_t task) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    Ring* ring = ring_.load(std::memory_order_relaxed);
    if (bottom - top_.load(std::memory_order_acquire) >= ring->size()) ring = grow(bottom);
    ring->at(bottom).store(task, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);
  }

  [[nodiscard]] std::optional<std::uint32_t> take() {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    if (top_.load(std::memory_order_relaxed) > bottom) return std::nullopt;  // It only grows.
    bottom_.store(bottom, std::memory_order_release);
    fence_.light();
    std::int64_t top = top_.load(std::memory_order_relaxed);
    const std::uint32_t task =
        ring_.load(std::memory_order_relaxed)->at(bottom).load(std::memory_order_relaxed);
    if (top < bottom) return task;
    // The last one: it is whoever moves `top_`.
    const bool won = top == bottom && top_.compare_exchange_strong(top, top + 1);
    bottom_.store(bottom + 1, std::memory_order_release);
    return won ? std::optional{task} : std::nullopt;
  }

  // Nothing: it is empty, or another thread was faster.
  [[nodiscard]] std::optional<std::uint32_t> steal() {
    std::int64_t top = top_.load(std::memory_order_acquire);
    if (bottom_.load(std::memory_order_acquire) <= top) return std::nullopt;
    fence_.heavy();
    if (bottom_.load(std::memory_order_acquire) <= top) return std::nullopt;
    const std::uint32_t task =
        ring_.load(std::memory_order_acquire)->at(top).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(top, top + 1)) return std::nullopt;
    return task;
  }

  [[nodiscard]] bool empty() const noexcept {
    return bottom_.load(std::memory_order_acquire) <= top_.load(std::memory_order_acquire);
  }

 private:
  class Ring {
   public:
    explicit Ring(std::size_t size) : slots_(size) {}
    [[nodiscard]] std::int64_t size() const noexcept {
      return static_cast<std::int64_t>(slots_.size());
    }
    [[nodiscard]] std::atomic<std::uint32_t>& at(std::int64_t index) noexcept {
      return slots_[static_cast<std::size_t>(index) & (slots_.size() - 1)];
    }

   private:
    std::vector<std::atomic<std::uint32_t>> slots_;
  };

  // Old rings stay until the end: a thief may be reading one.
  Ring* grow(std::int64_t bottom) {
    Ring* const old = rings_.back().get();
    rings_.push_back(std::make_unique<Ring>(static_cast<std::size_t>(old->size()) * 2));
    Ring* const ring = rings_.back().get();
    for (std::int64_t i = top_.load(std::memory_order_acquire); i < bottom; ++i) {
      ring->at(i).store(old->at(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    ring_.store(ring, std::memory_order_release);
    return ring;
  }

  static constexpr std::size_t first_size = 256;  // A power of two.

  base::AsymmetricFence fence_;
  std::atomic<std::int64_t> bottom_{0};  // Written by the owner only.
  std::atomic<Ring*> ring_{nullptr};
  std::vector<std::unique_ptr<Ring>> rings_;
  alignas(64) std::atomic<std::int64_t> top_{0};
};

}  // namespace tenure::pipeline
