#include "tenure/asio.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "space/asio_test.hpp"
#include "tenure/tenure.hpp"

// Counts what Asio and the library take from the heap; the sanitizers need malloc for themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENURE_COUNTS_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENURE_COUNTS_MALLOC 0
#endif
#endif
#ifndef TENURE_COUNTS_MALLOC
#define TENURE_COUNTS_MALLOC 1
#endif

namespace {
std::atomic<std::size_t> mallocs = 0;  // NOLINT(*-non-const-global-variables)
}  // namespace

#if TENURE_COUNTS_MALLOC
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names of glibc's.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void* malloc(std::size_t size) noexcept {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  mallocs.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#endif

namespace tenure {
namespace {

using asio::deferred;
using asio::use_awaitable;

// ---- Tokens ----

TEST_F(Asio, ACallbackRunsOnItsExecutorAndNeverInsideTheInitiatingCall) {
  auto strand = asio::make_strand(io);
  int calls = 0;
  auto check = asio::bind_executor(strand, [&](const std::exception_ptr& error, Hold hold) {
    EXPECT_TRUE(strand.running_in_this_thread());
    EXPECT_FALSE(error);
    EXPECT_TRUE(hold);
    ++calls;
  });
  asio::post(strand, [&] {
    space.async_lock(book, check);           // The first one makes the path known.
    space.async_lock(book, check);           // Waits.
    space.async_lock({film, book}, check);   // Waits, for one of two.
    space.async_lock(film.shared(), check);  // Waits, behind it.
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(tickets(), 4U);
  });
  io.run();
  EXPECT_EQ(calls, 4);
  calls = 0;
  asio::post(strand, [&] {
    space.async_lock(book, check);  // Free, and known.
    EXPECT_EQ(calls, 0);
  });
  io.restart();
  io.run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(tickets(), 0U);
}

TEST_F(Asio, AFutureBlocksUntilTheHoldComes) {
  EXPECT_TRUE(space.async_lock(book, asio::use_future).get());
  Hold blocker = space.lock(book);
  std::future<Hold> future = space.async_lock(book.shared(), asio::use_future);
  blocker.release();
  EXPECT_TRUE(future.get());
  EXPECT_EQ(tickets(), 0U);
}

TEST_F(Asio, DetachedGivesItBackAtOnce) {
  Hold blocker = space.lock(book);
  space.async_lock(book, asio::bind_executor(io, asio::detached));
  blocker.release();
  io.run();
  EXPECT_EQ(tickets(), 0U);
}

// A description owns its claims, may be launched later, and more than once.
TEST_F(Asio, DeferredIsLaunchedLater) {
  const auto described =
      space.as("reader").async_lock({Path::of("book", 1).shared(), film.shared()}, deferred);
  auto single =
      space.async_lock(Claim{Path::of("a long name that is not kept inline", 1)}, deferred);
  EXPECT_EQ(tickets(), 0U);
  std::array<Ending, 3> outcomes;
  described(store(outcomes[0]));
  described(store(outcomes[1]));
  std::move(single)(store(outcomes[2]));
  io.run();
  for (const Ending& outcome : outcomes) EXPECT_TRUE(outcome.hold);
  const std::vector<TicketInfo> all = space.inspect(film);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].ticket.claims.size(), 2U);
  EXPECT_EQ(all[0].ticket.owner, Owner{"reader"});
}

TEST_F(Asio, DeferredOutlivesItsSpace) {
  auto gone = std::make_optional(open("local:"));
  auto description = gone->async_lock(book, deferred);
  gone.reset();
  Ending outcome;
  std::move(description)(store(outcome));
  EXPECT_EQ(outcome.calls, 0);
  io.run();
  EXPECT_TRUE(is<Closed>(outcome.error));
}

