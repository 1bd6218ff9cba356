// remove, pause, cancel and claims, in every state of a task.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "pipeline/manual_clock_test.hpp"
#include "pipeline/tools_test.hpp"
#include "tenure/pipeline.hpp"
#include "tenure/space.hpp"
#include "tests/kit/patience.hpp"

namespace tenure {
namespace {

using kit::until;
using pipeline::ManualClock;

// Remove, in every state of the task. Problem 2: the queue of ready tasks has no remove.
TEST(PipelineControl, SeedProblem2RemoveOfAReadyTask) {
  for (const Dependents dependents : {Dependents::skip, Dependents::release}) {
    Log log;
    Pipeline pipeline{{.concurrency = 1}};
    pipeline.add("first", [&] { EXPECT_TRUE(pipeline.remove("ready", dependents)); },
                 {.estimate = 9});
    pipeline.add("ready", log.task("ready"));
    pipeline.add("next", log.task("next"), {.needs = {"ready"}});
    const PipelineResult result = pipeline.run();
    const bool skip = dependents == Dependents::skip;
    EXPECT_EQ(log.text(), skip ? "" : "next");
    EXPECT_EQ(ends(pipeline, result, 3), skip ? "first=done ready=skipped next=skipped"
                                              : "first=done ready=skipped next=done");
  }
}

TEST(PipelineControl, RemoveOfAWaitingTask) {
  for (const Dependents dependents : {Dependents::skip, Dependents::release}) {
    Pipeline pipeline{{.concurrency = 1}};
    pipeline.add("a", [&] {
      EXPECT_TRUE(pipeline.remove("b", dependents));
      EXPECT_FALSE(pipeline.remove("b", dependents)) << "it has ended";
    });
    pipeline.add("b", [] {}, {.needs = {"a"}});
    pipeline.add("c", [] {}, {.needs = {"b"}});
    pipeline.add("d", [] {}, {.needs = {"c"}});
    EXPECT_EQ(ends(pipeline, pipeline.run(), 4), dependents == Dependents::skip
                                                     ? "a=done b=skipped c=skipped d=skipped"
                                                     : "a=done b=skipped c=done d=done");
  }
}

TEST(PipelineControl, MuseumS21RemoveOfARunningTask) {
  for (const Dependents dependents : {Dependents::skip, Dependents::release}) {
    for (const bool throws : {false, true}) {
      Pipeline pipeline{{.concurrency = 1}};
      pipeline.add("a",
                   [&](const TaskContext& context) {
                     EXPECT_TRUE(pipeline.remove("a", dependents));
                     EXPECT_FALSE(pipeline.remove("a", dependents)) << "it is removed already";
                     EXPECT_TRUE(context.stop_requested());
                     if (throws) fail();
                   },
                   {.retry = {.max = 5}});
      pipeline.add("b", [] {}, {.needs = {"a"}});
      const PipelineResult result = pipeline.run();
      EXPECT_EQ(ends(pipeline, result, 2),
                dependents == Dependents::skip ? "a=skipped b=skipped" : "a=skipped b=done");
    }
  }
}

TEST(PipelineControl, RemoveOfADelayedTask) {
  for (const Dependents dependents : {Dependents::skip, Dependents::release}) {
    Pipeline pipeline{{.concurrency = 1, .clock = std::make_shared<ManualClock>()}};
    pipeline.add("a", fail, {.retry = {.max = 1, .base = std::chrono::hours{1}}, .estimate = 9});
    pipeline.add("b", [] {}, {.needs = {"a"}});
    pipeline.add("c", [&] { EXPECT_TRUE(pipeline.remove("a", dependents)); });
    EXPECT_EQ(ends(pipeline, pipeline.run(), 3), dependents == Dependents::skip
                                                     ? "a=skipped b=skipped c=done"
                                                     : "a=skipped b=done c=done");
  }
}

TEST(PipelineControl, RemoveOfATaskThatWaitsForItsClaims) {
  const Space space = open("local:");
  for (const Dependents dependents : {Dependents::skip, Dependents::release}) {
    Pipeline pipeline{{.concurrency = 1}};
    std::optional<Hold> hold = space.lock(Path::of("x"));
    pipeline.add("a", fail, {.claims = {Path::of("x")}, .locker = space, .estimate = 9});
    pipeline.add("b", [] {}, {.needs = {"a"}});
    pipeline.add("c", [&] {
      until([&] { return space.inspect().size() == 2; });
      EXPECT_TRUE(pipeline.remove("a", dependents));
    });
    EXPECT_EQ(ends(pipeline, pipeline.run(), 3), dependents == Dependents::skip
                                                     ? "a=skipped b=skipped c=done"
                                                     : "a=skipped b=done c=done");
    EXPECT_EQ(space.inspect().size(), 1U) << "the request has left the queue";
  }
}

TEST(PipelineControl, RemoveOfAnEndedTaskChangesNothing) {
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("ok", [] {}, {.estimate = 9});
  pipeline.add("bad", fail, {.estimate = 8});
  pipeline.add("blocked", [] {}, {.needs = {"bad"}});
  pipeline.add("last", [&] {
    EXPECT_FALSE(pipeline.remove("ok"));
    EXPECT_FALSE(pipeline.remove("bad", Dependents::release));
    EXPECT_FALSE(pipeline.remove("blocked"));
  });
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(ends(pipeline, result, 4), "ok=done bad=failed blocked=blocked last=done");
  EXPECT_FALSE(pipeline.remove("last"));
}

TEST(PipelineControl, RemoveBeforeTheRun) {
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("a", fail);
  EXPECT_TRUE(pipeline.remove("a", Dependents::release));
  EXPECT_FALSE(pipeline.remove("a"));
  pipeline.add("b", [] {}, {.needs = {"a"}});
  EXPECT_EQ(ends(pipeline, pipeline.run(), 2), "a=skipped b=done");
}

// What was removed before the run is no end of the run.
TEST(PipelineControl, ATaskAddedAfterAllOthersWereRemovedRuns) {
  Pipeline pipeline;
  const TaskId removed = pipeline.add("removed", [] { FAIL(); });
  pipeline.prepare();
  EXPECT_TRUE(pipeline.remove(removed));
  bool ran = false;
  const TaskId added = pipeline.add("added", [&] { ran = true; });
  const PipelineResult result = pipeline.run();
  EXPECT_TRUE(ran);
  EXPECT_EQ(result.end(removed), TaskEnd::skipped);
  EXPECT_EQ(result.end(added), TaskEnd::done);
}

TEST(PipelineControl, ClaimsAreHeldWhileTheTaskRuns) {
  const Space space = open("local:");
  Pipeline pipeline{{.concurrency = 4}};
  std::atomic<int> inside{0};
  std::atomic<std::uint64_t> token{0};
  for (int i = 0; i < 50; ++i) {
    pipeline.add("t" + std::to_string(i),
                 [&](const TaskContext& context) {
                   EXPECT_EQ(++inside, 1);
                   EXPECT_GT(context.token().value, token.exchange(context.token().value));
                   --inside;
                 },
                 {.claims = {Path::of("x"), Path::of("y")}, .locker = space});
  }
  EXPECT_TRUE(pipeline.run().ok());
  EXPECT_TRUE(space.inspect().empty());
}

TEST(PipelineControl, TaskThatWaitsForClaimsTakesNoSlot) {
  const Space space = open("local:");
  Pipeline pipeline{{.concurrency = 1}};
  Hold hold = space.lock(Path::of("x"));
  pipeline.add("a", [] {}, {.claims = {Path::of("x")}, .locker = space, .estimate = 9});
  pipeline.add("b", [&] { hold.release(); });
  EXPECT_TRUE(pipeline.run().ok());
}

TEST(PipelineControl, LostClaimsFailTheAttempt) {
  const Space space = open("local:");
  Pipeline pipeline{{.concurrency = 1}};
  const TaskId task = pipeline.add("a",
                                   [&](const TaskContext& context) {
                                     space.evict(context.token());
                                     until([&] { return context.stop_requested(); });
                                   },
                                   {.claims = {Path::of("x")}, .locker = space});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(message(result.error(task)), "the task lost its claims while it ran");
}

TEST(PipelineControl, ClaimsThatCannotBeGrantedFailTheTask) {
  const Space space = open("local:");
  Pipeline pipeline{{.concurrency = 1}};
  const TaskId task = pipeline.add("a", [] { FAIL(); },
                                   {.claims = {Path::of("x"), Path::of("x")}, .locker = space});
  pipeline.add("b", [] {}, {.needs = {"a"}});
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(ends(pipeline, result, 2), "a=failed b=blocked");
  EXPECT_NE(result.error(task), nullptr);
}

// Problem 4: cancel reaches tasks in every state, and run() returns.
TEST(PipelineControl, SeedProblem4CancelEndsEveryTask) {
  const Space space = open("local:");
  const Hold hold = space.lock(Path::of("x"));
  const auto clock = std::make_shared<ManualClock>();
  Pipeline pipeline{{.concurrency = 2, .clock = clock}};
  pipeline.add("done", [] {}, {.estimate = 99});
  pipeline.add("delayed", fail,
               {.retry = {.max = 1, .base = std::chrono::hours{1}}, .estimate = 98});
  pipeline.add("claims", [] {}, {.claims = {Path::of("x")}, .locker = space, .estimate = 97});
  pipeline.add("throws", [&](const TaskContext& context) {
    until([&] { return context.stop_requested(); });
    fail();
  });
  pipeline.add("returns", [&](const TaskContext& context) {
    until([&] { return context.stop_requested(); });
  });
  pipeline.add("waits", [] {}, {.needs = {"returns"}});
  std::jthread canceller{[&] {
    until([&] { return space.inspect().size() == 2; });
    pipeline.cancel();
  }};
  const PipelineResult result = pipeline.run();
  EXPECT_EQ(result.count(TaskEnd::failed) + result.count(TaskEnd::blocked), 0U);
  EXPECT_EQ(result.end({3}), TaskEnd::cancelled);
  EXPECT_EQ(result.end({5}), TaskEnd::cancelled);
  canceller.join();
  EXPECT_EQ(space.inspect().size(), 1U);
}

TEST(PipelineControl, CancelLetsRunningTasksFinishIfAsked) {
  Pipeline pipeline{{.concurrency = 1}};
  pipeline.add("a", [&](const TaskContext& context) {
    pipeline.cancel(Running::finish);
    EXPECT_FALSE(context.stop_requested());
    pipeline.cancel();
    EXPECT_TRUE(context.stop_requested());
  });
  pipeline.add("b", [] {}, {.needs = {"a"}});
  EXPECT_EQ(ends(pipeline, pipeline.run(), 2), "a=done b=cancelled");
}

TEST(PipelineControl, CancelBeforeTheRun) {
  Pipeline pipeline;
  pipeline.add("a", [] { FAIL(); });
  pipeline.cancel();
  EXPECT_EQ(ends(pipeline, pipeline.run(), 1), "a=cancelled");
}

TEST(PipelineControl, MuseumS24NothingStartsAfterPauseReturned) {
  for (const bool membarrier : {true, false}) {
    Pipeline pipeline{{.concurrency = 2, .membarrier = membarrier}};
    std::atomic<std::uint64_t> started{0};
    for (int i = 0; i < 20'000; ++i) {
      pipeline.add([&] { started.fetch_add(1); });
    }
    std::jthread controller{[&] {
      for (int round = 0; round < 10; ++round) {
        pipeline.pause();
        // Tasks that began before may still count themselves; none begins.
        const std::uint64_t before = started.load();
        for (int i = 0; i < 4; ++i) std::this_thread::yield();
        EXPECT_LE(started.load(), before + 2);
        pipeline.resume();
      }
    }};
    EXPECT_TRUE(pipeline.run().ok());
  }
}

}  // namespace
}  // namespace tenure
