#include "pipeline/system_clock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace tenure::pipeline {
namespace {

// A timer that is due arms the next one, while the run that it belongs to ends.
TEST(SystemClock, KeepsNothingToCallAfterDisarm) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> runs = false;
    std::atomic<bool> goes_on = false;
    const auto part_of_the_run = std::make_shared<int>();
    SystemClock clock;
    clock.arm(clock.now(), [&] {
      runs = true;
      runs.notify_all();
      goes_on.wait(false);
      clock.arm(clock.now() + std::chrono::hours{1}, [part_of_the_run] {});
    });
    runs.wait(false);
    const std::jthread lets{[&] {
      std::this_thread::yield();
      goes_on = true;
      goes_on.notify_all();
    }};
    clock.disarm();
    EXPECT_EQ(part_of_the_run.use_count(), 1);
  }
}

}  // namespace
}  // namespace tenure::pipeline
