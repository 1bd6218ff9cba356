// allocations.hpp: how often the program allocated memory: malloc and its variants, operator new,
// and mmap.
#pragma once

#include <cstdint>

namespace tenure::bench {

// Since the program started, by any thread. Always 0 with sanitizers, which have their own malloc.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace tenure::bench