awaitable<void> take_in_every_way(const Space& space, int& count) {
  const auto counts = [&count](const Hold& hold) { count += hold ? 1 : 0; };
  counts(co_await space.async_lock(book, use_awaitable));
  counts(co_await space.async_lock(book));
  counts(co_await space.async_lock(book, deferred));
  const std::array<Claim, 2> both{book.shared(), Claim{film}};  // g++ 12 can't await braces.
  counts(co_await space.async_lock(std::span<const Claim>{both}));
  counts(co_await space.as("me").async_lock(film.permits(2)));
  auto [error, hold] = co_await space.async_lock(book, asio::as_tuple(use_awaitable));
  counts(hold);
  auto [none, second] =
      co_await space.as("me").async_lock(book.group("x"), asio::as_tuple(use_awaitable));
  counts(second);  // Not reached: see below.
}

TEST_F(Asio, AnAwaitableTakesAnyTokenAndNone) {
  int count = 0;
  std::exception_ptr error;
  asio::co_spawn(io, take_in_every_way(space, count), [&](std::exception_ptr e) { error = e; });
  io.poll();
  EXPECT_EQ(count, 6);
  EXPECT_EQ(tickets(), 2U);  // The last one waits for the one before it: nobody's, so no deadlock.
  ASSERT_TRUE(space.evict(space.inspect()[1].ticket.number));
  io.run();
  EXPECT_FALSE(error);
  EXPECT_EQ(count, 6);
  EXPECT_EQ(tickets(), 0U);
}

// ---- Errors ----

TEST_F(Asio, ErrorsArriveInTheHandler) {
  const Locker me = space.as("me");
  const Hold hold = me.lock(book);
  const Hold permit = space.lock(film.permits(2));
  std::array<Ending, 4> outcomes;
  me.async_lock(book, store(outcomes[0]));
  space.async_lock(film.permits(3), store(outcomes[1]));
  space.async_lock(std::span<const Claim>{}, store(outcomes[2]));
  space.async_lock({book, book}, store(outcomes[3]));
  for (const Ending& outcome : outcomes) EXPECT_EQ(outcome.calls, 0);
  io.run();
  EXPECT_TRUE(is<Deadlock>(outcomes[0].error));
  EXPECT_TRUE(is<LimitMismatch>(outcomes[1].error));
  EXPECT_TRUE(is<BadRequest>(outcomes[2].error));
  EXPECT_TRUE(is<BadRequest>(outcomes[3].error));
  EXPECT_EQ(tickets(), 2U);
}

TEST_F(Asio, WhoWaitsIsToldThatTheSpaceIsGone) {
  auto gone = std::make_optional(open("local:"));
  const Hold blocker = gone->lock(book);
  Ending outcome;
  std::exception_ptr error;
  gone->async_lock({book, film}, store(outcome));
  asio::co_spawn(io, wait_for(*gone, error), asio::detached);
  io.poll();
  gone.reset();
  io.run();
  EXPECT_TRUE(is<Closed>(outcome.error));
  EXPECT_FALSE(outcome.hold);
  EXPECT_TRUE(is<Closed>(error));
}

TEST_F(Asio, WhoWaitsIsToldThatItWasEvicted) {
  const Hold blocker = space.lock(book);
  Ending outcome;
  space.async_lock(book, store(outcome));
  EXPECT_TRUE(space.evict(space.inspect()[1].ticket.number));
  io.run();
  EXPECT_TRUE(is<Evicted>(outcome.error));
}

// ---- Cancellation ----

TEST_F(Asio, ACancelledRequestLeavesTheQueueAtOnce) {
  for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                          asio::cancellation_type::total}) {
    Hold blocker = space.lock(book);
    asio::cancellation_signal signal;
    Ending first;
    Ending second;
    space.async_lock(book, store(first, signal));
    space.async_lock(book, store(second));
    signal.emit(asio::cancellation_type::none);
    EXPECT_EQ(tickets(), 3U);
    signal.emit(type);
    EXPECT_EQ(tickets(), 2U);
    EXPECT_EQ(first.calls, 0);
    signal.emit(type);  // Once more before it has completed.
    io.poll();
    EXPECT_EQ(first.calls, 1);
    EXPECT_TRUE(is_aborted(first.error));
    signal.emit(type);  // Nobody listens any more.
    EXPECT_EQ(second.calls, 0);
    blocker.release();
    io.run();
    io.restart();
    EXPECT_TRUE(second.hold);
  }
}

