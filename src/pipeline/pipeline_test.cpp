// Pipeline: callables, errors, retry, timeouts, control. Concurrency is in crew_test.cpp.
#include "tenure/pipeline.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/manual_clock_test.hpp"
#include "pipeline/tools_test.hpp"
#include "tenure/space.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"

namespace tenure {
namespace {

using kit::until;
using pipeline::ManualClock;

TEST(Pipeline, RunsTasksInOrder) {
  Log log;
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("c", log.task("c"), {.needs = {"b"}});
  pipeline.add("b", log.task("b"), {.needs = {"a"}});
  pipeline.add("a", log.task("a"));
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(log.text(), "a b c");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.count(TaskEnd::done), 3U);
}

TEST(Pipeline, EmptyRunEndsAtOnce) {
  Pipeline pipeline;
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_THROW(pipeline.run(), BadRequest);
  EXPECT_THROW(pipeline.add("late", [] {}), BadRequest);
}

TEST(Pipeline, LongCriticalPathGoesFirst) {
  Log log;
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("short", log.task("short"));
  pipeline.add("slow", log.task("slow"), {.estimate = 10});
  pipeline.add("head", log.task("head"));
  pipeline.add("tail", log.task("tail"), {.needs = {"head"}, .estimate = 2});
  pipeline.run();
  EXPECT_EQ(log.text(), "slow head tail short");
}

TEST(Pipeline, MuseumS20CycleIsPrintedAndNothingRuns) {
  Log log;
  Pipeline pipeline;
  pipeline.add("free", log.task("free"));
  pipeline.add("a", log.task("a"), {.needs = {"c", "free"}});
  pipeline.add("b", log.task("b"), {.needs = {"a"}});
  pipeline.add("c", log.task("c"), {.needs = {"b"}});
  pipeline.add("behind", log.task("behind"), {.needs = {"c"}});
  const std::string text = kit::message_of<BadRequest>([&] { pipeline.run(); });
  EXPECT_EQ(text,
            "tasks need each other in a cycle: a needs c needs b needs a: remove one of these "
            "dependencies");
  EXPECT_EQ(log.text(), "");
}

TEST(Pipeline, TaskThatNeedsItselfIsACycle) {
  Pipeline pipeline;
  pipeline.add("a", [] {}, {.needs = {"a"}});
  EXPECT_EQ(kit::message_of<BadRequest>([&] { pipeline.run(); }),
            "tasks need each other in a cycle: a needs a: remove one of these dependencies");
}

TEST(Pipeline, UnknownNameIsAnErrorThatNamesTheNearest) {
  Pipeline pipeline;
  pipeline.add("build", [] {});
  pipeline.add("publish", [] {}, {.needs = {"biuld"}});
  EXPECT_EQ(kit::message_of<BadRequest>([&] { pipeline.run(); }),
            "task \"publish\" needs \"biuld\", which does not exist: did you mean \"build\"?");
  Pipeline other;
  other.add("x", [] {}, {.needs = {"completely different"}});
  EXPECT_EQ(kit::message_of<BadRequest>([&] { other.run(); }),
            "task \"x\" needs \"completely different\", which does not exist: add it, or remove "
            "the dependency");
}

TEST(Pipeline, BadArgumentsAreErrors) {
  Pipeline pipeline;
  pipeline.add("a", [] {});
  EXPECT_EQ(kit::message_of<BadRequest>([&] { pipeline.add("a", [] {}); }),
            "there are two tasks of the name \"a\": rename one");
  EXPECT_THROW(pipeline.add("", [] {}), BadRequest);
  EXPECT_THROW(pipeline.add("b", [] {}, {.after = {{99}}}), BadRequest);
  EXPECT_THROW(pipeline.add("b", [] {}, {.timeout = std::chrono::seconds{0}}), BadRequest);
  EXPECT_THROW(pipeline.add("b", [] {}, {.claims = {Path::of("x")}}), BadRequest);
  EXPECT_FALSE(pipeline.remove("nothing"));
  EXPECT_TRUE(pipeline.run().ok()) << "what was refused has left nothing behind";
}

TEST(Pipeline, MuseumS22ConcurrencyZeroIsAnError) {
  Pipeline pipeline;
  EXPECT_EQ(kit::message_of<BadRequest>([&] { pipeline.set_concurrency(0); }),
            "a concurrency of 0 would run nothing: use at least 1");
  EXPECT_THROW(Pipeline{PipelineOptions{.concurrency = 5000}}, BadRequest);
}

class Thrower final : public PipelineObserver {
 public:
  void started(TaskId /*task*/, unsigned /*attempt*/) override { fail(); }
  void retries(TaskId /*t*/, unsigned /*a*/, std::chrono::nanoseconds /*d*/) override { fail(); }
  void ended(TaskId /*task*/, TaskEnd /*end*/) override { throw 7; }
};

TEST(Pipeline, MuseumS22ObserverThatThrowsHarmsNothing) {
  Thrower thrower;
  Pipeline pipeline{{.concurrency = 2}};
  pipeline.observe(&thrower);
  pipeline.add("a", [] {});
  pipeline.add("b", fail, {.needs = {"a"}});
  pipeline.add("c", [] {}, {.needs = {"b"}});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(ends(pipeline, result, 3), "a=done b=failed c=blocked");
  EXPECT_EQ(result.observer_errors(), 5U);
}

// Problem 3: blocked dependents are counted, so run() returns; each has its root cause.
TEST(Pipeline, SeedProblem3BlockedTasksEndWithTheirRootCause) {
  Pipeline pipeline{{.concurrency = 2}};
  const TaskId a = pipeline.add("a", fail);
  pipeline.add("b", [] {}, {.needs = {"a"}});
  const TaskId c = pipeline.add("c", [] {}, {.needs = {"b"}});
  pipeline.add("d", [] {});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(ends(pipeline, result, 4), "a=failed b=blocked c=blocked d=done");
  EXPECT_EQ(result.cause(c), a);
  EXPECT_EQ(result.cause(a), std::nullopt);
  EXPECT_EQ(message(result.error(a)), "broken");
  EXPECT_EQ(result.error(c), nullptr);
  EXPECT_FALSE(result.ok());
}

// Problem 1: C starts when A is done, although B, of the same level, still runs.
TEST(Pipeline, SeedProblem1NoLockstepByLevel) {
  std::atomic<bool> c_ran{false};
  Pipeline pipeline{{.concurrency = 2}};
  pipeline.add("a", [] {});
  pipeline.add("b", [&] { until([&] { return c_ran.load(); }); });
  pipeline.add("c", [&] { c_ran = true; }, {.needs = {"a"}});
  EXPECT_TRUE(pipeline.run().ok());
}

TEST(Pipeline, MuseumS23ChainOfAMillion) {
  constexpr std::uint32_t length = 1'000'000;
  for (const bool fails : {false, true}) {
    Pipeline pipeline{{.concurrency = 1}};
    std::uint32_t ran = 0;
    TaskId last = pipeline.add([&, fails] {
      ++ran;
      if (fails) fail();
    });
    for (std::uint32_t i = 1; i < length; ++i) {
      last = pipeline.add([&ran] { ++ran; }, std::span{&last, 1});
    }
    const PipelineResult result = pipeline.run();
    EXPECT_EQ(ran, fails ? 1 : length);
    EXPECT_EQ(result.count(TaskEnd::done), fails ? 0 : length);
    EXPECT_EQ(result.count(TaskEnd::blocked), fails ? length - 1 : 0);
  }
}

TEST(Pipeline, RetriesWithFullJitterUntilItWorks) {
  const auto clock = std::make_shared<ManualClock>();
  Pipeline pipeline{{.concurrency = 1, .seed = 7, .clock = clock}};
  unsigned attempts = 0;
  const auto flaky = [&](const TaskContext& context) {
    EXPECT_EQ(context.attempt(), attempts);
    if (++attempts < 4) fail();
  };
  class Delays final : public PipelineObserver {
   public:
    void started(TaskId /*task*/, unsigned /*attempt*/) override {}
    void ended(TaskId /*task*/, TaskEnd /*end*/) override {}
    void retries(TaskId /*t*/, unsigned attempt, std::chrono::nanoseconds delay) override {
      EXPECT_EQ(attempt, all.size());
      all.push_back(delay);
    }
    std::vector<std::chrono::nanoseconds> all;
  } delays;
  pipeline.observe(&delays);
  using std::chrono::milliseconds;
  pipeline.add("a", flaky,
               {.retry = {.max = 3, .base = milliseconds{100}, .cap = milliseconds{150}}});
  std::jthread mover{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) clock->advance(milliseconds{20});
  }};
  EXPECT_TRUE(pipeline.run().ok());
  ASSERT_EQ(delays.all.size(), 3U);
  EXPECT_LE(delays.all[0], milliseconds{100});
  EXPECT_LE(delays.all[1], milliseconds{150});
  EXPECT_LE(delays.all[2], milliseconds{150});
}

