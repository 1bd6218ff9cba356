// docs/guide.md: how long a lock can be held at most.
#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <string>

#include "tenure/tenure.hpp"
#include "tests/kit/scratch.hpp"

namespace {

using namespace std::chrono_literals;

const tenure::Name deploy{"deploy"};

struct Child {
  void work() { worked = true; }
  void kill() { killed = true; }
  bool worked = false;
  bool killed = false;
};

TEST(DocsGuide, MaxHold) {
  const tenure::kit::TemporaryDirectory directory;
  const tenure::Space space = tenure::open("sqlite:" + (directory / "app.db").string());
  Child child;
  // SNIPPET
  EXPECT_TRUE(child.worked);
  EXPECT_FALSE(child.killed);
  EXPECT_TRUE(hold.deadline());
  hold.release();
}

}  // namespace
