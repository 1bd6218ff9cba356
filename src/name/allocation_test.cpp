// Every lock calls a name, so a call must not allocate.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <string_view>

#include "tenure/name.hpp"
#include "tenure/path.hpp"

namespace {
std::atomic<std::size_t> allocations = 0;
}  // namespace

// Replaced for the whole test program. Not inlined: g++ would see malloc inside new, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc{};
}
// The sanitizers' own new[] would not call the operator above.
[[gnu::noinline]] void* operator new[](std::size_t size) { return ::operator new(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}

namespace tenure {
namespace {

TEST(Name, CallsDoNotAllocate) {
  const Name page{"page"};
  const Name line{"line"};
  const std::size_t before = allocations;
  const Path one = page(std::numeric_limits<std::int64_t>::min());
  const Path two = page(3) / line(7);
  const Path bare = page;
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(one.depth() + two.depth() + bare.depth(), 7U);
  const Path large = page(std::string_view{"an argument that is longer than a path's own room"});
  EXPECT_EQ(allocations, before + 1) << "the counter counts";
}

TEST(Name, RegisteringDoesNotAllocate) {
  const std::size_t before = allocations;
  {
    const Name registered{"registered"};
  }
  EXPECT_EQ(allocations, before);
}

}  // namespace
}  // namespace tenure
