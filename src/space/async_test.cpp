// Waiting without a thread, in every kind of space: coroutines of any type, and Asio.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <exception>
#include <future>
#include <latch>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/asio.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

namespace asio = boost::asio;

const Path book = Path::of("book");

class AnyAsync : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyAsync);

base::Detached take_in_turn(const Space& space, int number, std::vector<int>& order,
                            std::latch& done) {
  {
    const Hold hold = co_await space.async_lock(book);
    order.push_back(number);
  }
  done.count_down();
}

base::Detached lock_once(Locker locker, Path path, std::latch& done) {
  {
    const Hold hold = co_await locker.async_lock(path);
  }
  done.count_down();
}

TEST_P(AnyAsync, ACircleOfOwnersIsToldToTheLastOne) {
  const Space space = open_new();
  const Path film = Path::of("film");
  const Locker alice = space.as("alice");
  const Locker bob = space.as("bob");
  Hold a = alice.lock(book);
  const Hold b = bob.lock(film);
  std::latch done{1};
  lock_once(bob, book, done);
  await_waiters(space, 1);
  EXPECT_THROW(static_cast<void>(alice.lock(film)), Deadlock);
  a.release();
  done.wait();
}

TEST_P(AnyAsync, CoroutinesAreServedInOrder) {
  const Space space = open_new();
  constexpr int count = 20;
  std::vector<int> order;
  std::latch done{count};
  Hold hold = space.lock(book);
  for (int i = 0; i < count; ++i) take_in_turn(space, i, order, done);
  EXPECT_TRUE(order.empty());
  hold.release();
  done.wait();
  for (int i = 0; i < count; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

base::Detached ask_again(const Space& space, std::latch& done) {
  {
    const Hold outer = co_await space.async_lock(book);
    const Hold inner = space.lock(Path::of("film"));  // Waits, on the thread that resumed it.
  }
  done.count_down();
}

TEST_P(AnyAsync, AResumedCoroutineMayWaitItself) {
  if (is_local()) GTEST_SKIP() << "there it runs on the thread that gives the other lock back";
  const Space space = open_new();
  std::latch done{1};
  Hold first = space.lock(book);
  Hold second = space.lock(Path::of("film"));
  ask_again(space, done);
  first.release();
  await_waiters(space, 1);
  second.release();
  done.wait();
}

base::Detached until_stopped(const Space& space, std::stop_token stop, bool& got,
                             std::latch& done) {
  got = (co_await space.async_lock(book, stop)).has_value();
  done.count_down();
}

TEST_P(AnyAsync, AStopEndsAWait) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  std::stop_source stop;
  bool got = true;
  std::latch done{1};
  until_stopped(space, stop.get_token(), got, done);
  stop.request_stop();
  done.wait();
  EXPECT_FALSE(got);
  await_tickets(space, 1);
}

TEST_P(AnyAsync, AsioGetsAHoldAndGivesItBack) {
  const Space space = open_new();
  asio::io_context io;
  int served = 0;
  const auto worker = [&]() -> asio::awaitable<void> {
    for (int i = 0; i < 20; ++i) {
      Hold hold = co_await space.async_lock(book, asio::use_awaitable);
      ++served;
      const bool held = co_await hold.async_release(asio::use_awaitable);
      EXPECT_TRUE(held);
      EXPECT_FALSE(hold);
    }
  };
  for (int i = 0; i < 4; ++i) asio::co_spawn(io, worker, asio::detached);
  io.run();
  EXPECT_EQ(served, 80);
  EXPECT_TRUE(space.inspect().empty());
}

TEST_P(AnyAsync, AsioCancellationLeavesNothing) {
  const Space space = open_new();
  asio::io_context io;
  const Hold hold = space.lock(book);
  asio::cancellation_signal signal;
  std::exception_ptr error;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        static_cast<void>(co_await space.async_lock(book, asio::use_awaitable));
      },
      asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) { error = e; }));
  io.poll();
  await_waiters(space, 1);
  signal.emit(asio::cancellation_type::all);
  io.restart();
  io.run();
  EXPECT_NE(error, nullptr);
  await_tickets(space, 1);
}

TEST_P(AnyAsync, ReleasingAnEmptyHoldSaysSo) {
  asio::io_context io;
  Hold empty;
  std::future<bool> held = empty.async_release(asio::bind_executor(io, asio::use_future));
  io.run();
  EXPECT_FALSE(held.get());
}

}  // namespace
}  // namespace tenure
