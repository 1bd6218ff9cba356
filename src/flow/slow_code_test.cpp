// Workflow code that keeps its thread for long is reported.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): workflows capture nothing.
MemoryStore* time_passes_in = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

int load() { return 7; }

Flow<int> computes(Context& ctx, int milliseconds) {
  const int value = co_await ctx.run("load", load);
  time_passes_in->advance(std::chrono::milliseconds{milliseconds});  // As a long computation does.
  co_await ctx.sleep(1min);
  co_return value;
}

TEST(FlowSlowCode, IsReportedWithTheAwaitBeforeIt) {
  test::Engine engine;
  time_passes_in = &engine.store();
  engine.define("computes", computes);
  const test::Run slow = engine.start({.id = "slow"}, "computes", 2500);
  const test::Run quick = engine.start({.id = "quick"}, "computes", 10);
  engine.advance(1h);
  EXPECT_EQ(slow.result<int>(), 7);
  EXPECT_EQ(quick.result<int>(), 7);
  ASSERT_EQ(engine.problems().size(), 1U);
  EXPECT_EQ(engine.problems().at("slow"),
            "workflow 'slow': its code ran for 2.50 s after step done 'load' without an await, and "
            "kept a thread of the engine: do such work in a step");
}

}  // namespace
}  // namespace tenure
