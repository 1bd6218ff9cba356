// docs/workflows.md: a test of a workflow.
#include <gtest/gtest.h>

#include <string>

#include "tenure/flow_test.hpp"

namespace {

int charge(std::string /*customer*/, int amount) { return amount; }

tenure::Flow<int> subscription(tenure::Context& ctx, std::string customer, int months) {
  int total = 0;
  for (int month = 0; month < months; ++month) {
    total += co_await ctx.run("charge", charge, customer, 10);
    co_await ctx.sleep(std::chrono::days{30});
  }
  co_return total;
}

TEST(DocsWorkflows, AreTestedWithAVirtualClock) {
  // SNIPPET
}

}  // namespace
