// docs/guide.md: a leader.
#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

#include "tenure/tenure.hpp"

namespace {

TEST(DocsGuide, Lead) {
  const tenure::Space space = tenure::open("local:");
  int runs = 0;
  const auto run_due_jobs = [&](tenure::Token token) {
    if (++runs == 3) space.ask_to_leave(token);
  };
  // SNIPPET
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(space.available("scheduler"));
}

}  // namespace
