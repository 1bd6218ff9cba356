// futex.hpp: sleeping on a 32-bit word. std::atomic::wait has no timeout, and goes through a table
// of waiters, so that each notify touches a shared cache line.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace tenure::base {

// Returns when woken, if the word is not `expected`, at `deadline` (CLOCK_MONOTONIC; null: never),
// or spuriously: callers check again.
inline void futex_wait(const void* word, std::uint32_t expected,
                       const timespec* deadline = nullptr) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

// The word may already have been freed: the kernel only compares addresses, and waiters expect
// spurious wake-ups.
inline void futex_wake(const void* word, int count) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace tenure::base
