#include "space/timers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace tenure::space {
namespace {

using namespace std::chrono_literals;

struct MovedClock {
  std::atomic<std::int64_t> ns = 0;
  [[nodiscard]] Timers::Clock reading() {
    return [this] { return Instant{std::chrono::nanoseconds{ns.load()}}; };
  }
};

void until(const std::atomic<int>& count, int value) {
  while (count < value) std::this_thread::yield();
}

TEST(Timers, CallsEachOnceInOrderOfTime) {
  MovedClock clock;
  std::string order;
  std::atomic<int> calls = 0;
  Timers timers{clock.reading()};
  const auto note = [&](char name) {
    return [&, name] {
      order += name;
      ++calls;
    };
  };
  timers.set(1, Instant{30s}, note('c'));
  timers.set(2, Instant{10s}, note('x'));
  timers.set(2, Instant{20s}, note('b'));  // Replaced.
  timers.set(3, Instant{15s}, note('y'));
  timers.set(4, Instant{5s}, note('a'));
  timers.cancel(3);
  timers.cancel(7);
  clock.ns = std::chrono::nanoseconds{19s}.count();
  timers.wake();
  until(calls, 1);
  clock.ns = std::chrono::nanoseconds{40s}.count();  // Noticed without being woken, too.
  until(calls, 3);
  EXPECT_EQ(order, "abc");
}

TEST(Timers, ACallMaySetAndCancel) {
  MovedClock clock;
  std::atomic<int> calls = 0;
  Timers timers{clock.reading()};
  timers.set(1, Instant{}, [&] {
    ++calls;
    timers.cancel(1);
    timers.set(2, Instant{}, [&] { ++calls; });
  });
  until(calls, 2);
}

}  // namespace
}  // namespace tenure::space
