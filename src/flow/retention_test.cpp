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

int one() { return 1; }

Flow<int> steps(Context& ctx, int count) {
  const auto slot = ctx.state.execution<int>("seen");
  co_await slot.set(count);
  for (int i = 0; i < count; ++i) co_await ctx.run("one", one);
  const auto more = co_await ctx.wait_signal<int>("more", 1h);
  co_return more.value_or(0);
}

// Keys of workflows, apart from what belongs to the engine.
std::vector<std::string> keys_left(test::Engine& engine) {
  std::vector<std::string> left;
  Txn txn;
  for (const char table : {'w', 'r', 'l', 't', 'i', 'm', 'k', 'a', 'h'}) {
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
  }
  txn.reads.push_back(Range::prefix(std::string{reserved::flow_slots}));
  for (const std::vector<Entry>& entries : engine.store().apply(txn).reads) {
    for (const Entry& entry : entries) left.push_back(entry.key);
  }
  return left;
}

TEST(Retention, RemovesWhatHasEndedAndAllThatBelongsToIt) {
  test::Engine engine{{.partitions = 2, .retention = 24h}};
  engine.define("steps", steps, FlowOptions<int>{.concurrency = {.max = 9}});
  const test::Run run = engine.start({.id = "a", .idempotency_key = "k"}, "steps", 1200);
  engine.signal("a", "more", 7, "m1");
  EXPECT_EQ(run.result<int>(), 7);
  engine.start({.id = "b"}, "steps", 1);
  engine.advance(23h);
  EXPECT_EQ(run.result<int>(), 7);
  EXPECT_EQ(engine.start({.idempotency_key = "k"}, "steps", 1).id(), "a");
  engine.start({.id = "c", .after = 9h}, "steps", 1);
  engine.advance(1h + 1ms);
  EXPECT_THROW(static_cast<void>(run.info()), NoSuchWorkflow);
  EXPECT_EQ(engine.list().size(), 2U);  // b ended an hour later, c not at all.
  engine.advance(1h);
  EXPECT_EQ(engine.list().size(), 1U);
  engine.advance(72h);
  EXPECT_EQ(keys_left(engine), std::vector<std::string>{});
}

TEST(Retention, KeepsAChildAsLongAsItsParentRuns) {
  test::Engine engine{{.partitions = 2, .retention = 1h}};
  engine.define("child", [](Context& /*ctx*/) -> Flow<int> { co_return 1; });
  engine.define("parent", [](Context& ctx) -> Flow<int> {
    const int value = co_await ctx.child<int>("child");
    co_await ctx.sleep(10h);
    co_return value;
  });
  engine.start({.id = "p"}, "parent");
  engine.advance(9h);
  EXPECT_EQ(engine.list().size(), 2U);
  engine.advance(4h);
  EXPECT_EQ(keys_left(engine), std::vector<std::string>{});
}

TEST(Retention, SurvivesACrashBeforeAndAfterEveryWrite) {
  for (std::size_t write = 1;; ++write) {
    bool died = false;
    for (const bool after : {false, true}) {
      test::Engine engine{{.partitions = 1, .retention = 24h}};
      engine.define("steps", steps, FlowOptions<int>{.concurrency = {.max = 1}});
      engine.start({.id = "a", .idempotency_key = "k"}, "steps", 600);
      engine.signal("a", "more", 7, "m1");
      engine.crash_at(write, after);
      engine.advance(25h);
      if (engine.crashed()) {
        died = true;
        engine.recover();
        engine.advance(25h);
      }
      ASSERT_EQ(keys_left(engine), std::vector<std::string>{}) << write;
    }
    if (!died) {
      EXPECT_GT(write, 2U);
      return;
    }
  }
}

TEST(HistoryLimit, FailsTheWorkflowInsteadOfTheEntryThatIsTooMuch) {
  std::vector<std::string> warnings;
  test::Engine engine{{.partitions = 1,
                       .history_limit = 10,
                       .on_problem = [&](const std::string& /*id*/, const std::string& message) {
                         warnings.push_back(message);
                       }}};
  engine.define("steps", steps);
  const test::Run enough = engine.start({.id = "a"}, "steps", 8);
  EXPECT_FALSE(enough.ended());
  EXPECT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(contains(warnings.at(0), "workflow 'a' has 8 of at most 10 entries in its log"));
  const test::Run many = engine.start({.id = "b"}, "steps", 50);
  EXPECT_EQ(many.info().state, FlowState::failed);
  EXPECT_EQ(many.info().error.type, "history-limit");
  EXPECT_TRUE(contains(many.info().error.message, "its log has 10 entries"));
  EXPECT_EQ(engine.history("b").size(), 10U);
  EXPECT_TRUE(engine.engine().replay(engine.engine().export_history("b")).fits());
  engine.advance(1h);
  EXPECT_EQ(enough.result<int>(), 0);
}

TEST(HistoryLimit, EndsALoopThatNeverWaits) {
  test::Engine engine{{.partitions = 1, .history_limit = 100}};
  engine.define("loop", [](Context& ctx) -> Flow<> {
    while (true) co_await ctx.sleep(0s);
  });
  EXPECT_EQ(engine.start("loop").info().error.type, "history-limit");
  engine.define("slots", [](Context& ctx) -> Flow<> {
    while (true) co_await ctx.state.execution<int>("n").increment(1);
  });
  EXPECT_EQ(engine.start("slots").info().error.type, "history-limit");
}

}  // namespace
}  // namespace tenure