TEST_F(Asio, CancelledTooLateItHasTheHold) {
  Hold blocker = space.lock(book);
  asio::cancellation_signal signal;
  Ending waited;
  Ending free;
  Ending refused;
  asio::cancellation_signal others;
  space.async_lock(book, store(waited, signal));
  blocker.release();
  signal.emit(asio::cancellation_type::all);
  space.async_lock({film}, store(free, others));
  others.emit(asio::cancellation_type::all);
  io.run();
  EXPECT_TRUE(waited.hold);
  EXPECT_FALSE(waited.error);
  EXPECT_TRUE(free.hold);
  space.async_lock({film, film}, store(refused, others));
  others.emit(asio::cancellation_type::all);
  io.restart();
  io.run();
  EXPECT_TRUE(is<BadRequest>(refused.error));
}

awaitable<std::size_t> lock_or_time_out(const Space& space,
                                        asio::steady_timer::time_point deadline) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer{co_await asio::this_coro::executor, deadline};
  const auto result =
      co_await (space.async_lock(book, use_awaitable) || timer.async_wait(use_awaitable));
  co_return result.index();
}

TEST_F(Asio, ATimerMayEndTheWait) {
  using Time = asio::steady_timer::time_point;
  Hold blocker = space.lock(book);
  std::future<std::size_t> late =
      asio::co_spawn(io, lock_or_time_out(space, Time::min()), asio::use_future);
  io.run();
  EXPECT_EQ(late.get(), 1U);
  EXPECT_EQ(tickets(), 1U);

  std::future<std::size_t> early =
      asio::co_spawn(io, lock_or_time_out(space, Time::max()), asio::use_future);
  io.restart();
  io.poll();
  EXPECT_EQ(tickets(), 2U);
  blocker.release();
  io.run();
  EXPECT_EQ(early.get(), 0U);
  EXPECT_EQ(tickets(), 0U);
}

// ---- Executors and memory ----

// Has no context to ask for.
struct Manual {
  std::vector<std::move_only_function<void()>>* queue;
  template <class F>
  void execute(F&& function) const {
    queue->emplace_back(std::forward<F>(function));
  }
  [[nodiscard]] Manual require(asio::execution::blocking_t::never_t /*unused*/) const noexcept {
    return *this;
  }
  [[maybe_unused]] friend bool operator==(const Manual&, const Manual&) = default;
};

TEST_F(Asio, AnExecutorNeedsNoContext) {
  static_assert(asio::execution::is_executor<Manual>::value);
  std::vector<std::move_only_function<void()>> queue;
  Ending outcome;
  Ending second;
  Hold blocker = space.lock(book);
  space.async_lock(book, asio::bind_executor(Manual{&queue}, StoreIn{&outcome}));
  space.async_lock(book, asio::bind_executor(Manual{&queue}, StoreIn{&second}));
  EXPECT_TRUE(queue.empty());
  blocker.release();
  ASSERT_EQ(queue.size(), 1U);
  queue[0]();
  EXPECT_TRUE(outcome.hold);
  outcome.hold.release();
  ASSERT_EQ(queue.size(), 2U);
  queue.clear();  // Destroyed without having run: the grant is given back.
  EXPECT_EQ(second.calls, 0);
  EXPECT_EQ(tickets(), 0U);
}

struct Usage {
  std::size_t allocations = 0;
  std::size_t live = 0;
};
template <class T>
struct Counting {
  using value_type = T;
  Usage* usage;
  explicit Counting(Usage* u) : usage(u) {}
  template <class U>
  Counting(const Counting<U>& other) : usage(other.usage) {}  // NOLINT(*-explicit-*)
  T* allocate(std::size_t n) {
    ++usage->allocations;
    ++usage->live;
    return std::allocator<T>{}.allocate(n);
  }
  void deallocate(T* memory, std::size_t n) {
    --usage->live;
    std::allocator<T>{}.deallocate(memory, n);
  }
  friend bool operator==(const Counting&, const Counting&) = default;
};

