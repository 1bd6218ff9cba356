#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;

// Takes two numbers per run.
Flow<int> adds(Context& ctx, int total, int runs) {
  for (int i = 0; i < 2; ++i) total += co_await ctx.wait_signal<int>("add");
  if (runs > 1) co_await ctx.continue_as_new(total, runs - 1);
  co_return total;
}

Flow<> again(Context& ctx, int n) {
  co_await ctx.sleep(1h);
  co_await ctx.continue_as_new(n + 1);
}

std::size_t log_entries(test::Engine& engine) {
  Txn txn;
  txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + 'l'));
  return engine.store().apply(txn).reads.front().size();
}

class ContinueAsNew : public ::testing::Test {
 protected:
  ContinueAsNew() { engine.define("adds", adds); }
  test::Engine engine;
};

TEST_F(ContinueAsNew, KeepsTheIdAndBeginsANewLog) {
  const test::Run run = engine.start({.id = "a"}, "adds", 0, 3);
  for (int i = 1; i <= 5; ++i) engine.signal("a", "add", i);
  EXPECT_EQ(run.info().run, 2U);
  EXPECT_EQ(run.info().input, "[10,1]");
  EXPECT_EQ(engine.history("a").size(), 1U);
  EXPECT_EQ(log_entries(engine), 1U);  // Earlier runs left nothing.
  engine.crash();
  engine.recover();
  engine.signal("a", "add", 6);
  EXPECT_EQ(run.result<int>(), 21);
  EXPECT_THROW(engine.start({.id = "a"}, "adds", 0, 1), AlreadyStarted);
}

TEST_F(ContinueAsNew, CarriesSignalsAlong) {
  engine.define("slow", [](Context& ctx, int runs) -> Flow<std::string> {
    co_await ctx.sleep(1h);
    if (runs > 1) co_await ctx.continue_as_new(runs - 1);
    std::string all;
    while (const auto word = co_await ctx.wait_signal<std::string>("word", 1s)) all += *word;
    const auto other = co_await ctx.wait_signal<int>("other");
    co_return all + std::to_string(other);
  });
  const test::Run run = engine.start({.id = "a"}, "slow", 3);
  engine.signal("a", "word", std::string{"x"});
  engine.signal("a", "word", std::string{"y"}, "m1");
  engine.signal("a", "other", 7);
  engine.advance(90min);
  EXPECT_EQ(run.info().run, 1U);
  engine.signal("a", "word", std::string{"y"}, "m1");  // Sent to the run before.
  engine.signal("a", "word", std::string{"z"});
  engine.advance(3h);
  EXPECT_EQ(run.result<std::string>(), "xyz7");
}

TEST_F(ContinueAsNew, ReleasesLocksAndDropsWhatRuns) {
  engine.define("locks", [](Context& ctx, int runs) -> Flow<int> {
    co_await ctx.lock(Path::of("book"));
    if (runs == 1) co_return 1;
    co_await ctx.race([](Context& c) -> Flow<> { co_await c.sleep(10h); },
                      [runs](Context& c) -> Flow<> {
                        co_await c.sleep(1h);
                        co_await c.continue_as_new(runs - 1);
                      });
    co_return 0;
  });
  const test::Run first = engine.start("locks", 3);
  const test::Run second = engine.start("locks", 2);
  engine.advance(5h);
  EXPECT_EQ(first.result<int>(), 1);
  EXPECT_EQ(second.result<int>(), 1);
}

TEST_F(ContinueAsNew, KeepsThePlaceAndTheDeadline) {
  engine.define("again", again, FlowOptions<int>{.concurrency = {.max = 1}});
  const test::Run run = engine.start({.deadline = engine.now() + 150min}, "again", 0);
  engine.advance(2h);
  EXPECT_EQ(run.info().run, 2U);
  EXPECT_THROW(engine.start("again", 0), ConcurrencyLimit);
  engine.advance(1h);
  EXPECT_EQ(run.info().state, FlowState::timed_out);
  engine.start("again", 0);
}

