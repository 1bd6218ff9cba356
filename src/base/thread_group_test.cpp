#include "base/thread_group.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>

namespace tenure::base {
namespace {

using namespace std::chrono_literals;

TEST(ThreadGroup, WaitsForAllJobsAndASlowOneDelaysNone) {
  std::latch go{1};
  std::latch quick{8};
  std::atomic<int> done = 0;
  {
    ThreadGroup group;
    group.run([&] {
      go.wait();
      ++done;
    });
    for (int i = 0; i < 8; ++i) {
      group.run([&] {
        ++done;
        quick.count_down();
      });
    }
    quick.wait();
    EXPECT_EQ(done, 8);
    EXPECT_FALSE(group.wait_for(1ms)) << "the slow one is left alone";
    group.run([&] { go.count_down(); });
  }
  while (done < 9) std::this_thread::yield();
}

TEST(ThreadGroup, AJobMayDestroyItsGroup) {
  auto group = std::make_unique<ThreadGroup>();
  std::latch done{1};
  std::latch created{1};
  group->run([&] {
    created.wait();
    group.reset();
    done.count_down();
  });
  created.count_down();
  done.wait();
  EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace tenure::base
