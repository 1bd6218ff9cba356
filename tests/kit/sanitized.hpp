// sanitized.hpp: whether this program runs under a sanitizer, which makes it ten times slower.
#pragma once

#include <cstddef>

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace tenure::kit {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

// How many of `count` repetitions with other random numbers to make: a sanitizer finds in a few of
// them what it finds in all.
[[nodiscard]] constexpr std::size_t slice(std::size_t count) noexcept {
  return sanitized ? (count + 4) / 5 : count;
}

}  // namespace tenure::kit
