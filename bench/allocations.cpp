#include "bench/allocations.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace {
constinit std::atomic<std::uint64_t> count = 0;
}  // namespace

namespace tenure::bench {
std::uint64_t allocations() noexcept { return count.load(std::memory_order_relaxed); }
}  // namespace tenure::bench

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENURE_OTHER_MALLOC
#endif
#endif
#if !defined(TENURE_OTHER_MALLOC) && !defined(__SANITIZE_ADDRESS__) && defined(__GLIBC__)

namespace {
void count_one() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

// The program's definitions take precedence over those of the C library, which keeps its own under
// these names for this purpose. free() is not counted, and not replaced.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t items, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  count_one();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t items, std::size_t bytes) noexcept {
  count_one();
  return __libc_calloc(items, bytes);
}

void* realloc(void* memory, std::size_t bytes) noexcept {
  count_one();
  return __libc_realloc(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count_one();
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  count_one();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

void* mmap(void* address, std::size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  count_one();
  return reinterpret_cast<void*>(  // NOLINT(performance-no-int-to-ptr)
      ::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif
