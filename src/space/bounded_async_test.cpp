// Tries, time limits and stops of coroutines and callbacks without Asio, in every kind of space.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <latch>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");

class AnyBoundedAsync : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyBoundedAsync);

// What a coroutine got: "holds", "nothing".
struct Outcome {
  std::string what;
  std::latch done{1};
  void end(const std::optional<Hold>& hold) {
    what = hold.has_value() ? "holds" : "nothing";
    done.count_down();
  }
};

base::Detached try_once(const Space& space, Outcome& outcome) {
  const std::optional<Hold> hold = co_await space.async_try_lock(book);
  outcome.end(hold);
}
base::Detached try_for(const Space& space, std::chrono::nanoseconds time, std::stop_token stop,
                       Outcome& outcome) {
  const std::optional<Hold> hold = co_await space.async_try_lock_for(book, time, stop);
  outcome.end(hold);
}

TEST_P(AnyBoundedAsync, ATryEndsAtOnceEitherWay) {
  const Space space = open_new();
  Outcome free;
  try_once(space, free);
  free.done.wait();
  EXPECT_EQ(free.what, "holds");
  await_tickets(space, 0);
  const Hold hold = space.lock(book);
  Outcome taken;
  try_once(space, taken);
  taken.done.wait();
  EXPECT_EQ(taken.what, "nothing");
  EXPECT_EQ(told(space), "1 holds book");
}

TEST_P(AnyBoundedAsync, AWaitEndsWithItsTime) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  Outcome late;
  try_for(space, 5ms, {}, late);
  late.done.wait();
  EXPECT_EQ(late.what, "nothing");
  expect_only_the_holder(space);
  Outcome no_time;
  try_for(space, 0ns, {}, no_time);
  no_time.done.wait();
  EXPECT_EQ(no_time.what, "nothing");
  Outcome in_time;
  try_for(space, 1h, {}, in_time);
  await_waiters(space, 1);
  hold.release();
  in_time.done.wait();
  EXPECT_EQ(in_time.what, "holds");
  await_tickets(space, 0);
}

TEST_P(AnyBoundedAsync, AWaitWithATimeEndsWithItsStop) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  std::stop_source stop;
  Outcome outcome;
  try_for(space, 1h, stop.get_token(), outcome);
  await_waiters(space, 1);
  stop.request_stop();
  outcome.done.wait();
  EXPECT_EQ(outcome.what, "nothing");
  expect_only_the_holder(space);
}

TEST_P(AnyBoundedAsync, ManyLimitsAndReleasesRace) {
  const Space space = open_new();
  constexpr int waiters = 20;
  for (int round = 0; round < rounds(40); ++round) {
    Hold hold = space.lock(book);
    std::atomic<int> ended = 0;
    for (int i = 0; i < waiters; ++i) {
      space.async_try_lock_for(book, std::chrono::microseconds{i * 20})
          .then([&](const std::exception_ptr& error, std::optional<Hold> got) {
            EXPECT_EQ(error, nullptr);
            got.reset();
            ++ended;
          });
    }
    hold.release();
    kit::until([&] { return ended == waiters; });
  }
  await_tickets(space, 0);
}

TEST_P(AnyBoundedAsync, ACallbackGetsTheHoldOrTheError) {
  Space space = open_new();
  std::latch first{1};
  space.async_lock(book).then([&](const std::exception_ptr& error, const Hold& hold) {
    EXPECT_EQ(error, nullptr);
    EXPECT_TRUE(hold);
    first.count_down();
  });
  first.wait();
  await_tickets(space, 0);
  const Hold hold = space.lock(book);
  std::latch second{1};
  space.async_lock(book).then([&](const std::exception_ptr& error, const Hold& none) {
    EXPECT_THROW(std::rethrow_exception(error), Closed);
    EXPECT_FALSE(none);
    second.count_down();
  });
  std::stop_source stop;
  std::latch third{1};
  space.async_lock(book, stop.get_token())
      .then([&](const std::exception_ptr& error, const std::optional<Hold>& none) {
        EXPECT_EQ(error, nullptr);
        EXPECT_FALSE(none);
        third.count_down();
      });
  await_waiters(space, 2);
  stop.request_stop();
  third.wait();
  space.close();
  second.wait();
}