// The clock is moved twice, for two delays: the run could not end if there were a third.
TEST(Pipeline, MuseumS29NoPauseAfterTheLastAttempt) {
  unsigned attempts = 0;
  const auto clock = std::make_shared<ManualClock>();
  Pipeline timed{{.concurrency = 1, .clock = clock}};
  timed.add("a",
            [&] {
              ++attempts;
              fail();
            },
            {.retry = {.max = 2, .base = std::chrono::seconds{1}}});
  std::jthread mover{[&](const std::stop_token& stop) {
    for (int i = 0; i < 2 && !stop.stop_requested(); ++i) clock->advance();
  }};
  const PipelineResult result = timed.run();
  EXPECT_EQ(attempts, 3U);
  EXPECT_EQ(result.count(TaskEnd::failed), 1U);
}

// A delayed retry leaves its slot to another task, which can therefore end the delay.
TEST(Pipeline, MuseumS25WaitingRetryFreesItsSlot) {
  const auto clock = std::make_shared<ManualClock>();
  Pipeline pipeline{{.concurrency = 1, .clock = clock}};
  unsigned attempts = 0;
  pipeline.add("flaky",
               [&] {
                 if (attempts++ == 0) fail();
               },
               {.retry = {.max = 1, .base = std::chrono::hours{1}, .cap = std::chrono::hours{1}},
                .estimate = 100});
  pipeline.add("mover", [&] { EXPECT_TRUE(clock->advance()); });
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_EQ(attempts, 2U);
}

