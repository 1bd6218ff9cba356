#include "space/local/shard_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/kit/patience.hpp"

namespace tenure::local {
namespace {

// All zero, as in the memory of shards.
struct Shared {
  ShardLock lock{};
  long count = 0;  // Guarded by the lock; the thread sanitizer checks it.
};

bool try_once(Shared& shared) {
  if (!shared.lock.try_lock()) return false;
  ++shared.count;
  shared.lock.unlock();
  return true;
}

TEST(ShardLock, CountsRightWhileThreadsTakeTurns) {
  Shared shared;
  const auto work = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const ShardGuard guard{shared.lock};
      ++shared.count;
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work, 30'000);
  threads.clear();
  EXPECT_EQ(shared.count, 120'000);
}

// Long streaks, so that the lock becomes biased, and threads that revoke the bias all the time.
TEST(ShardLock, CountsRightWhileItIsBiased) {
  Shared shared;
  std::atomic<bool> stop = false;
  std::atomic<long> own = 0;
  long others = 0;
  std::jthread leaner{[&] {
    while (!stop) {
      const ShardGuard guard{shared.lock};
      ++shared.count;
      ++own;
    }
  }};
  for (int i = 0; i < 200; ++i) {
    {
      const ShardGuard guard{shared.lock};
      ++shared.count;
      ++others;
    }
    others += try_once(shared) ? 1 : 0;
    const long now = own;
    kit::until([&] { return own >= now + 2000; });  // It has a streak.
  }
  stop = true;
  leaner.join();
  EXPECT_EQ(shared.count, own + others);
}

TEST(ShardLock, TryLockNeverWaits) {
  Shared shared;
  {
    const ShardGuard guard{shared.lock};
    std::jthread other{[&] { EXPECT_FALSE(try_once(shared)); }};
  }
  EXPECT_TRUE(try_once(shared));
  // Biased to this thread, and inside.
  for (int i = 0; i < 10'000; ++i) {
    const ShardGuard guard{shared.lock};
  }
  {
    const ShardGuard guard{shared.lock};
    std::jthread other{[&] { EXPECT_FALSE(try_once(shared)); }};
  }
  std::jthread other{[&] { EXPECT_TRUE(try_once(shared)); }};
}

// A thread that holds several shards may meet one of them again while it frees nodes.
TEST(ShardLock, TryLockFailsForTheThreadThatIsInside) {
  Shared shared;
  {
    const ShardGuard guard{shared.lock};
    EXPECT_FALSE(try_once(shared));
  }
  for (int i = 0; i < 10'000; ++i) {
    const ShardGuard guard{shared.lock};
  }
  {
    const ShardGuard guard{shared.lock};  // Biased to this thread.
    EXPECT_FALSE(try_once(shared));
    std::jthread other{[&] { EXPECT_FALSE(try_once(shared)); }};
  }
  EXPECT_TRUE(try_once(shared));
}

}  // namespace
}  // namespace tenure::local
