// Spaces in a process that can start no more threads.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <string>

#include "tenure/await.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/no_threads.hpp"
#include "tests/kit/process.hpp"

namespace tenure {
namespace {

using kit::Line;
using kit::Process;

constexpr std::chrono::seconds patience{60};  // A child that hangs fails its test.

// --- a process that can start no thread

struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name.
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

Detached count_grants(const Space& space, Path path, std::atomic<int>& grants) {
  const Hold hold = co_await space.async_lock(path);
  ++grants;
  grants.notify_all();
}

TEST(NoThreads, ACoroutineIsResumedOnce) {
  const Process process{[](const Line& line) {
    kit::give_up_root();
    const auto store = std::make_shared<MemoryStore>();
    const Space holding = open(store);
    const Space waiting = open(store);
    Hold first = holding.lock(Path::of("first"));
    Hold second = holding.lock(Path::of("second"));
    std::atomic<int> first_grants = 0;
    std::atomic<int> second_grants = 0;
    count_grants(waiting, Path::of("first"), first_grants);
    count_grants(waiting, Path::of("second"), second_grants);
    {
      const kit::NoNewThreads limit;
      first.release();
      first_grants.wait(0);
    }
    second.release();
    second_grants.wait(0);
    line.say(std::to_string(first_grants) + " and " + std::to_string(second_grants));
  }};
  process.line().limit(patience);
  EXPECT_EQ(process.hear(), "1 and 1");
}

}  // namespace
}  // namespace tenure
