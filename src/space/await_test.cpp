#include "tenure/await.hpp"
#include "base/detached.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/tenure.hpp"

namespace tenure {
namespace {

const Path book = Path::of("book");

// Runs what it is given when it is told to.
struct Later {
  std::vector<std::function<void()>>* queue;
  template <class F>
  void execute(F function) {
    queue->emplace_back(std::move(function));
  }
};

base::Detached note(const Space& space, Claim claim, std::string name, std::string& log) {
  const Hold hold = co_await space.async_lock(claim);
  log += name;
}

TEST(Await, GoesOnAtOnceWhenFreeAndIsResumedInOrderOtherwise) {
  const Space space = open("local:");
  std::string log;
  note(space, book, "a", log);
  EXPECT_EQ(log, "a");
  Hold hold = space.lock(book);
  for (const char* name : {"b", "c", "d"}) note(space, book, name, log);
  note(space, Path::of("book", 1), "e", log);
  EXPECT_EQ(log, "a");
  hold.release();
  EXPECT_EQ(log, "abcde");
  EXPECT_TRUE(space.inspect().empty());
}

// A chain of hand-offs must not nest: each of these releases in the frame of the one before it.
TEST(Await, AHundredThousandHandOffsNeedNoStack) {
  const Space space = open("local:");
  int served = 0;
  const auto count = [](const Space& in, int& total) -> base::Detached {
    const Hold hold = co_await in.async_lock(book);
    ++total;
  };
  Hold hold = space.lock(book);
  for (int i = 0; i < 100'000; ++i) count(space, served);
  EXPECT_EQ(served, 0);
  hold.release();
  EXPECT_EQ(served, 100'000);
}

base::Detached note_several(const Space& space, std::vector<Claim> claims, bool& done) {
  const Hold hold = co_await space.async_lock(claims);
  done = true;
}

TEST(Await, SeveralClaims) {
  const Space space = open("local:");
  bool done = false;
  Hold hold = space.lock(book);
  note_several(space, {book.shared(), Path::of("film", std::string(50, 'x'))}, done);
  EXPECT_FALSE(done);
  hold.release();
  EXPECT_TRUE(done);
}

#if defined(__clang__)  // g++ 12 does not compile braces inside of a co_await.
base::Detached note_braces(const Space& space, bool& done) {
  const Hold hold = co_await space.async_lock({book.shared(), Path::of("film", 1)});
  done = true;
}

TEST(Await, SeveralClaimsInBraces) {
  const Space space = open("local:");
  bool done = false;
  Hold hold = space.lock(book);
  note_braces(space, done);
  EXPECT_FALSE(done);
  hold.release();
  EXPECT_TRUE(done);
}
#endif

base::Detached note_on(const Space& space, Later later, std::string& log) {
  const Hold hold = co_await space.async_lock(book, resume_on(later));
  log += "resumed";
}

TEST(Await, IsResumedOnTheExecutorItNames) {
  const Space space = open("local:");
  std::vector<std::function<void()>> queue;
  std::string log;
  Hold hold = space.lock(book);
  note_on(space, {&queue}, log);
  hold.release();
  EXPECT_EQ(log, "");
  ASSERT_EQ(queue.size(), 1U);
  EXPECT_FALSE(space.try_lock(book)) << "granted, if not yet resumed";
  queue.front()();
  EXPECT_EQ(log, "resumed");
}

base::Detached note_outcome(const Space& space, std::stop_token stop, std::string& log) {
  const std::optional<Hold> hold = co_await space.async_lock(book, std::move(stop));
  log += hold ? "held " : "stopped ";
}

TEST(Await, StopTokenEndsAWait) {
  const Space space = open("local:");
  std::string log;
  std::stop_source stop;
  note_outcome(space, stop.get_token(), log);
  Hold hold = space.lock(book);
  note_outcome(space, stop.get_token(), log);
  note_outcome(space, {}, log);
  EXPECT_EQ(log, "held ");
  stop.request_stop();
  EXPECT_EQ(log, "held stopped ");
  note_outcome(space, stop.get_token(), log);
  EXPECT_EQ(log, "held stopped stopped ");
  hold.release();
  EXPECT_EQ(log, "held stopped stopped held ");
  EXPECT_TRUE(space.inspect().empty());
}

base::Detached note_error(const Locker& locker, Claim claim, std::string& log) {
  try {
    const Hold hold = co_await locker.async_lock(claim);
    log += "held ";
  } catch (const Deadlock&) {
    log += "deadlock ";
  } catch (const Closed&) {
    log += "closed ";
  } catch (const Evicted&) {
    log += "evicted ";
  } catch (const LimitMismatch&) {
    log += "mismatch ";
  }
}

TEST(Await, ErrorsReachTheCoroutine) {
  std::string log;
  std::optional<Hold> hold;
  {
    const Space space = open("local:");
    const Locker alice = space.as("alice");
    hold = alice.lock(book.permits(2));
    note_error(alice, book, log);
    note_error(space, book.permits(3), log);
    note_error(space, book, log);
    space.evict(space.inspect().back().ticket.number);
    note_error(space, book, log);
  }
  EXPECT_EQ(log, "deadlock mismatch evicted closed ");
}

// A stop that races with the grant: exactly one of the two outcomes, whoever wins, and nothing
// left.
TEST(Await, StopRacesWithGrant) {
  const Space space = open("local:");
  for (int round = 0; round < 3000; ++round) {
    std::atomic<int> outcomes = 0;
    std::stop_source stop;
    Hold hold = space.lock(book);
    const auto wait = [](const Space& in, std::stop_token token,
                         std::atomic<int>& ends) -> base::Detached {
      const std::optional<Hold> mine = co_await in.async_lock(book, std::move(token));
      ends.fetch_add(1);
    };
    wait(space, stop.get_token(), outcomes);
    std::jthread other{[&] { stop.request_stop(); }};
    hold.release();
    other.join();
    ASSERT_EQ(outcomes.load(), 1);
    ASSERT_TRUE(space.try_lock(book));
  }
}

base::Detached call_when_held(const Space& space, Claim claim, std::function<void()> call) {
  const Hold hold = co_await space.async_lock(std::move(claim));
  call();
}

// An evicted waiter is stopped as well, while its eviction resumes others, whose requests may use
// its ticket's memory again: the stop must find that it came too late, not cancel a stranger.
TEST(Await, AStopAfterAnEvictionTouchesNobody) {
  const Space space = open("local:");
  std::string log;
  std::stop_source stop;
  Hold reader = space.lock(book.shared());
  const auto wait = [](const Space& in, std::stop_token token, std::string& out) -> base::Detached {
    try {
      const std::optional<Hold> hold = co_await in.async_lock(book, std::move(token));
      out += hold ? "held " : "stopped ";
    } catch (const Evicted&) {
      out += "evicted ";
    }
  };
  wait(space, stop.get_token(), log);
  call_when_held(space, book.shared(), [&] {
    note(space, book, "stranger ", log);
    stop.request_stop();
  });
  space.evict(space.inspect()[1].ticket.number);
  EXPECT_EQ(log, "evicted ");
  reader.release();
  EXPECT_EQ(log, "evicted stranger ");
  EXPECT_TRUE(space.inspect().empty());
}

base::Detached hold_as(Locker locker, Claim claim, std::atomic<int>& served) {
  {
    const Hold hold = co_await locker.async_lock(std::move(claim));
  }
  served.fetch_add(1);
}

// The owner of a waiting request goes with the coroutine, which another thread may resume and end
// while the request is still on its way in.
TEST(Await, OwnersGoWithTheirCoroutines) {
  std::atomic<int> served = 0;
  {
    const Space space = open("local:");
    const auto ask = [&](const char* name) {
      for (int i = 0; i < 3000; ++i) {
        hold_as(space.as(Owner{Path::of(name, i)}), book, served);
      }
    };
    std::jthread one{ask, "one"};
    std::jthread two{ask, "two"};
    std::jthread three{ask, "three"};
  }
  EXPECT_EQ(served.load(), 9000);
}

}  // namespace
}  // namespace tenure
