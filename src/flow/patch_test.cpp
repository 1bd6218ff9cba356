#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int version = 1;  // Of the program.

int step(std::string name) { return static_cast<int>(name.size()); }

Flow<std::string> order(Context& ctx) {
  std::string way = "first";
  if (version > 1 && ctx.patched("new-first")) way = "newer first";
  co_await ctx.run(way, step, way);
  co_await ctx.sleep(1h);
  std::string next = "old";
  if (version > 1 && ctx.patched("new-way")) next = "new";
  co_await ctx.run(next, step, next);
  co_await ctx.sleep(1h);
  co_return way + ", " + next;
}

class Patched : public ::testing::Test {
 protected:
  Patched() { engine.define("order", order); }
  ~Patched() override { version = 1; }
  void deploy(int number) {
    engine.crash();
    version = number;
    engine.recover();
  }
  test::Engine engine;
};

TEST_F(Patched, NewWorkflowsTakeTheNewWay) {
  version = 2;
  const test::Run run = engine.start({.id = "a"}, "order");
  engine.advance(1h);
  deploy(2);
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "newer first, new");
  std::vector<std::string> kinds;
  for (const HistoryEntry& entry : engine.history("a")) kinds.push_back(entry.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"patch", "step done", "timer", "patch", "step done",
                                             "timer"}));
}

TEST_F(Patched, OldHistoriesTakeTheOldWayAsFarAsTheyGo) {
  const test::Run before = engine.start("order");
  const test::Run after = engine.start("order");
  engine.advance(30min);
  deploy(2);
  EXPECT_TRUE(engine.problems().empty());
  engine.advance(3h);
  EXPECT_EQ(before.result<std::string>(), "first, new");  // It reached the second place later.
  EXPECT_EQ(after.result<std::string>(), "first, new");
}

TEST_F(Patched, OldHistoriesThatWaitTakeTheOldWay) {
  const test::Run run = engine.start("order");
  engine.advance(90min);
  deploy(2);
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "first, old");
}

TEST_F(Patched, AWorkflowThatWaitsBeforeItsFirstEntryIsOld) {
  engine.define("sleeps", [](Context& ctx) -> Flow<std::string> {
    std::string way = "old";
    if (version > 1 && ctx.patched("way")) way = "new";
    co_await ctx.sleep(1h);
    co_return way;
  });
  const test::Run run = engine.start("sleeps");
  deploy(2);
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "old");
  const test::Run later = engine.start("sleeps");
  engine.advance(1h);
  EXPECT_EQ(later.result<std::string>(), "new");
}

TEST_F(Patched, ACallMayBeRemovedWhenNoOldWorkflowRuns) {
  version = 2;
  engine.define("once", [](Context& ctx) -> Flow<std::string> {
    if (version == 2) static_cast<void>(ctx.patched("gone"));
    co_await ctx.sleep(1h);
    if (version == 2) static_cast<void>(ctx.patched("gone, too"));
    co_await ctx.sleep(1h);
    co_return "done";
  });
  const test::Run run = engine.start("once");
  engine.advance(90min);
  deploy(3);
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "done");
}

// --- crashes: the answer is the same whenever the process dies.

Flow<std::string> everywhere(Context& ctx, int runs) {
  std::string seen;
  const auto ask = [&](const char* name) { seen += ctx.patched(name) ? '1' : '0'; };
  ask("at the start");
  ask("at the start, again");
  co_await ctx.run("a", crash_kit::work, "a", 1);
  ask("after a step");
  co_await ctx.state.execution<int>("count").increment(1);
  ask("after a slot");
  co_await ctx.lock(Path::of("book"));
  ask("after a lock");
  co_await ctx.state.execution<int>("count").increment(1);
  ask("after another slot");
  co_await ctx.sleep(1h);
  ask("after a timer");
  ask("at the start");
  co_await ctx.wait_signal<int>("go");
  ask("after a signal");
  if (runs > 1) co_await ctx.continue_as_new(runs - 1);
  co_return seen;
}

TEST(PatchedCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const auto start = [](std::string id, std::chrono::nanoseconds after) {
    return crash_kit::start(id, [=](test::Engine& e, const std::string& name) {
      e.start({.id = name, .after = after}, "everywhere", 2);
    });
  };
  const crash_kit::Scenario scenario{
      .define = [](test::Engine& engine) { engine.define("everywhere", everywhere); },
      .script = {start("now", 0s), start("later", 10min), crash_kit::signal("now", "go", 1, "1"),
                 crash_kit::signal("now", "go", 2, "2"), crash_kit::signal("later", "go", 1, "1"),
                 crash_kit::signal("later", "go", 2, "2"), crash_kit::until(12h)}};
  for (const std::size_t resident : {0U, 1024U}) {
    crash_kit::expect_the_same_after_crashes(
        scenario, "later: completed \"111111111\"\nnow: completed \"111111111\"\n", resident);
  }
}

}  // namespace
}  // namespace tenure