TEST(Pipeline, MuseumS25ConcurrencyCanBeRaisedWhileItRuns) {
  std::atomic<unsigned> running{0};
  Pipeline pipeline{{.concurrency = 1}};
  for (int i = 0; i < 3; ++i) {
    pipeline.add([&] {
      if (++running == 1) pipeline.set_concurrency(3);
      until([&] { return running.load() == 3; });
    });
  }
  EXPECT_TRUE(pipeline.run().ok());
}

TEST(Pipeline, ConcurrencyCanBeLoweredWhileItRuns) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  Pipeline pipeline{{.concurrency = 4}};
  const TaskId first = pipeline.add([&] { pipeline.set_concurrency(1); });
  for (int i = 0; i < 200; ++i) {
    pipeline.add(
        [&] {
          const int now = ++running;
          if (now > most) most = now;
          std::this_thread::yield();
          --running;
        },
        std::span{&first, 1});
  }
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_EQ(most.load(), 1);
}

TEST(Pipeline, TimeoutStopsTheAttemptAndCountsAsFailure) {
  const auto clock = std::make_shared<ManualClock>();
  Pipeline pipeline{{.concurrency = 1, .clock = clock}};
  const TaskId slow = pipeline.add(
      "slow", [&](const TaskContext& context) { until([&] { return context.stop_requested(); }); },
      {.timeout = std::chrono::seconds{5}});
  std::jthread mover{[&] { clock->advance(); }};
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(result.end(slow), TaskEnd::failed);
  EXPECT_EQ(message(result.error(slow)), "the attempt ran longer than its timeout");
}

