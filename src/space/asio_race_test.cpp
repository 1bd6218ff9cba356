// Grants against cancellations, evictions and the ends of spaces and contexts, on several threads.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "space/asio_test.hpp"
#include "tenure/asio.hpp"

namespace tenure {
namespace {

// Runs `act` on another thread once a round, at the same time as the caller's own act.
class Rival {
 public:
  explicit Rival(int rounds, std::function<void()> act)
      : thread_([this, rounds, act = std::move(act)] {
          for (int i = 0; i < rounds; ++i) {
            start_.arrive_and_wait();
            act();
            end_.arrive_and_wait();
          }
        }) {}
  template <class F>
  void race(F&& own) {
    start_.arrive_and_wait();
    own();
    end_.arrive_and_wait();
  }

 private:
  std::barrier<> start_{2};
  std::barrier<> end_{2};
  std::jthread thread_;
};

constexpr int rounds = 4'000;

TEST_F(Asio, AGrantAndACancellationHaveOneWinner) {
  Hold blocker;
  int granted = 0;
  int aborted = 0;
  Rival rival{rounds, [&] { blocker.release(); }};
  for (int i = 0; i < rounds; ++i) {
    blocker = space.lock(book);
    asio::cancellation_signal signal;
    Ending outcome;
    Ending next;
    space.async_lock(book, store(outcome, signal));
    space.async_lock(book, store(next));
    rival.race([&] { signal.emit(asio::cancellation_type::terminal); });
    io.poll();
    ASSERT_EQ(outcome.calls, 1);
    granted += outcome.hold ? 1 : 0;
    aborted += is_aborted(outcome.error) ? 1 : 0;
    ASSERT_NE(bool{outcome.hold}, bool{next.hold});
    outcome.hold.release();
    io.run();
    io.restart();
    ASSERT_TRUE(next.hold);
    next.hold.release();
    ASSERT_EQ(tickets(), 0U);
  }
  EXPECT_EQ(granted + aborted, rounds);
}

TEST_F(Asio, AnEvictionAndACancellationHaveOneWinner) {
  const Hold blocker = space.lock(book);
  Token waiting;
  int evicted = 0;
  int aborted = 0;
  Rival rival{rounds, [&] {
                space.evict(waiting);
                // Takes over the memory of the record that the eviction has freed.
                (void)space.try_lock({film.shared(), Path::of("play").shared()});
              }};
  for (int i = 0; i < rounds; ++i) {
    asio::cancellation_signal signal;
    Ending outcome;
    space.async_lock(book, store(outcome, signal));
    waiting = space.inspect()[1].ticket.number;
    rival.race([&] { signal.emit(asio::cancellation_type::terminal); });
    io.run();
    io.restart();
    ASSERT_EQ(outcome.calls, 1);
    evicted += is<Evicted>(outcome.error) ? 1 : 0;
    aborted += is_aborted(outcome.error) ? 1 : 0;
    ASSERT_EQ(tickets(), 1U);
  }
  EXPECT_EQ(evicted + aborted, rounds);
}

TEST_F(Asio, TheEndOfTheSpaceAndACancellationHaveOneWinner) {
  std::optional<Space> brief;
  Rival rival{rounds, [&] { brief.reset(); }};
  for (int i = 0; i < rounds; ++i) {
    brief = open("local:");
    const Hold blocker = brief->lock(book);
    asio::cancellation_signal signal;
    Ending outcome;
    brief->async_lock(book, store(outcome, signal));
    rival.race([&] { signal.emit(asio::cancellation_type::terminal); });
    io.run();
    io.restart();
    ASSERT_EQ(outcome.calls, 1);
    ASSERT_TRUE(is<Closed>(outcome.error) || is_aborted(outcome.error));
  }
}

// A handler that tells when it is gone, and must not be called.
struct Unreached {
  std::shared_ptr<int> alive;
  void operator()(const std::exception_ptr& /*unused*/, const Hold& /*unused*/) const {
    ADD_FAILURE() << "the context is gone";
  }
};

TEST_F(Asio, AContextMayGoWhileOperationsWait) {
  const auto alive = std::make_shared<int>();
  std::exception_ptr error;
  Hold blocker = space.lock(book);
  {
    asio::io_context brief;
    asio::thread_pool pool{1};
    auto ignored = asio::bind_executor(brief, Unreached{alive});
    asio::co_spawn(brief, wait_for(space, error), asio::detached);
    brief.run_one();
    for (int i = 0; i < 3; ++i) space.async_lock(book, ignored);
    space.async_lock({film, book}, ignored);
    space.async_lock(Path::of("free"), ignored);
    space.async_lock(book, asio::bind_executor(pool, Unreached{alive}));
    pool.stop();
    EXPECT_EQ(tickets(), 8U);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_FALSE(error);
  EXPECT_EQ(tickets(), 1U);
}

TEST_F(Asio, AContextMayGoWhileLocksAreGivenBack) {
  const auto alive = std::make_shared<int>();
  Hold blocker;
  Rival rival{rounds, [&] { blocker.release(); }};
  for (int i = 0; i < rounds; ++i) {
    blocker = space.lock(book);
    auto brief = std::make_optional<asio::io_context>();
    auto ignored = asio::bind_executor(*brief, Unreached{alive});
    space.async_lock(book.shared(), ignored);
    space.async_lock(book.shared(), ignored);
    space.async_lock(book, ignored);
    rival.race([&] { brief.reset(); });
    ASSERT_EQ(alive.use_count(), 1);
    ASSERT_EQ(tickets(), 0U);
  }
}

// Goal: no hold is lost and none is given twice, whatever comes in between.
// Method: strands of a pool ask for one path; each is cancelled at some time after it has asked.
struct Contender : std::enable_shared_from_this<Contender> {
  const Space* space = nullptr;
  std::atomic<int>* inside = nullptr;
  std::atomic<int>* outcomes = nullptr;
  asio::strand<asio::thread_pool::executor_type> strand;
  asio::cancellation_signal signal;
  int left = rounds / 8;

  Contender(asio::thread_pool& pool, const Space& s, std::atomic<int>& in, std::atomic<int>& out)
      : space(&s), inside(&in), outcomes(&out), strand(asio::make_strand(pool)) {}

  void ask() {
    if (--left < 0) return;
    space->async_lock(
        book,
        asio::bind_cancellation_slot(
            signal.slot(), asio::bind_executor(strand, [self = shared_from_this()](
                                                           const std::exception_ptr& e, Hold hold) {
              ++*self->outcomes;
              EXPECT_NE(bool{hold}, is_aborted(e));
              if (hold) {
                EXPECT_EQ(self->inside->fetch_add(1), 0);
                self->inside->fetch_sub(1);
                hold.release();
              }
              self->ask();
            })));
    asio::post(strand, [self = shared_from_this()] {
      if (self->left % 2 == 0) self->signal.emit(asio::cancellation_type::total);
    });
  }
};

TEST_F(Asio, NoHoldIsLostOrGivenTwice) {
  asio::thread_pool pool{4};
  std::atomic<int> inside = 0;
  std::atomic<int> outcomes = 0;
  for (int i = 0; i < 8; ++i) {
    const auto contender = std::make_shared<Contender>(pool, space, inside, outcomes);
    asio::post(contender->strand, [contender] { contender->ask(); });
  }
  pool.join();
  EXPECT_EQ(outcomes, 8 * (rounds / 8));
  EXPECT_EQ(tickets(), 0U);
}

}  // namespace
}  // namespace tenure