TEST_F(Asio, MemoryComesFromTheHandlersAllocatorAndIsBackBeforeItRuns) {
  Usage usage;
  int calls = 0;
  auto handler = asio::bind_executor(
      io, asio::bind_allocator(Counting<void>{&usage}, [&](const std::exception_ptr& e, Hold hold) {
        EXPECT_EQ(usage.live, 0U);
        EXPECT_FALSE(e);
        EXPECT_TRUE(hold);
        ++calls;
      }));
  const auto run = [&](Hold blocker) {
    usage.allocations = 0;
    space.async_lock(book, handler);
    blocker.release();
    EXPECT_EQ(usage.live, usage.allocations);
    io.run();
    io.restart();
  };
  (void)space.lock(book);
  run({});
  EXPECT_EQ(usage.allocations, 1U);  // Of the executor's queue.
  run(space.lock(book));
  EXPECT_EQ(usage.allocations, 2U);  // And the operation.
  EXPECT_EQ(calls, 2);
}

// Takes the lock again while it still holds it, and so hands it to the other one of two.
struct Chain {
  asio::io_context* io;
  const Space* space;
  int* left;
  bool contended;
  using executor_type = asio::io_context::executor_type;
  [[nodiscard]] executor_type get_executor() const noexcept { return io->get_executor(); }

  void operator()(const std::exception_ptr& /*unused*/, Hold hold) const {
    if (--*left == 1'000) mallocs = 0;
    if (*left <= 0) return;
    if (!contended) hold.release();
    space->async_lock(book, *this);
  }
};

TEST_F(Asio, NeedsNoHeapInTheSteadyState) {
  for (const bool contended : {false, true}) {
    int left = 2'000;
    const Chain chain{.io = &io, .space = &space, .left = &left, .contended = contended};
    mallocs = 0;
    space.async_lock(book, chain);  // Outside of run(), where nothing is recycled.
    if (TENURE_COUNTS_MALLOC != 0) {
      EXPECT_GT(mallocs, 0U);
    }
    if (contended) space.async_lock(book, chain);
    io.run();
    io.restart();
    EXPECT_LE(left, 0);
    EXPECT_EQ(tickets(), 0U);
    if (TENURE_COUNTS_MALLOC != 0) {
      EXPECT_EQ(mallocs, 0U) << "contended: " << contended;
    }
  }
}

// ---- Order ----

awaitable<void> take_turn(const Space& space, int number, std::vector<int>& order) {
  const Hold hold = co_await space.async_lock(book);
  order.push_back(number);
}

TEST_F(Asio, AThousandAwaitablesHaveTheirTurnsInOrder) {
  Hold blocker = space.lock(book);
  std::vector<int> order;
  for (int i = 0; i < 1'000; ++i) asio::co_spawn(io, take_turn(space, i, order), asio::detached);
  io.poll();
  EXPECT_EQ(tickets(), 1'001U);
  blocker.release();
  io.run();
  EXPECT_EQ(order.size(), 1'000U);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

awaitable<void> add_many(const Space& space, int& unguarded) {
  for (int i = 0; i < 200; ++i) {
    const Hold hold = co_await space.async_lock(book);
    ++unguarded;
  }
}

TEST_F(Asio, APoolOfThreadsTakesTurns) {
  asio::thread_pool pool{4};
  int unguarded = 0;
  for (int i = 0; i < 20; ++i) asio::co_spawn(pool, add_many(space, unguarded), asio::detached);
  pool.join();
  EXPECT_EQ(unguarded, 4'000);
  EXPECT_EQ(tickets(), 0U);
}

}  // namespace
}  // namespace tenure
