// futex.hpp: sleeping on a 32-bit word. std::atomic::wait has no timeout and takes a detour through
// a table of waiters, which costs each notify a shared cache line.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace tenure::base {

// Returns when woken, when the 32-bit word is not `expected`, at `deadline` (CLOCK_MONOTONIC; null:
// never), or for no reason: callers look again.
inline void futex_wait(const void* word, std::uint32_t expected,
                       const timespec* deadline = nullptr) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

// The word may already be gone: the kernel only compares addresses, and waiters expect to be woken
// for no reason.
inline void futex_wake(const void* word, int count) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace tenure::base
