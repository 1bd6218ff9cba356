#include "base/fork.hpp"

#include <pthread.h>

namespace tenure::base {

constinit std::atomic<std::uint64_t> current_fork_generation = 0;

std::uint64_t fork_generation() noexcept {
  static const int registered = ::pthread_atfork(
      nullptr, nullptr, [] { current_fork_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(registered);
  return current_fork_generation.load(std::memory_order_relaxed);
}

}  // namespace tenure::base
