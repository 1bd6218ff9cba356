// docs/workflows.md: schedules.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <string>

#include "tenure/flow_test.hpp"

using namespace std::chrono_literals;

// SNIPPET

namespace {

tenure::Flow<> reconcile(tenure::Context& ctx) { co_await ctx.sleep(1s); }
tenure::Flow<> poll(tenure::Context& ctx, std::string /*what*/) { co_await ctx.sleep(1s); }

TEST(DocsWorkflows, Schedules) {
  tenure::test::Engine engine;
  engine.define("reconcile", reconcile);
  engine.define("poll", poll);
  schedules(engine.engine());
  engine.settle();
  engine.advance(24h);
  EXPECT_EQ(engine.list({.type = "poll"}).size(), 24U * 12);
  EXPECT_EQ(engine.list({.type = "reconcile"}).size(), 2U);
}

}  // namespace
