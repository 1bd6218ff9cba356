// Destroying what waits, in every kind of space: a coroutine, or the context of an Asio operation.
// Nothing is left in the queue, and a lock that was granted meanwhile is given back.
#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <coroutine>
#include <deque>
#include <exception>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/asio.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

namespace asio = boost::asio;

const Path book = Path::of("book");

// Starts at once, and destroys its coroutine, as most task types do.
class Task {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name.
    Task get_return_object() {
      return Task{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    static void return_void() {}
    static void unhandled_exception() { std::terminate(); }
  };
  Task() = default;
  explicit Task(std::coroutine_handle<promise_type> coroutine) : coroutine_(coroutine) {}
  Task(Task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { destroy(); }
  void destroy() {
    if (coroutine_) std::exchange(coroutine_, {}).destroy();
  }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

// An executor whose thread is the one that calls run(). It must outlive the space, whose threads
// push to it.
class Loop {
 public:
  struct Executor {
    Loop* loop;
    void execute(ResumeHandle resume) const {
      const std::scoped_lock lock{loop->mutex_};
      loop->queue_.push_back(std::move(resume));
    }
  };
  [[nodiscard]] ResumeOn<Executor> here() { return resume_on(Executor{this}); }
  [[nodiscard]] std::size_t size() {
    const std::scoped_lock lock{mutex_};
    return queue_.size();
  }
  void await(std::size_t count) {
    while (size() < count) std::this_thread::yield();
  }
  // A thread of a space may push meanwhile: it does so when a destroyed coroutine's grant is due.
  void run() {
    std::deque<ResumeHandle> due;
    {
      const std::scoped_lock lock{mutex_};
      due.swap(queue_);
    }
    for (const ResumeHandle& next : due) next();
  }

 private:
  std::mutex mutex_;
  std::deque<ResumeHandle> queue_;
};

class AnyDestroy : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyDestroy);

Task wait_plainly(const Space& space, std::string& log) {
  const Hold hold = co_await space.async_lock(book);
  log += "held ";
}
Task wait_on(const Space& space, Loop& loop, std::string& log) {
  try {
    const Hold hold = co_await space.async_lock(book, loop.here());
    log += "held ";
  } catch (const Closed&) {
    log += "closed ";
  }
}
Task wait_stoppably(const Space& space, std::stop_token stop, Loop& loop, std::string& log) {
  const std::optional<Hold> hold = co_await space.async_lock(book, std::move(stop), loop.here());
  log += hold ? "held " : "stopped ";
}

TEST_P(AnyDestroy, ACoroutineThatWaitsLeavesTheQueue) {
  std::string log;
  Loop loop;
  std::stop_source stop;
  const Space space = open_new();
  Hold hold = space.lock(book);
  {
    const Task plain = wait_plainly(space, log);
    await_tickets(space, 2);
    const Task on = wait_on(space, loop, log);
    await_tickets(space, 3);
    const Task stoppable = wait_stoppably(space, stop.get_token(), loop, log);
    await_tickets(space, 4);
  }
  await_tickets(space, 1);
  stop.request_stop();
  hold.release();
  EXPECT_TRUE(space.try_lock(book));
  EXPECT_EQ(loop.size(), 0U);
  EXPECT_EQ(log, "");
}

TEST_P(AnyDestroy, TheNextOneIsServed) {
  std::string log;
  Loop loop;
  const Space space = open_new();
  Hold hold = space.lock(book.shared());
  Task first = wait_on(space, loop, log);
  await_tickets(space, 2);
  std::optional<Hold> reader;
  std::jthread other{[&] { reader = space.lock(book.shared()); }};
  await_tickets(space, 3);
  first.destroy();
  other.join();
  EXPECT_TRUE(reader->release());
  EXPECT_EQ(loop.size(), 0U);
}

TEST_P(AnyDestroy, AGrantThatWasNotDeliveredIsGivenBack) {
  std::string log;
  Loop loop;
  std::stop_source stop;
  const Space space = open_new();
  for (const bool stoppable : {false, true}) {
    Hold hold = space.lock(book);
    Task task =
        stoppable ? wait_stoppably(space, stop.get_token(), loop, log) : wait_on(space, loop, log);
    await_tickets(space, 2);
    hold.release();
    loop.await(1);
    EXPECT_FALSE(space.try_lock(book)) << "it is granted";
    task.destroy();
    await_tickets(space, 0);
    EXPECT_TRUE(space.try_lock(book));
    loop.run();
  }
  EXPECT_EQ(log, "");
}

TEST_P(AnyDestroy, AStopThatWasNotDeliveredIsForgotten) {
  std::string log;
  Loop loop;
  std::stop_source stop;
  const Space space = open_new();
  const Hold hold = space.lock(book);
  Task task = wait_stoppably(space, stop.get_token(), loop, log);
  await_tickets(space, 2);
  stop.request_stop();
  EXPECT_EQ(loop.size(), 1U);
  task.destroy();
  loop.run();
  EXPECT_EQ(log, "");
  await_tickets(space, 1);
}

TEST_P(AnyDestroy, AClosedSpaceIsNotTouched) {
  std::string log;
  Loop loop;
  Task task;
  {
    const Space space = open_new();
    const Hold hold = space.lock(book);
    task = wait_on(space, loop, log);
    await_tickets(space, 2);
  }
  loop.await(1);
  task.destroy();
  loop.run();
  EXPECT_EQ(log, "");
}

// Both are granted by one release; the first to be resumed destroys the other, which is due.
// Ends by itself, so nobody destroys it while it does.
Task read_book(const Space& space) { const Hold hold = co_await space.async_lock(book.shared()); }
base::Detached destroy_when_reading(const Space& space, Task& other, std::latch& done) {
  {
    const Hold hold = co_await space.async_lock(book.shared());
    other.destroy();
  }
  done.count_down();
}

TEST_P(AnyDestroy, ACoroutineMayDestroyAnotherThatIsDue) {
  const Space space = open_new();
  Task second;
  std::latch done{1};
  Hold hold = space.lock(book);
  destroy_when_reading(space, second, done);
  await_tickets(space, 2);
  second = read_book(space);
  await_tickets(space, 3);
  hold.release();
  done.wait();
  await_tickets(space, 0);
}

// On the thread of its executor, while another thread grants.
TEST_P(AnyDestroy, RacesWithTheGrant) {
  std::string log;
  Loop loop;
  std::stop_source stop;
  const Space space = open_new();
  for (int round = 0; round < rounds(2000); ++round) {
    Hold hold = space.lock(book);
    Task task = round % 2 == 0 ? wait_on(space, loop, log)
                               : wait_stoppably(space, stop.get_token(), loop, log);
    std::jthread other{[&hold] { hold.release(); }};
    if (round % 3 == 0) std::this_thread::yield();
    task.destroy();
    other.join();
    loop.run();
    ASSERT_TRUE(space.lock(book)) << "nothing is in the way";
  }
  EXPECT_EQ(log, "");
  await_tickets(space, 0);
}

// ---- Asio ----

TEST_P(AnyDestroy, AnAsioContextTakesItsOperationsAlong) {
  const Space space = open_new();
  int handled = 0;
  for (const bool granted : {false, true}) {
    Hold hold = space.lock(book);
    {
      asio::io_context io;
      space.async_lock(book, asio::bind_executor(
                                 io, [&](const std::exception_ptr&, const Hold&) { ++handled; }));
      asio::co_spawn(
          io,
          [&]() -> asio::awaitable<void> {
            const Hold mine = co_await space.async_lock(book, asio::use_awaitable);
            ++handled;
          },
          asio::detached);
      io.poll();
      await_tickets(space, 3);
      if (granted) {
        hold.release();
        await_tickets(space, 2);
      }
    }
    await_tickets(space, granted ? 0 : 1);
  }
  EXPECT_EQ(handled, 0);
}

// The store answers when the context is gone.
TEST(Destroy, AnAsioReleaseOutlivesItsContext) {
  const auto store = std::make_shared<MemoryStore>();
  const Space space = open(store);
  Hold hold = space.lock(book);
  std::latch busy{1};
  std::latch gone{1};
  WatchFor now;
  now.until = store->now();
  const std::unique_ptr<Watch> watch = store->watch(now, [&] {  // On the thread that makes posts.
    busy.count_down();
    gone.wait();
  });
  busy.wait();
  {
    asio::io_context io;
    hold.async_release(
        asio::bind_executor(io, [](const std::exception_ptr&, bool) { ADD_FAILURE(); }));
    io.poll();
  }
  gone.count_down();
  store->settle();
  EXPECT_TRUE(space.inspect().empty());
}

}  // namespace
}  // namespace tenure