base::Detached add_up(const Space& space, int& sum, std::latch& done) {
  const auto three = [] { return 3; };
  sum += co_await space.async_with(book, three);
  const auto token = [](const Hold& hold) { return hold.token() != Token{} ? 4 : 0; };
  sum += co_await space.async_with("book", token);
  const auto nothing = [&sum] { sum += 10; };
  co_await space.async_with(book, nothing);
  // An awaitable body: it holds book while it waits for film.
  const auto film = [&space](const Hold&) { return space.async_lock("film"); };
  const Hold inner = co_await space.async_with(book, film);
  sum += inner ? 100 : 0;
  const auto fails = []() -> int { throw Evicted("on purpose"); };
  try {
    sum += co_await space.async_with(book, fails);
  } catch (const Evicted&) {
    sum += 1000;
  }
  done.count_down();
}

TEST_P(AnyBoundedAsync, ABodyRunsWhileTheLockIsHeld) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  int sum = 0;
  std::latch done{1};
  add_up(space, sum, done);
  await_waiters(space, 1);
  EXPECT_EQ(sum, 0);
  hold.release();
  done.wait();
  EXPECT_EQ(sum, 1117);
  await_tickets(space, 0);
}

base::Detached add_up_in_time(const Space& space, std::stop_token stop,
                              std::vector<std::string>& outcome, std::latch& done) {
  const auto three = [] { return 3; };
  const auto nothing = [] {};
  const auto film = [&space](const Hold&) { return space.async_lock("film"); };
  const auto told = [](const auto& result) { return result.has_value() ? "called" : "not called"; };
  const auto in_time = co_await space.async_try_with_for(book, 1h, three);
  outcome.emplace_back(in_time == std::optional{3} ? "3" : "not 3");
  const auto awaited = co_await space.async_try_with_for(book, 1h, film);
  outcome.emplace_back(told(awaited));
  const bool called = co_await space.async_with(book, nothing, std::stop_token{});
  outcome.emplace_back(called ? "called" : "not called");
  const Hold hold = space.lock(book);
  const auto too_late = co_await space.async_try_with_for(book, 1ms, three);
  outcome.emplace_back(told(too_late));
  const bool stopped = co_await space.async_with(book, nothing, std::move(stop));
  outcome.emplace_back(stopped ? "called" : "not called");
  done.count_down();
}

TEST_P(AnyBoundedAsync, ABodyRunsOnlyIfTheLockIsGrantedInTime) {
  const Space space = open_new();
  std::stop_source stop;
  std::vector<std::string> outcome;
  std::latch done{1};
  add_up_in_time(space, stop.get_token(), outcome, done);
  await_waiters(space, 1);
  stop.request_stop();
  done.wait();
  EXPECT_EQ(outcome,
            (std::vector<std::string>{"3", "called", "called", "not called", "not called"}));
  await_tickets(space, 0);
}

TEST_P(AnyBoundedAsync, WithATimeOrAStop) {
  const Space space = open_new();
  EXPECT_EQ(space.try_with_for(book, 1h, [] { return 3; }), std::optional{3});
  EXPECT_TRUE(space.with(book, [](const Hold&) {}, std::stop_token{}));
  Hold hold = space.lock(book);
  EXPECT_EQ(space.try_with_for(book, 1ms, [] { return 3; }), std::nullopt);
  EXPECT_FALSE(space.try_with_for(book, 0ms, [] { FAIL(); }));
  std::stop_source stop;
  std::jthread stopper{[&] {
    await_waiters(space, 1);
    stop.request_stop();
  }};
  EXPECT_FALSE(space.with(book, [](const Hold&) { FAIL(); }, stop.get_token()));
  stopper.join();
  expect_only_the_holder(space);
}

}  // namespace
}  // namespace tenure
