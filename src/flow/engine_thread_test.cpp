// The engine with threads of its own, on a store in memory with a real clock.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tenure/flow.hpp"
#include "tenure/memory_store.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int add(int a, int b) { return a + b; }

Flow<int> sum(Context& ctx, int n) {
  int total = 0;
  for (int i = 1; i <= n; ++i) total = co_await ctx.run("add", add, total, i);
  co_return total;
}

TEST(FlowThreads, RunsManyWorkflowsAtOnce) {
  Engine engine{store("memory:")};
  engine.define("sum", sum);
  std::vector<tenure::Run> runs;
  for (int i = 0; i < 100; ++i) runs.push_back(engine.start("sum", i));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(runs[static_cast<std::size_t>(i)].result<int>(), i * (i + 1) / 2);
  }
}

// The workflow is still in memory when its end is told: it has told all that it tells.
TEST(FlowThreads, TellsTheEndToWhoeverAsksWhileItIsTold) {
  Engine engine{store("memory:")};
  engine.define("sum", sum);
  const tenure::Run run = engine.start("sum", 3);
  std::promise<std::string> second;
  run.then([&](const FlowInfo& /*info*/) {
    run.then([&](const FlowInfo& info) { second.set_value(info.result); });
  });
  EXPECT_EQ(second.get_future().get(), "6");
}

// Returns when it is asked to stop.
int until_stopped(StepContext& context) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock{mutex};
  never.wait(lock, context.stop_token(), [] { return false; });
  return 1;
}

Flow<std::string> limited(Context& ctx, bool heartbeat) {
  try {
    Step step{.name = "slow"};
    (heartbeat ? step.heartbeat : step.attempt_timeout) = 1ms;
    co_await ctx.run(step, until_stopped);
    co_return "done";
  } catch (const StepFailed& failed) {
    co_return failed.timed_out() ? "timed out" : "failed";
  }
}

TEST(FlowThreads, EndsAttemptsThatTakeTooLong) {
  Engine engine{store("memory:")};
  engine.define("limited", limited);
  EXPECT_EQ(engine.start("limited", false).result<std::string>(), "timed out");
  EXPECT_EQ(engine.start("limited", true).result<std::string>(), "timed out");
}

Flow<> stoppable(Context& ctx) { co_await ctx.run("wait", until_stopped); }

TEST(FlowThreads, TellsARunningStepThatItsWorkflowIsCancelled) {
  Engine engine{store("memory:")};
  engine.define("stoppable", stoppable);
  const tenure::Run run = engine.start("stoppable");
  engine.cancel(run.id());
  EXPECT_THROW(run.result(), WorkflowFailed);
  EXPECT_EQ(run.info().state, FlowState::cancelled);
  EXPECT_EQ(engine.history(run.id()).back().kind, "step cancelled");
}

TEST(FlowThreads, EndsWithStepsThatStopWhenTheEngineEnds) {
  const std::shared_ptr<Store> memory = store("memory:");
  std::string id;
  {
    Engine engine{memory};
    engine.define("stoppable", stoppable);
    id = engine.start("stoppable").id();
  }
  Engine engine{memory};
  engine.define("stoppable", stoppable);
  EXPECT_EQ(engine.recover_all(), 1U);
  engine.cancel(id);
  EXPECT_THROW(engine.run(id).result(), WorkflowFailed);
}

TEST(FlowThreads, TellsThoseWhoWaitThatTheEngineWasDrained) {
  Engine engine{store("memory:")};
  engine.define("sleeps", [](Context& ctx) -> Flow<> { co_await ctx.sleep(1h); });
  const tenure::Run run = engine.start("sleeps");
  std::jthread drains{[&] { engine.drain(); }};
  EXPECT_THROW(run.result(), Closed);
}

TEST(FlowThreads, OnceDrainedTellsOnlyWhatHasEnded) {
  Engine engine{store("memory:")};
  engine.define("sleeps", [](Context& ctx) -> Flow<> { co_await ctx.sleep(1h); });
  engine.define("ends", [](Context& /*ctx*/) -> Flow<int> { co_return 7; });
  const tenure::Run sleeps = engine.start("sleeps");
  const tenure::Run ends = engine.start("ends");
  EXPECT_EQ(ends.result<int>(), 7);
  engine.drain();
  EXPECT_THROW(sleeps.result(), Closed);
  EXPECT_EQ(ends.result<int>(), 7);
}

TEST(FlowThreads, SleepsByTheStoresClock) {
  Engine engine{store("memory:")};
  engine.define("naps", [](Context& ctx) -> Flow<int> {
    for (int i = 0; i < 3; ++i) co_await ctx.sleep(1ms);
    co_return 3;
  });
  EXPECT_EQ(engine.start("naps").result<int>(), 3);
}

}  // namespace
}  // namespace tenure
