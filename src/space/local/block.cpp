#include "space/local/block.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace tenure::local {
namespace {

// All blocks have the same size, because there is one kind of shard. Free blocks are linked through
// their last word, which is behind the shards.
constinit std::mutex mutex;
constinit void* unused = nullptr;  // Guarded by mutex.

void*& next_of(void* block, std::size_t bytes) noexcept {
  return *reinterpret_cast<void**>(static_cast<std::byte*>(block) + bytes);
}

// In the child, a thread that no longer exists may hold the mutex and have begun to change the
// list.
void begin_anew_in_child() noexcept {
  std::construct_at(&mutex);
  unused = nullptr;
}

}  // namespace

void* take_block(std::size_t bytes) {
  static const int registered = ::pthread_atfork(nullptr, nullptr, begin_anew_in_child);
  static_cast<void>(registered);
  {
    const std::scoped_lock lock{mutex};
    if (unused != nullptr) return std::exchange(unused, next_of(unused, bytes));
  }
  void* const block = ::mmap(nullptr, bytes + sizeof(void*), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc{};
  return block;
}

void give_block(void* block, std::size_t bytes) noexcept {
  const std::scoped_lock lock{mutex};
  next_of(block, bytes) = std::exchange(unused, block);
}

}  // namespace tenure::local
