// fork.hpp: tells a forked child from the process that created an object.
//
// A child has copies of its parent's objects but none of its threads, and locks that may stay
// locked for ever. An object that must do nothing in a child compares the generation in which it
// was created with the current one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::base {

// Use the functions below.
extern std::atomic<std::uint64_t> current_fork_generation;

// The number of forks between this process and the first one that called this.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

// Whether this process was forked since fork_generation() returned `generation`. Costs one load.
[[nodiscard]] inline bool forked_since(std::uint64_t generation) noexcept {
  return current_fork_generation.load(std::memory_order_relaxed) != generation;
}

}  // namespace tenure::base
