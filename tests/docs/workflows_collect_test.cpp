// docs/workflows.md: debounce and batch.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"

using namespace std::chrono_literals;

// SNIPPET

namespace {

tenure::Flow<> reindex(tenure::Context& ctx, std::string /*customer*/) { co_await ctx.sleep(1s); }
tenure::Flow<> ship(tenure::Context& ctx, std::vector<std::string> /*orders*/) {
  co_await ctx.sleep(1s);
}

TEST(DocsWorkflows, DebounceAndBatch) {
  tenure::test::Engine engine;
  engine.define("reindex", reindex);
  engine.define("ship", ship);
  for (int i = 0; i < 3; ++i) {
    changed(engine.engine(), "ann");
    ordered(engine.engine(), std::to_string(i));
  }
  ordered(engine.engine(), "2");
  engine.settle();
  engine.advance(1h);
  ASSERT_EQ(engine.list({.type = "reindex"}).size(), 1U);
  EXPECT_EQ(engine.list({.type = "reindex"}).front().tags.at("calls"), "3");
  ASSERT_EQ(engine.list({.type = "ship"}).size(), 1U);
  EXPECT_EQ(engine.list({.type = "ship"}).front().input, R"([["0","1","2"]])");
}

}  // namespace
