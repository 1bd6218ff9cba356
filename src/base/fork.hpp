// fork.hpp: telling a forked child from the process that made an object.
//
// A child has copies of its parent's objects, but none of its threads, and locks that may be held
// for ever. Whatever must do nothing there compares the generation it was made in with this one.
#pragma once

#include <cstdint>

namespace tenure::base {

// How many forks lie between this process and the first one that asked.
[[nodiscard]] std::uint64_t fork_generation() noexcept;

}  // namespace tenure::base
