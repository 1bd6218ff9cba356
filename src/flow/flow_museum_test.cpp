// Bugs of other workflow engines, one test each: docs/museum.md, W01 and on. Those that a crash is
// part of are in crash_test.cpp, those with several processes in flow_process_test.cpp.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;

std::map<std::string, int>& calls() {
  static std::map<std::string, int> all;
  return all;
}
int call(std::string name, int value) {
  ++calls()[name];
  return value;
}

class FlowMuseum : public ::testing::Test {
 protected:
  FlowMuseum() { calls().clear(); }
  test::Engine engine;
};

Flow<std::string> parallel(Context& ctx) {
  std::string order;
  co_await ctx.all(
      [&](Context& c) -> Flow<> {
        co_await c.sleep(2min);
        order += std::to_string(co_await c.run("a", call, "a", 1));
      },
      [&](Context& c) -> Flow<> {
        co_await c.sleep(1min);
        order += std::to_string(co_await c.run("b", call, "b", 2));
      },
      [&](Context& c) -> Flow<> { order += std::to_string(co_await c.run("c", call, "c", 3)); });
  co_await ctx.sleep(1h);
  co_return order;
}

TEST_F(FlowMuseum, W01_ParallelStepsAreReplayedInTheOrderOfTheLog) {
  engine.define("parallel", parallel);
  const test::Run run = engine.start("parallel");
  engine.advance(3min);
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "321");
  EXPECT_EQ(calls()["a"], 1);
}

TEST_F(FlowMuseum, W02_AStoreThatFailsDuringRecoveryIsAskedAgain) {
  test::Engine small{{.resident = 0, .partitions = 1}};
  small.define("parallel", parallel);
  const test::Run run = small.start("parallel");
  small.store().fail_next(3, MemoryStore::Fault::before);
  small.advance(1min);  // Its timer is due: the workflow cannot be read.
  small.store().fail_next(2, MemoryStore::Fault::after);
  small.advance(2h);
  EXPECT_EQ(run.result<std::string>(), "321");
}

TEST_F(FlowMuseum, W05_RecoveryInTheSameProcessRunsNothingTwice) {
  engine.define("parallel", parallel);
  const test::Run run = engine.start("parallel");
  for (int i = 0; i < 5; ++i) {
    engine.engine().recover_all();
    engine.advance(1h);
  }
  EXPECT_EQ(run.result<std::string>(), "321");
  EXPECT_EQ(calls()["a"] + calls()["b"] + calls()["c"], 3);
}

TEST_F(FlowMuseum, W09_AnAttemptThatNeverRanIsNotCharged) {
  engine.define("parallel", parallel);
  engine.start("parallel");
  for (int i = 0; i < 3; ++i) {  // Dies when the start is stored, before the step has run.
    engine.crash_at(1, true);
    static_cast<void>(engine.start({.id = "x" + std::to_string(i)}, "parallel"));
    ASSERT_TRUE(engine.crashed());
    engine.recover();
  }
  EXPECT_EQ(engine.history("x2").at(0).attempt, 1U);
}

TEST_F(FlowMuseum, W10_SignalsHaveOneOrder) {
  engine.define("listens", [](Context& ctx) -> Flow<std::string> {
    std::string text;
    for (int i = 0; i < 4; ++i) text += co_await ctx.wait_signal<std::string>("word");
    co_await ctx.sleep(1h);
    co_return text;
  });
  const test::Run run = engine.start("listens");
  for (const char* word : {"a", "b", "c", "d"}) engine.signal(run.id(), "word", std::string{word});
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "abcd");
}

TEST_F(FlowMuseum, W10_SignalsAndUpdatesHaveOneOrder) {
  engine.define("listens", [](Context& ctx) -> Flow<std::string> {
    std::string text;
    const UpdateHandler word =
        ctx.on_update("word", [&](std::string heard) { return text += heard; });
    for (int i = 0; i < 3; ++i) {
      text += co_await ctx.wait_signal<std::string>("word");
      co_await ctx.run("step " + std::to_string(i), call, "step", i);
    }
    co_await ctx.sleep(1h);
    co_return text;
  });
  const test::Run run = engine.start({.id = "w"}, "listens");
  std::string told;
  for (const char* const both : {"aB", "cD", "eF"}) {
    engine.signal("w", "word", std::string{both[0]});
    told = engine.update<std::string>("w", "word", std::string{both[1]});
    engine.crash();  // Each time it is replayed from its log.
    engine.recover();
  }
  EXPECT_EQ(told, "aBcDeF");
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "aBcDeF");
}

TEST_F(FlowMuseum, W11_ASignalAfterTheEndIsRefusedToItsSender) {
  engine.define("ends", [](Context&) -> Flow<> { co_return; });
  const test::Run run = engine.start("ends");
  EXPECT_THROW(engine.signal(run.id(), "late", 1), WorkflowEnded);
  EXPECT_THROW(engine.cancel(run.id()), WorkflowEnded);
}