TEST_F(ContinueAsNew, FailsWithArgumentsOfAnotherType) {
  engine.define("wrong", [](Context& ctx, int /*n*/) -> Flow<> {
    co_await ctx.sleep(1s);
    co_await ctx.continue_as_new("text");
  });
  const test::Run run = engine.start("wrong", 1);
  engine.advance(1s);
  EXPECT_TRUE(contains(run.info().error.message, "it cannot continue as new with [\"text\"]: "));
}

TEST_F(ContinueAsNew, DoesNotContinueWhenCancelled) {
  engine.define("stubborn", [](Context& ctx) -> Flow<> {
    try {
      co_await ctx.sleep(1h);
    } catch (const Cancelled&) {
    }
    co_await ctx.continue_as_new();
  });
  const test::Run run = engine.start({.id = "a"}, "stubborn");
  engine.cancel("a");
  EXPECT_EQ(run.info().state, FlowState::cancelled);
}

TEST_F(ContinueAsNew, ChildrenOfEachRunHaveIdsOfTheirOwn) {
  engine.define("child", [](Context& ctx, int value) -> Flow<int> {
    co_await ctx.sleep(1min);
    co_return value;
  });
  engine.define("parent", [](Context& ctx, int total) -> Flow<int> {
    total += co_await ctx.child<int>("child", 1);
    if (total < 3) co_await ctx.continue_as_new(total);
    co_return total;
  });
  const test::Run run = engine.start({.id = "p"}, "parent", 0);
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 3);
  EXPECT_EQ(engine.list({.type = "child"}).size(), 3U);
}

// --- crashes

Flow<std::string> rounds(Context& ctx, std::string seen, int left) {
  const std::string round = std::to_string(left);
  const FlowHold hold = co_await ctx.lock(Path::of("book"));
  co_await ctx.run("a" + round, crash_kit::work, "a" + round, left);
  const auto slot = ctx.state.execution<int>("count");
  co_await slot.increment(1);
  while (const auto word = co_await ctx.wait_signal<std::string>("word", 10min)) {
    seen += *word;
    if (seen.size() % 2 == 0) break;
  }
  const int value = co_await ctx.child<int>("leaf", left);
  seen += std::to_string(value);
  if (left > 1) co_await ctx.continue_as_new(seen, left - 1);
  const auto count = co_await slot.get();
  co_await ctx.release(hold);
  co_return seen + "/" + std::to_string(count.value_or(0));
}
Flow<int> leaf(Context& ctx, int value) {
  co_await ctx.sleep(1min);
  co_return co_await ctx.run("leaf", crash_kit::work, "leaf", value);
}

TEST(ContinueAsNewCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const crash_kit::Scenario scenario{
      .define =
          [](test::Engine& engine) {
            engine.define("rounds", rounds,
                          FlowOptions<std::string, int>{.concurrency = {.max = 1}});
            engine.define("leaf", leaf);
          },
      .script = {crash_kit::start("r",
                                  [](test::Engine& e, const std::string& id) {
                                    e.start({.id = id}, "rounds", "", 3);
                                  }),
                 crash_kit::signal("r", "word", std::string{"x"}, "1"),
                 crash_kit::signal("r", "word", std::string{"y"}, "2"),
                 crash_kit::signal("r", "word", std::string{"z"}, "3"), crash_kit::until(5min),
                 crash_kit::signal("r", "word", std::string{"w"}, "4"), crash_kit::until(12h)},
      .outcome =
          [](test::Engine& engine) {
            return crash_kit::outcome(engine) + std::to_string(log_entries(engine)) + "\n";
          }};
  for (const std::size_t resident : {0U, 1024U}) {
    const std::string expected = crash_kit::run_calm(scenario, resident).text;
    EXPECT_TRUE(contains(expected, "r: completed \"xy4z3w2/3\"\n")) << expected;
    EXPECT_FALSE(contains(expected, "left behind")) << expected;
    crash_kit::expect_the_same_after_crashes(scenario, expected, resident);
  }
}

}  // namespace
}  // namespace tenure
