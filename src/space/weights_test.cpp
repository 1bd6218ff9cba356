// Requests that take several permits of a limit, in every space.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using AnyWeights = AnySpace;
TENURE_IN_ALL_SPACES(AnyWeights);

const Path ram = Path::of("ram");
const Path disk = Path::of("disk");

TEST_P(AnyWeights, AddUpToTheLimit) {
  const Space space = open_new();
  std::optional<Hold> three = space.try_lock(ram.permits(4).take(3));
  ASSERT_TRUE(three);
  EXPECT_FALSE(space.try_lock(ram.permits(4).take(2)));
  EXPECT_FALSE(space.available(ram.permits(4).take(2)));
  EXPECT_TRUE(space.available(ram.permits(4)));
  const std::optional<Hold> one = space.try_lock(ram.permits(4));
  EXPECT_TRUE(one);
  EXPECT_FALSE(space.try_lock(ram.permits(4)));
  EXPECT_EQ(three->claims(), std::vector{ram.permits(4).take(3)});
  EXPECT_EQ(told(space), "1 holds ram:permits(4) take=3, 2 holds ram:permits(4)");
  three.reset();
  EXPECT_TRUE(space.try_lock(ram.permits(4).take(3)));
  EXPECT_FALSE(space.try_lock(ram.permits(4).take(4)));
}

// A large request waits for its turn, and small ones that come later wait behind it.
TEST_P(AnyWeights, ALargeRequestIsNotOvertaken) {
  const Space space = open_new();
  std::optional<Hold> first = space.lock(ram.permits(4).take(2));
  std::optional<Hold> second = space.lock(ram.permits(4));
  std::atomic<bool> large = false;
  std::jthread waiter{[&] {
    const Hold hold = space.lock(ram.permits(4).take(3));
    large = true;
  }};
  await_waiters(space, 1);
  EXPECT_FALSE(space.try_lock(ram.permits(4))) << "there is room for 1, but another one waits";
  EXPECT_FALSE(space.available(ram.permits(4)));
  std::jthread small{[&] {
    const Hold hold = space.lock(ram.permits(4).take(2));
    EXPECT_TRUE(large);
  }};
  await_waiters(space, 2);
  EXPECT_EQ(told(space),
            "1 holds ram:permits(4) take=2, 2 holds ram:permits(4), "
            "3 waits for ram:permits(4) take=3 at 1 behind 1 2, "
            "4 waits for ram:permits(4) take=2 at 2 behind 1 2 3");
  second.reset();
  EXPECT_FALSE(large);
  first.reset();
}

TEST_P(AnyWeights, ALargeRequestThatGivesUpLetsSmallOnesIn) {
  const Space space = open_new();
  std::atomic<int> in = 0;
  std::vector<std::jthread> small;  // They end after `first`, also if the test fails.
  const Hold first = space.lock(ram.permits(4).take(2));
  std::stop_source give_up;
  std::jthread large{
      [&] { EXPECT_FALSE(space.lock(ram.permits(4).take(4), give_up.get_token())); }};
  await_waiters(space, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    small.emplace_back([&] {
      const Hold hold = space.lock(ram.permits(4));
      ++in;
    });
    await_waiters(space, 2 + i);
  }
  give_up.request_stop();
  kit::until([&] { return in == 2; });  // While `first` is held.
}

TEST_P(AnyWeights, OneReleaseLetsSeveralIn) {
  const Space space = open_new();
  Hold all = space.lock(ram.permits(4).take(4));
  std::atomic<int> in = 0;
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < 3; ++i) {
    waiters.emplace_back([&, i] {
      const Hold hold = space.lock(i == 1 ? ram.permits(4).take(2) : ram.permits(4));
      ++in;
      kit::until([&] { return in == 3; });  // Only if all are in at once.
    });
    await_waiters(space, 1 + i);
  }
  all.release();
}

TEST_P(AnyWeights, CountInEveryClaimOfARequest) {
  const Space space = open_new();
  std::optional<Hold> both = space.lock({disk, ram.permits(4).take(3)});
  const Hold several = space.lock({Path::of("x"), ram.permits(4)});
  EXPECT_FALSE(space.try_lock(ram.permits(4)));
  EXPECT_FALSE(space.try_lock({Path::of("y").permits(9).take(8), ram.permits(4)}));
  both.reset();
  EXPECT_TRUE(space.try_lock({Path::of("y").permits(9).take(8), ram.permits(4).take(3)}));
  EXPECT_FALSE(space.try_lock(ram)) << "another mode waits for all members";
}