TEST_F(FlowMuseum, W13_ARepeatedMessageIsTakenOnce) {
  engine.define("counts", [](Context& ctx) -> Flow<int> {
    int sum = 0;
    while (const auto number = co_await ctx.wait_signal<int>("number", 1h)) sum += *number;
    co_return sum;
  });
  const test::Run run = engine.start("counts");
  for (int i = 0; i < 3; ++i) {
    engine.signal(run.id(), "number", 5, "message-1");
    engine.crash();
    engine.recover();
  }
  engine.advance(2h);
  EXPECT_EQ(run.result<int>(), 5);
}

TEST_F(FlowMuseum, W13_ARepeatedUpdateIsAcceptedOnce) {
  engine.define("counts", [](Context& ctx) -> Flow<int> {
    int sum = 0;
    const UpdateHandler add = ctx.on_update("add", [&](int number) { return sum += number; });
    co_await ctx.sleep(1h);
    co_return sum;
  });
  const test::Run run = engine.start({.id = "w"}, "counts");
  for (int i = 0; i < 3; ++i) {
    const Update sent = engine.send_update({.id = "update-1"}, "w", "add", 5);
    EXPECT_EQ(sent.result<int>(), 5);
    engine.crash();
    engine.recover();
  }
  std::size_t accepted = 0;
  for (const HistoryEntry& entry : engine.history("w")) accepted += entry.kind == "update" ? 1 : 0;
  EXPECT_EQ(accepted, 1U);
  engine.advance(2h);
  EXPECT_EQ(run.result<int>(), 5);
}

Flow<int> long_one(Context& ctx, int steps) {
  int sum = 0;
  for (int i = 0; i < steps; ++i) sum += co_await ctx.run("one", call, "one", 1);
  co_return sum;
}

TEST_F(FlowMuseum, W14_AHistoryIsNotLimited) {
  constexpr int steps = 52'000;  // More than a well-known engine allows.
  const detail::ErrorTypes errors;
  detail::Machine machine{{.id = "x", .type = "long", .seed = 1, .started = {}}, errors};
  machine.begin(std::make_unique<detail::RootOf<int, int>>(machine, long_one, std::tuple{steps}));
  for (std::uint32_t i = 1; i <= steps; ++i) {
    detail::LogEntry entry;
    entry.key = {.scope = 0, .sequence = i};
    entry.name = "one";
    entry.hash = machine.find(entry.key)->hash();
    entry.value = "1";
    machine.deliver(entry);
  }
  EXPECT_EQ(machine.finish().value().value, std::to_string(steps));
}

TEST_F(FlowMuseum, W15_WorkflowsThatWereEvictedLeaveNothingInMemory) {
  test::Engine small{{.resident = 0, .partitions = 1}};
  small.define("naps", [](Context& ctx) -> Flow<> {
    for (int i = 0; i < 20; ++i) co_await ctx.sleep(1min);
  });
  for (int i = 0; i < 50; ++i) small.start("naps");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(small.engine().resident(), 0U);
    small.advance(1min);
  }
  EXPECT_EQ(small.list({.state = FlowState::completed}).size(), 50U);
}

TEST_F(FlowMuseum, W19_StepsOfOneNameAreToldApart) {
  engine.define("same", [](Context& ctx) -> Flow<int> {
    int sum = 0;
    for (int i = 1; i <= 3; ++i) sum = (sum * 10) + co_await ctx.run("same", call, "same", i);
    co_await ctx.sleep(1h);
    co_return sum;
  });
  const test::Run run = engine.start("same");
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 123);
  EXPECT_EQ(calls()["same"], 3);
}

TEST_F(FlowMuseum, S05_AThirtyDayTimerFiresAfterThirtyDays) {
  engine.define("month", [](Context& ctx) -> Flow<> { co_await ctx.sleep(days{30}); });
  const test::Run run = engine.start("month");
  engine.advance(days{30} - 1ns);
  EXPECT_FALSE(run.ended());
  engine.advance(1ns);
  EXPECT_TRUE(run.ended());
}

TEST_F(FlowMuseum, S08_EachBranchHasATicketOfItsOwn) {
  engine.define("branches", [](Context& ctx) -> Flow<int> {
    int inside = 0;
    int most = 0;
    const auto branch = [&](Context& c) -> Flow<> {
      const FlowHold hold = co_await c.lock(Path::of("shared"));
      most = std::max(most, ++inside);
      co_await c.sleep(1min);
      --inside;
      co_await c.release(hold);
    };
    co_await ctx.all(branch, branch);
    co_return most;
  });
  const test::Run run = engine.start("branches");
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 1);
}

}  // namespace
}  // namespace tenure
