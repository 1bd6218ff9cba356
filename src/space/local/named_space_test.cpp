#include "space/local/named_space.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

const Path book = Path::of("book");

TEST(NamedSpace, IsSharedByAllWhoOpenTheName) {
  const Space one = open("local:jobs");
  const Space two = open("local:jobs");
  const Space other = open("local:mail");
  const Space nameless = open("local:");
  Hold hold = one.lock(book);
  EXPECT_FALSE(two.try_lock(book));
  EXPECT_TRUE(other.try_lock(book));
  EXPECT_TRUE(nameless.try_lock(book));
  EXPECT_EQ(two.inspect().size(), 1U);
  std::optional<Hold> next;
  std::jthread waiter{[&] { next = two.lock(book); }};
  await_waiters(one, 1);
  hold.release();
  waiter.join();
  EXPECT_GT(next->token(), Token{});
  EXPECT_TRUE(one.evict(next->token()));
  EXPECT_FALSE(next->release());
}

TEST(NamedSpace, ClosingOneEndsItsOwnWaitsOnly) {
  std::optional<Space> one = open("local:jobs");
  const Space two = open("local:jobs");
  Hold hold = two.lock(book);
  std::atomic<int> closed = 0;
  std::jthread waiter{[&] {
    try {
      (void)one->lock(book);
    } catch (const Closed&) {
      ++closed;
    }
  }};
  std::optional<Hold> next;
  std::jthread other{[&] { next = two.lock(book); }};
  await_waiters(two, 2);
  const Locker as = one->as("job");
  one.reset();
  waiter.join();
  EXPECT_EQ(closed, 1);
  EXPECT_THROW((void)as.lock(book), Closed);
  EXPECT_THROW((void)as.try_lock(book), Closed);
  hold.release();
  other.join();
  EXPECT_TRUE(next->release());
}

TEST(NamedSpace, HoldsOutliveTheirSpace) {
  std::optional<Space> one = open("local:jobs");
  Hold hold = one->lock(book);
  one.reset();
  EXPECT_FALSE(open("local:jobs").try_lock(book));
  EXPECT_TRUE(hold.release());
  EXPECT_TRUE(open("local:jobs").try_lock(book));
}

TEST(NamedSpace, EndsWithItsLastSpaceAndHold) {
  Token first;
  {
    const Space space = open("local:jobs");
    for (int i = 0; i < 100; ++i) first = space.lock(book).token();
  }
  EXPECT_LT(open("local:jobs").lock(book).token(), first);  // A new one.
}

TEST(NamedSpace, ManyThreadsOpenLockAndClose) {
  std::atomic<int> inside = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Space space = open("local:busy");
        const Hold hold = space.lock(book);
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
}

TEST(NamedSpace, RefusesAnEndlessName) {
  EXPECT_THROW((void)open("local:" + std::string(257, 'x')), Error);
  EXPECT_THROW((void)open("locals:x"), Error);
}

TEST(NamedSpace, CallersOfOneNameShareOneCall) {
  const Space one = open("local:jobs");
  const Space two = open("local:jobs");
  std::atomic<bool> runs = false;
  std::atomic<bool> go_on = false;
  std::jthread first{[&] {
    EXPECT_EQ(one.once("key",
                       [&] {
                         runs = true;
                         kit::until([&] { return go_on.load(); });
                         return 1;
                       }),
              1);
  }};
  kit::until([&] { return runs.load(); });
  EXPECT_THROW(two.once("key", [] {}), BadRequest);  // It is under way, with a number as result.
  go_on = true;
}

}  // namespace
}  // namespace tenure
