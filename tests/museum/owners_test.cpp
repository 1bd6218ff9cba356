// Owners that would wait for themselves.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

const Name shelf{"museum-shelf"};

// The message of a Deadlock error without numbers; empty if there was none.
template <class F>
std::string deadlock_of(const F& ask) {
  try {
    ask();
  } catch (const Deadlock& error) {
    std::string text = error.what();
    for (std::size_t at = 0; (at = text.find(", ticket ", at)) != std::string::npos;) {
      text.erase(at, text.find(')', at) - at);
    }
    return text.substr(0, text.find(';'));
  }
  return {};
}

TEST(Museum, M33_ReadingAgainBehindAWaitingWriterIsADeadlockAtOnce) {
  Space space = open("local:");
  const Locker reader = space.as("reader");
  Hold reading = reader.lock(shelf.shared());
  std::optional<Hold> written;
  std::jthread writer{[&] { written = space.as("writer").lock(shelf(3)); }};
  until_waiting(space, 1);

  EXPECT_EQ(deadlock_of([&] { std::ignore = reader.lock(shelf.shared()); }),
            "deadlock: reader (museum-shelf:shared) waits for writer (museum-shelf/3), "
            "writer (museum-shelf/3) waits for reader (museum-shelf:shared)");
  EXPECT_EQ(space.inspect().size(), 2U) << "the refused request is gone, the others are not";

  EXPECT_TRUE(reading.release());
  writer.join();
  EXPECT_TRUE(written.has_value());
}

// Without an owner, requests are independent: the second read simply waits its turn.
TEST(Museum, M33_AStrangerWhoReadsBehindTheWriterWaits) {
  Space space = open("local:");
  Hold reading = space.as("reader").lock(shelf.shared());
  Arrivals arrivals;
  arrive(space.as("writer"), shelf(3), 0, &arrivals);
  arrive(space.as("stranger"), shelf.shared(), 1, &arrivals);
  EXPECT_EQ(waiting(space), 2U);
  reading.release();
  arrivals.due.run_one();
  arrivals.holds.clear();
  arrivals.due.run_one();
  EXPECT_EQ(arrivals.order, (std::vector<std::size_t>{0, 1}));
}

base::Detached ask_again(Locker locker, std::string* said) {
  try {
    const Hold hold = co_await locker.async_lock(shelf(1));
  } catch (const Deadlock& error) {
    *said = error.what();
  }
}

TEST(Museum, M40_AskingAgainForWhatIsHeldIsADeadlockAtOnce) {
  using namespace std::chrono_literals;
  Space space = open("local:");
  const Locker owner = space.as("job");
  const Locker step = space.as(Owner{"job"}.child("step"));
  const Hold outer = owner.lock(shelf(1));
  const std::string cycle = "deadlock: job (museum-shelf/1) waits for job (museum-shelf/1)";

  EXPECT_EQ(deadlock_of([&] { std::ignore = owner.lock(shelf(1)); }), cycle);
  EXPECT_EQ(deadlock_of([&] { std::ignore = owner.lock(shelf(1), std::stop_token{}); }), cycle);
  EXPECT_EQ(deadlock_of([&] { std::ignore = owner.try_lock_for(shelf(1), 1h); }), cycle);
  EXPECT_EQ(deadlock_of([&] { owner.with(shelf(1), [] { FAIL() << "nested"; }); }), cycle);
  EXPECT_EQ(deadlock_of([&] { std::ignore = step.lock(shelf(1)); }),
            "deadlock: job/step (museum-shelf/1) waits for job (museum-shelf/1)");
  EXPECT_NE(deadlock_of([&] { std::ignore = owner.lock(shelf); }), "") << "what is above it";
  EXPECT_NE(deadlock_of([&] { std::ignore = owner.lock(shelf(1) / shelf); }), "") << "and below";
  std::string said;
  ask_again(owner, &said);
  EXPECT_TRUE(said.starts_with("deadlock: job")) << said;

  EXPECT_FALSE(owner.try_lock(shelf(1)).has_value()) << "a try never waits, not even for itself";
  EXPECT_EQ(space.inspect().size(), 1U);
}

}  // namespace
}  // namespace tenure::museum
