// block.hpp: memory for the shards of a space, used again by later spaces and never unmapped.
//
// A thread that has given back a shard's lock may still read it once (shard_lock.hpp) while another
// destroys the space. What it reads then is this lock, or that of a later space, for which an
// unneeded wake-up is harmless.
#pragma once

#include <cstddef>

namespace tenure::local {

// Zeroed when it is new, as it was left otherwise. Aligned to a page. Throws std::bad_alloc.
[[nodiscard]] void* take_block(std::size_t bytes);
void give_block(void* block, std::size_t bytes) noexcept;

}  // namespace tenure::local
