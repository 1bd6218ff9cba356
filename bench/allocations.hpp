// allocations.hpp: how often the program asked for memory: malloc and its kin, operator new
// included, and mmap.
#pragma once

#include <cstdint>

namespace tenure::bench {

// Since the program started, by any thread. Sanitizers have a malloc of their own: always 0 there.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace tenure::bench
