// First come, first served; and a release wakes only the next waiter.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

const Name shelf{"museum-row"};
const Name other{"museum-other"};

std::vector<std::size_t> up_to(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

// Queues `count` requests behind a holder and grants them one at a time. Each release must make
// exactly one of them due: no waiter wakes without a reason.
void drain(std::size_t count) {
  Space space = open("local:");
  Arrivals arrivals;
  arrivals.holds.push_back(space.lock(shelf(1)));
  for (std::size_t i = 0; i < count; ++i) arrive(space, shelf(1), i, &arrivals);
  ASSERT_EQ(arrivals.due.size(), 0U);
  for (std::size_t i = 0; i < count; ++i) {
    arrivals.holds.clear();
    ASSERT_EQ(arrivals.due.size(), 1U) << "release " << i;
    arrivals.due.run_one();
  }
  EXPECT_EQ(arrivals.order, up_to(count));
}

TEST(Museum, M39_OneReleaseWakesOneWaiterInArrivalOrder) { drain(32); }

TEST(Museum, M39_ThreadsTooAreServedInArrivalOrder) {
  Space space = open("local:");
  std::vector<int> order;  // Guarded by the lock.
  {
    std::vector<std::jthread> threads;
    const Hold first = space.lock(shelf(1));
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] { space.with(shelf(1), [&] { order.push_back(i); }); });
      until_waiting(space, static_cast<std::size_t>(i) + 1);
    }
  }
  EXPECT_TRUE(std::ranges::is_sorted(order));
  EXPECT_EQ(order.size(), 16U);
}

TEST(Museum, S01_EightThousandWaitersDrainWithOneWakeUpEach) { drain(8'000); }

// Between the release and the moment when the next waiter runs, the lock already belongs to that
// waiter.
TEST(Museum, S02_ANewcomerFindsTheLockHandedOver) {
  Space space = open("local:");
  Arrivals arrivals;
  Hold first = space.lock(shelf(1));
  arrive(space.as("early"), shelf(1), 0, &arrivals);
  first.release();
  EXPECT_EQ(arrivals.order.size(), 0U) << "it has not run yet";
  EXPECT_FALSE(space.try_lock(shelf(1)).has_value());
  EXPECT_FALSE(space.try_lock(shelf.shared()).has_value());
  arrivals.due.run_one();
  EXPECT_EQ(arrivals.order.size(), 1U);
}

TEST(Museum, S02_NobodyOvertakesUnderLoad) {
  Space space = open("local:");
  Token last;  // Guarded by the lock, like the count.
  int grants = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int turn = 0; turn < 4'000; ++turn) {
          const Hold hold = space.lock(shelf(1));
          EXPECT_GT(hold.token(), last) << "granted out of ticket order";
          last = hold.token();
          ++grants;
        }
      });
    }
  }
  EXPECT_EQ(grants, 16'000);
}

// Readers come and go all the time, above the writer's leaf and on it. A reader that read before
// the writer wrote must have asked before it.
TEST(Museum, S11_NoLaterReaderPassesAWaitingWriter) {
  for (int round = 0; round < 30; ++round) {
    Space space = open("local:");
    std::atomic<bool> written = false;
    std::atomic<int> reads = 0;
    std::vector<Token> newest(3);
    Token writer;
    {
      std::vector<std::jthread> readers;
      for (std::size_t i = 0; i < newest.size(); ++i) {
        readers.emplace_back([&, i] {
          const Claim claim = i == 0 ? shelf.shared() : shelf(3).shared();
          while (!written) {
            const Hold hold = space.lock(claim);
            if (!written) newest[i] = hold.token();
            ++reads;
          }
        });
      }
      until([&] { return reads > 10; });
      const Hold hold = space.lock(shelf(3));
      writer = hold.token();
      written = true;
    }
    for (const Token reader : newest) ASSERT_LT(reader, writer) << "round " << round;
  }
}

// The queue of a tree is FIFO at every depth.
TEST(Museum, S11_TreeLocksAreFirstInFirstOut) {
  Space space = open("local:");
  Arrivals arrivals;
  arrivals.holds.push_back(space.lock(shelf));
  const std::vector<Claim> claims = {shelf(1), shelf,          shelf(1) / Path::of("a"),
                                     shelf(1), shelf.shared(), shelf(1) / Path::of("a")};
  for (std::size_t i = 0; i < claims.size(); ++i) arrive(space, claims[i], i, &arrivals);
  for (std::size_t i = 0; i < claims.size(); ++i) {
    arrivals.holds.clear();
    ASSERT_EQ(arrivals.due.size(), 1U) << "release " << i;
    arrivals.due.run_one();
  }
  EXPECT_EQ(arrivals.order, up_to(claims.size()));
}

// 20,000 leaves are held, and each has one waiter. A release makes only its own waiter due,
// whichever leaf it is; locks without contention wake nobody.
TEST(Museum, S13_AReleaseConcernsItsOwnLeafOnly) {
  constexpr std::size_t leaves = 20'000;
  Space space = open("local:");
  Arrivals arrivals;
  std::vector<Hold> holds;
  for (std::size_t i = 0; i < leaves; ++i) holds.push_back(space.lock(shelf(i)));
  for (std::size_t i = 0; i < leaves; ++i) arrive(space, shelf(i), i, &arrivals);
  ASSERT_EQ(arrivals.due.size(), 0U);
  for (std::size_t i = leaves; i-- > 0;) {
    space.lock(other(i)).release();
    ASSERT_EQ(arrivals.due.size(), 0U) << "leaf " << i;
    holds[i].release();
    ASSERT_EQ(arrivals.due.size(), 1U) << "leaf " << i;
    arrivals.due.run_one();
    ASSERT_EQ(arrivals.order.back(), i);
  }
}

}  // namespace
}  // namespace tenure::museum