TEST(Pipeline, TimeoutOfOneAttemptIsFollowedByARetry) {
  for (const bool membarrier : {true, false}) {
    const auto clock = std::make_shared<ManualClock>();
    Pipeline pipeline{{.concurrency = 2, .clock = clock, .membarrier = membarrier}};
    std::atomic<unsigned> attempts{0};
    pipeline.add("slow",
                 [&](const TaskContext& context) {
                   if (attempts++ < 2) until([&] { return context.stop_requested(); });
                 },
                 {.timeout = std::chrono::seconds{5}, .retry = {.max = 2}});
    pipeline.add("after", [] {}, {.needs = {"slow"}});
    // Timeout, delay, timeout, delay; the timeout of the last attempt is never reached.
    std::jthread mover{[&] {
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(clock->advance());
    }};
    EXPECT_TRUE(pipeline.run().ok());
    EXPECT_EQ(attempts.load(), 3U);
  }
}

TEST(Pipeline, SystemClockTimesOutAndRetries) {
  Pipeline pipeline{{.concurrency = 2}};
  std::atomic<unsigned> attempts{0};
  pipeline.add("slow",
               [&](const TaskContext& context) {
                 if (attempts++ == 0) until([&] { return context.stop_requested(); });
               },
               {.timeout = std::chrono::milliseconds{1},
                .retry = {.max = 1000, .base = std::chrono::microseconds{10}}});
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_GE(attempts.load(), 2U);
}

TEST(Pipeline, TasksAddTasksWhileItRuns) {
  Log log;
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("a", [&] {
    log.note("a");
    pipeline.add("late", log.task("late"), {.needs = {"a"}});
    pipeline.add("later", log.task("later"), {.needs = {"late"}});
    EXPECT_THROW(pipeline.add("lost", [] {}, {.needs = {"nowhere"}}), BadRequest);
  });
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(log.text(), "a late later");
  EXPECT_TRUE(result.ok());
}

TEST(Pipeline, TaskAddedAfterTheEndOfWhatItNeedsEndsAlike) {
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("ok", [] {}, {.estimate = 9});
  const TaskId bad = pipeline.add("bad", fail, {.estimate = 8});
  pipeline.add("b", [] {}, {.needs = {"bad"}});
  pipeline.add("gone", [] {});
  pipeline.add("adds",
               [&] {
                 pipeline.remove("gone");
                 pipeline.add("1", [] {}, {.needs = {"ok"}});
                 pipeline.add("2", [] {}, {.needs = {"ok", "bad"}});
                 pipeline.add("3", [] {}, {.needs = {"b"}});
                 pipeline.add("4", [] {}, {.needs = {"gone"}});
               },
               {.estimate = 7});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(ends(pipeline, result, 9),
            "ok=done bad=failed b=blocked gone=skipped adds=done 1=done 2=blocked 3=blocked "
            "4=skipped");
  EXPECT_EQ(result.cause({6}), bad);
  EXPECT_EQ(result.cause({7}), bad);
}

// Problem 9: no signal handlers, no main thread: pipelines run side by side on any threads.
TEST(Pipeline, SeedProblem9RunsOnAnyThreadSeveralAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> ran{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Pipeline pipeline{{.concurrency = 2}};
      for (int task = 0; task < 100; ++task) pipeline.add([&] { ++ran; });
      EXPECT_TRUE(pipeline.run().ok());
    });
  }
  threads.clear();
  EXPECT_EQ(ran.load(), 400);
}

TEST(Pipeline, PipelinesNest) {
  Pipeline outer{{.concurrency = 2}};
  std::atomic<int> ran{0};
  for (int i = 0; i < 4; ++i) {
    outer.add([&] {
      Pipeline inner{{.concurrency = 2}};
      for (int task = 0; task < 10; ++task) inner.add([&] { ++ran; });
      inner.run();
    });
  }
  EXPECT_TRUE(outer.run().ok());
  EXPECT_EQ(ran.load(), 40);
}

TEST(Pipeline, CallablesThatAreLargeOrMoveOnly) {
  Pipeline pipeline{{.concurrency = 1}};
  std::array<int, 100> numbers{};
  numbers.fill(7);
  int sum = 0;
  pipeline.add([numbers, &sum] { sum += numbers[99]; });
  pipeline.add([number = std::make_unique<int>(5), &sum] { sum += *number; });
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_EQ(sum, 12);
}

}  // namespace
}  // namespace tenure
