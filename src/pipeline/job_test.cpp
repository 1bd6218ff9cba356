// Tasks that are coroutines.
#include "tenure/job.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <coroutine>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tenure/pipeline.hpp"
#include "tenure/space.hpp"
#include "tests/kit/patience.hpp"

namespace tenure {
namespace {

using kit::until;

// Lets coroutines wait until another thread resumes them.
class Gate {
 public:
  class Awaiter {
   public:
    explicit Awaiter(Gate& gate) noexcept : gate_(gate) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() = default;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) { gate_.add(handle); }
    void await_resume() const noexcept {}

   private:
    Gate& gate_;
  };
  Awaiter wait() { return Awaiter{*this}; }
  std::size_t size() const {
    const std::scoped_lock lock{mutex_};
    return waiting_.size();
  }
  bool resume_one() {
    std::coroutine_handle<> handle;
    {
      const std::scoped_lock lock{mutex_};
      if (waiting_.empty()) return false;
      handle = waiting_.back();
      waiting_.pop_back();
    }
    handle.resume();
    return true;
  }

 private:
  void add(std::coroutine_handle<> handle) {
    const std::scoped_lock lock{mutex_};
    waiting_.push_back(handle);
  }
  mutable std::mutex mutex_;
  std::vector<std::coroutine_handle<>> waiting_;
};

Job at_once(TaskContext /*context*/) { co_return; }
Job throws(TaskContext /*context*/) {
  throw std::runtime_error("broken");
  co_return;
}

TEST(Job, EndsAtOnceOrThrows) {
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("a", at_once);
  pipeline.add("b", at_once, {.needs = {"a"}});
  const TaskId bad = pipeline.add("c", throws, {.needs = {"b"}});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(result.count(TaskEnd::done), 2U);
  EXPECT_EQ(result.end(bad), TaskEnd::failed);
  EXPECT_NE(result.error(bad), nullptr);
}

// More jobs than threads wait at a time; never more than the concurrency.
TEST(Job, SuspendedJobsHoldSlotsButNoThreads) {
  Gate gate;
  Pipeline pipeline{{.concurrency = 8}};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  for (int i = 0; i < 100; ++i) {
    pipeline.add("t" + std::to_string(i), [&](TaskContext /*context*/) -> Job {
      const int now = ++inside;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      co_await gate.wait();
      --inside;
    });
  }
  std::jthread resumer{[&](const std::stop_token& stop) {
    until([&] { return gate.size() == 8; });
    while (!stop.stop_requested()) {
      if (!gate.resume_one()) std::this_thread::yield();
    }
  }};
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_EQ(most.load(), 8);
}

TEST(Job, DependentsOfAJobStartWhenItEnds) {
  Gate gate;
  Pipeline pipeline{{.concurrency = 1}};
  std::atomic<bool> ended{false};
  pipeline.add("job", [&](TaskContext /*context*/) -> Job {
    co_await gate.wait();
    ended = true;
  });
  pipeline.add("next", [&] { EXPECT_TRUE(ended); }, {.needs = {"job"}});
  std::jthread resumer{[&] {
    until([&] { return gate.size() == 1; });
    gate.resume_one();
  }};
  EXPECT_TRUE(pipeline.run().ok());
}

TEST(Job, AwaitsALockAndItsStop) {
  const Space space = open("local:");
  const Hold hold = space.lock(Path::of("x"));
  Pipeline pipeline{{.concurrency = 2}};
  std::atomic<bool> stopped{false};
  pipeline.add("job", [&](TaskContext context) -> Job {
    const std::optional<Hold> own = co_await space.async_lock(Path::of("x"), context.stop());
    stopped = !own;
  });
  std::jthread canceller{[&] {
    until([&] { return space.inspect().size() == 2; });
    pipeline.cancel();
    EXPECT_TRUE(stopped) << "cancel() returned while the job ran";
  }};
  const PipelineResult result = pipeline.run();
  EXPECT_TRUE(result.ok()) << "it returned normally";
}

// A captured value is used after a suspension: the closure outlives the coroutine.
TEST(Job, ManyJobsPassALockOn) {
  const Space space = open("local:");
  for (const bool membarrier : {true, false}) {
    Pipeline pipeline{{.concurrency = 64, .membarrier = membarrier}};
    int inside = 0;
    int sum = 0;
    for (int i = 0; i < 500; ++i) {
      pipeline.add("t" + std::to_string(i), [&, i](TaskContext /*context*/) -> Job {
        const Hold hold = co_await space.async_lock(Path::of("x"));
        EXPECT_EQ(++inside, 1);
        sum += i;
        --inside;
      });
    }
    EXPECT_TRUE(pipeline.run().ok());
    EXPECT_EQ(sum, 500 * 499 / 2);
  }
}

TEST(Job, RetriesAndTimesOut) {
  Gate gate;
  Pipeline pipeline{{.concurrency = 2}};
  std::atomic<unsigned> attempts{0};
  std::stop_token stop;  // Set before the gate has a waiter.
  pipeline.add("job",
               [&](TaskContext context) -> Job {
                 if (attempts++ > 0) co_return;
                 stop = context.stop();
                 co_await gate.wait();
                 EXPECT_TRUE(context.stop_requested());
               },
               {.timeout = std::chrono::milliseconds{1},
                .retry = {.max = 1000, .base = std::chrono::microseconds{10}}});
  std::jthread resumer{[&] {
    until([&] { return gate.size() == 1; });
    until([&] { return stop.stop_requested(); });
    gate.resume_one();
  }};
  EXPECT_TRUE(pipeline.run().ok());
}

}  // namespace
}  // namespace tenure
