// fork.hpp: telling a forked child from the process that made an object.
//
// A child has copies of its parent's objects, but none of its threads, and locks that may be held
// for ever. Whatever must do nothing there compares the generation it was made in with this one.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::base {

// Read through the functions below.
extern std::atomic<std::uint64_t> current_fork_generation;

// How many forks lie between this process and the first one that asked.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

// Whether this process was forked since fork_generation() returned that. Costs a load.
[[nodiscard]] inline bool forked_since(std::uint64_t generation) noexcept {
  return current_fork_generation.load(std::memory_order_relaxed) != generation;
}

}  // namespace tenure::base
