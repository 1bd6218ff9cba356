// ring.hpp: coroutines that pass one key around, so that hand-offs can be counted.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "tenure/await.hpp"
#include "tenure/claim.hpp"
#include "tenure/hold.hpp"
#include "tenure/space.hpp"

namespace tenure::bench {

// Memory for coroutine frames that was touched before anything is measured. While one exists, all
// frames of Detached coroutines come from it; otherwise from the heap.
class FrameArena {
 public:
  explicit FrameArena(std::size_t bytes) : memory_(bytes, std::byte{1}) { current = this; }
  FrameArena(const FrameArena&) = delete;
  FrameArena& operator=(const FrameArena&) = delete;
  ~FrameArena() { current = nullptr; }

  [[nodiscard]] std::size_t used() const noexcept { return used_; }

  static void* take(std::size_t bytes) {
    if (current == nullptr) return ::operator new(bytes);
    FrameArena& arena = *current;
    void* const frame = arena.memory_.data() + arena.used_;
    arena.used_ += (bytes + 15) / 16 * 16;
    if (arena.used_ > arena.memory_.size()) throw std::bad_alloc{};
    return frame;
  }
  static void give(void* frame) noexcept {
    if (current == nullptr) ::operator delete(frame);
  }

 private:
  static inline FrameArena* current = nullptr;
  std::vector<std::byte> memory_;
  std::size_t used_ = 0;
};

// A minimal coroutine: it runs until it waits, and frees itself at its end.
struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name.
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::terminate(); }
    static void* operator new(std::size_t bytes) { return FrameArena::take(bytes); }
    static void operator delete(void* frame) noexcept { FrameArena::give(frame); }
  };
};

// While it turns, one coroutine holds the claim and `waiting` others wait for it. Each releases it
// as soon as it is granted, and requests it again.
class Ring {
 public:
  Ring(const Space& space, Claim claim, std::size_t waiting)
      : space_(space), claim_(std::move(claim)), parked_(space.lock(claim_)) {
    for (std::size_t i = 0; i <= waiting; ++i) member(this);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    left_ = 0;
    parked_.release();
  }

  // Returns after that many hand-offs.
  void turn(std::uint64_t handoffs) {
    left_ = handoffs;
    Hold(std::move(parked_)).release();
  }

 private:
  static Detached member(Ring* ring) {
    do {
      Hold hold = co_await ring->space_.async_lock(ring->claim_);
      if (ring->left_ == 0) break;
      // The last one keeps the hold for turn() and waits as well.
      if (--ring->left_ == 0) ring->parked_ = std::move(hold);
    } while (true);
  }

  const Space& space_;
  Claim claim_;
  Hold parked_;
  std::uint64_t left_ = 0;
};

}  // namespace tenure::bench
