// Evicting below a path, asking a holder to leave, sessions, leaders, in every kind of space.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");

class AnyOperation : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyOperation);

TEST_P(AnyOperation, EvictsEverythingBelowAPathAndNothingElse) {
  const Space space = open_new();
  Hold at = space.lock(book.shared());
  Hold below = space.lock(Path::of("book", 3).shared());
  Hold beside = space.lock("film");
  Hold with_both = space.lock({"shelf", Path::of("book", 4).shared()});
  std::vector<std::jthread> waiters;
  std::atomic<int> evicted = 0;
  for (int i = 0; i < 5; ++i) {
    waiters.emplace_back([&, i] {
      try {
        (void)space.lock(Path::of("book", i));
      } catch (const Evicted&) {
        ++evicted;
      }
    });
  }
  await_waiters(space, 5);
  const std::stop_token lost = below.lost();
  EXPECT_EQ(space.evict_below(book), 8U);
  waiters.clear();
  EXPECT_EQ(evicted, 5);  // None of them was granted because another one went.
  kit::until([&] { return lost.stop_requested(); });
  const Hold next = space.lock(book);
  EXPECT_FALSE(at.release());
  EXPECT_FALSE(with_both.release());
  EXPECT_TRUE(beside.release());
  EXPECT_EQ(space.evict_below("nothing/here"), 0U);
}

TEST_P(AnyOperation, EvictsBelowTheRootAtOnce) {
  const Space space = open_new();
  std::vector<Hold> holds;
  for (int i = 0; i < 70; ++i) holds.push_back(space.lock(Path::of("book", i)));
  EXPECT_EQ(space.evict_below_now("/"), 70U);
  EXPECT_TRUE(space.inspect().empty());
  for (Hold& hold : holds) EXPECT_FALSE(hold.release());
}

TEST_P(AnyOperation, AHolderIsAskedToLeaveAndMayStay) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  const std::stop_token asked = hold.asked_to_leave();
  const std::stop_token lost = hold.lost();
  EXPECT_FALSE(asked.stop_requested());
  EXPECT_FALSE(space.inspect().at(0).asked_to_leave);
  EXPECT_TRUE(space.ask_to_leave(hold.token()));
  kit::until([&] { return asked.stop_requested(); });
  EXPECT_TRUE(space.ask_to_leave(hold.token()));  // Once more changes nothing.
  EXPECT_TRUE(space.inspect().at(0).asked_to_leave);
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release());
  EXPECT_FALSE(space.ask_to_leave(hold.token()));
  EXPECT_FALSE(space.ask_to_leave(Token{12345}));
}

TEST_P(AnyOperation, AHolderWhoLooksLaterIsToldThen) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  EXPECT_TRUE(space.ask_to_leave(hold.token()));
  const std::stop_token asked = hold.asked_to_leave();
  kit::until([&] { return asked.stop_requested(); });
}

TEST_P(AnyOperation, AWaiterIsAskedWhenItIsGranted) {
  const Space space = open_new();
  Hold first = space.lock(book);
  std::jthread waiter{[&] {
    const Hold hold = space.lock(book);
    const std::stop_token asked = hold.asked_to_leave();
    kit::until([&] { return asked.stop_requested(); });
  }};
  await_waiters(space, 1);
  EXPECT_TRUE(space.ask_to_leave(space.inspect().at(1).ticket.number));
  first.release();
}

TEST_P(AnyOperation, AnotherSpaceOfTheSameStoreAsks) {
  if (is_local()) return;
  const std::shared_ptr<Store> both = store(new_url());
  const Space here = open(both);
  const Space there = open(both);
  const Hold hold = here.lock(book);
  const std::stop_token asked = hold.asked_to_leave();
  EXPECT_TRUE(there.ask_to_leave(hold.token()));
  kit::until([&] { return asked.stop_requested(); });
}

TEST_P(AnyOperation, ALeaderLeadsUntilItsBodyEnds) {
  const Space space = open_new();
  int led = 0;
  EXPECT_TRUE(space.lead("leader", [&](const std::stop_token& stop, const Hold& hold) {
    EXPECT_FALSE(stop.stop_requested());
    EXPECT_NE(hold.token(), Token{});
    EXPECT_FALSE(space.available("leader"));
    ++led;
  }));
  EXPECT_EQ(led, 1);
  await_tickets(space, 0);
}

TEST_P(AnyOperation, ALeaderIsToldToStop) {
  const Space space = open_new();
  const auto leader = [&](std::atomic<bool>& leads, std::stop_token stop = {}) {
    return std::jthread{[&space, &leads, stop] {
      EXPECT_FALSE(space.lead(
          "leader",
          [&](const std::stop_token& end) {
            leads = true;
            kit::until([&] { return end.stop_requested(); });
          },
          stop));
    }};
  };
  std::atomic<bool> first_leads = false;
  std::jthread first = leader(first_leads);
  kit::until([&] { return first_leads.load(); });
  std::stop_source stop;
  std::atomic<bool> second_leads = false;
  std::jthread second = leader(second_leads, stop.get_token());
  await_waiters(space, 1);
  EXPECT_FALSE(second_leads);
  EXPECT_TRUE(space.ask_to_leave(space.inspect().at(0).ticket.number));
  first.join();
  kit::until([&] { return second_leads.load(); });
  std::atomic<bool> third_leads = false;
  std::jthread third = leader(third_leads);
  await_waiters(space, 1);
  stop.request_stop();
  second.join();
  kit::until([&] { return third_leads.load(); });
  EXPECT_TRUE(space.evict(space.inspect().at(0).ticket.number));
  third.join();
  EXPECT_FALSE(space.lead("leader", [](const std::stop_token&) { FAIL(); }, stop.get_token()));
}

TEST_P(AnyOperation, ASessionIsLostOnlyWithItsStore) {
  const Space space = open_new();
  EXPECT_FALSE(space.lost().stop_requested());
  const Hold hold = space.lock(book);
  EXPECT_TRUE(space.evict_now(hold.token()));
  EXPECT_FALSE(space.lost().stop_requested());
}

TEST_P(AnyOperation, CallersWithOneKeyShareOneCall) {
  const Space space = open_new();
  std::atomic<int> calls = 0;
  std::atomic<bool> go_on = false;
  std::atomic<int> arrived = 0;
  std::vector<std::jthread> callers;
  std::atomic<int> sum = 0;
  const auto compute = [&] {
    ++calls;
    kit::until([&] { return go_on.load(); });
    return 7;
  };
  callers.emplace_back([&] { sum += space.once("key", compute); });
  kit::until([&] { return calls == 1; });
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      ++arrived;
      sum += space.once("key", compute);
    });
  }
  kit::until([&] { return arrived == 4; });
  EXPECT_EQ(space.once("other key", [] { return std::string{"x"}; }), "x");
  EXPECT_THROW(space.once("key", [] {}), BadRequest);  // Another type of result.
  go_on = true;
  callers.clear();
  // A caller that had arrived, but not called yet, may have made a call of its own.
  EXPECT_GE(calls, 1);
  EXPECT_EQ(sum, 35);
  EXPECT_EQ(space.once("key", [] { return 8; }), 8);
}

TEST_P(AnyOperation, CallersShareAnException) {
  const Space space = open_new();
  EXPECT_THROW(space.once("key", []() -> int { throw Closed("no"); }), Closed);
  EXPECT_EQ(space.once("key", [] { return 1; }), 1);
}

}  // namespace
}  // namespace tenure