TEST_P(AnyWeights, LimitsMustAgreeWhateverIsTaken) {
  const Space space = open_new();
  std::optional<Hold> hold = space.lock(ram.permits(4).take(3));
  EXPECT_THROW(static_cast<void>(space.lock(ram.permits(5))), LimitMismatch);
  EXPECT_THROW(static_cast<void>(space.lock(ram.permits(5).take(3))), LimitMismatch);
  EXPECT_THROW(static_cast<void>(space.try_lock(ram.group("permits"))), LimitMismatch);
  hold.reset();
  hold = space.lock(ram.permits(4));
  EXPECT_THROW(static_cast<void>(space.lock(ram.permits(5).take(3))), LimitMismatch);
  hold.reset();
  hold = space.lock(ram.group("permits"));
  EXPECT_THROW(static_cast<void>(space.lock(ram.permits(5).take(3))), LimitMismatch);
  hold.reset();
  hold = space.lock(ram.shared());
  EXPECT_THROW(static_cast<void>(space.lock(ram.group("shared", 5).take(3))), LimitMismatch);
  hold.reset();
  hold = space.lock(ram.group("shared", 5).take(3));
  EXPECT_THROW(static_cast<void>(space.lock(ram.shared())), LimitMismatch);
  EXPECT_FALSE(space.try_lock(ram.group("shared", 5).take(3)));
  hold.reset();
  EXPECT_TRUE(space.inspect().empty());
}

// More permits than members that are watched one by one.
TEST_P(AnyWeights, AddUpToALargeLimit) {
  constexpr std::uint32_t limit = 100;
  const Space space = open_new();
  std::optional<Hold> sixty = space.lock(ram.permits(limit).take(60));
  std::vector<Hold> ones;
  for (int i = 0; i < 5; ++i) ones.push_back(space.lock(ram.permits(limit)));
  EXPECT_FALSE(space.try_lock(ram.permits(limit).take(36)));
  EXPECT_TRUE(space.try_lock(ram.permits(limit).take(35)));
  ones.push_back(space.lock(ram.permits(limit).take(34)));
  ones.push_back(space.lock(ram.permits(limit)));
  EXPECT_FALSE(space.try_lock(ram.permits(limit)));
  std::jthread waiter{[&] { EXPECT_TRUE(space.lock(ram.permits(limit).take(59))); }};
  await_waiters(space, 1);
  sixty.reset();
}

TEST_P(AnyWeights, ADowngradeGivesAPartBack) {
  const Space space = open_new();
  Hold hold = space.lock(ram.permits(4).take(4));
  const Token token = hold.token();
  std::atomic<bool> in = false;
  std::jthread waiter{[&] {
    const Hold one = space.lock(ram.permits(4).take(2));
    in = true;
  }};
  await_waiters(space, 1);
  hold.downgrade(ram.permits(4).take(3));
  EXPECT_EQ(told(space),
            "1 holds ram:permits(4) take=3, 2 waits for ram:permits(4) take=2 at 1 behind 1");
  hold.downgrade(ram.permits(4).take(2));
  kit::until([&] { return in.load(); });
  waiter.join();
  EXPECT_EQ(hold.token(), token);
  EXPECT_THROW(hold.downgrade(ram.permits(4).take(3)), BadRequest);
  EXPECT_FALSE(space.try_lock(ram.permits(4).take(3)));
  hold.downgrade(ram.permits(4));
  const std::optional<Hold> three = space.try_lock(ram.permits(4).take(3));
  EXPECT_TRUE(three);
  EXPECT_FALSE(space.try_lock(ram.permits(4)));
}

TEST_P(AnyWeights, ADowngradeFromExclusiveTakesAsMuchAsItSays) {
  const Space space = open_new();
  Hold hold = space.lock(ram);
  std::atomic<int> in = 0;
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < 2; ++i) {
    waiters.emplace_back([&] {
      const Hold one = space.lock(ram.permits(4).take(2));
      ++in;
    });
    await_waiters(space, 1 + i);
  }
  hold.downgrade(ram.permits(4).take(3));
  EXPECT_EQ(told(space),
            "1 holds ram:permits(4) take=3, 2 waits for ram:permits(4) take=2 at 1 behind 1, "
            "3 waits for ram:permits(4) take=2 at 2 behind 1 2");
  EXPECT_EQ(in, 0);
  hold.release();
}

TEST_P(AnyWeights, OwnersThatWaitForEachOthersPermitsAreTold) {
  const Space space = open_new();
  const Hold a = space.as("a").lock(ram.permits(4).take(3));
  const Hold b = space.as("b").lock(disk);
  std::stop_source give_up;
  std::jthread waiter{
      [&] { static_cast<void>(space.as("b").lock(ram.permits(4).take(2), give_up.get_token())); }};
  await_waiters(space, 1);
  EXPECT_THROW(static_cast<void>(space.as("a").lock(disk)), Deadlock);
  give_up.request_stop();
}

TEST_P(AnyWeights, AnEvictionGivesAllPermitsBack) {
  const Space space = open_new();
  const Hold hold = space.lock(ram.permits(4).take(4));
  EXPECT_TRUE(space.evict_now(hold.token()));
  EXPECT_TRUE(space.try_lock(ram.permits(4).take(4)));
  EXPECT_TRUE(space.try_lock(ram.permits(7))) << "nothing of it is left";
}

}  // namespace
}  // namespace tenure
