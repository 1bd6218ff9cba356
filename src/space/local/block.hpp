// block.hpp: memory for the shards of a space, reused by later spaces and never unmapped.
//
// A thread that has unlocked a shard may still read its lock once (shard_lock.hpp) while another
// thread destroys the space. It then reads this lock, or that of a later space, where an unneeded
// wake-up is harmless.
#pragma once

#include <cstddef>

namespace tenure::local {

// Zeroed if it is new, otherwise as the last space left it. Aligned to a page. Throws
// std::bad_alloc.
[[nodiscard]] void* take_block(std::size_t bytes);
void give_block(void* block, std::size_t bytes) noexcept;

}  // namespace tenure::local
