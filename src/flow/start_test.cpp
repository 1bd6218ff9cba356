// Starting workflows: their ids, repeated starts, later starts, starts that are refused.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "tenure/flow_test.hpp"
#include "tenure/uuid.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using std::chrono::days;

int adds = 0;
int add(int a, int b) {
  ++adds;
  return a + b;
}

Flow<int> sum(Context& ctx, int n) {
  int total = 0;
  for (int i = 1; i <= n; ++i) total = co_await ctx.run("add", add, total, i);
  co_return total;
}

class FlowStart : public ::testing::Test {
 protected:
  FlowStart() { adds = 0; }
  test::Engine engine;
};

TEST_F(FlowStart, GivesIdsThatSortByTheTimeOfTheStart) {
  engine.define("sleeps", [](Context& ctx) -> Flow<> { co_await ctx.sleep(24h); });
  std::string last;
  for (int i = 0; i < 50; ++i) {
    const std::string id = engine.start("sleeps").id();
    const std::optional<Uuid> uuid = Uuid::parse(id);
    ASSERT_TRUE(uuid);
    EXPECT_EQ(uuid->bytes[6] >> 4U, std::byte{7});
    EXPECT_EQ(uuid->bytes[8] >> 6U, std::byte{2});
    EXPECT_LT(last, id);
    last = id;
    engine.advance(i % 2 == 0 ? 1ms : 300s);
  }
}

TEST_F(FlowStart, StartsOncePerIdempotencyKey) {
  engine.define("sum", sum);
  const test::Run first = engine.start({.idempotency_key = "order-7"}, "sum", 2);
  const test::Run second = engine.start({.idempotency_key = "order-7"}, "sum", 3);
  EXPECT_EQ(first.id(), second.id());
  EXPECT_EQ(second.result<int>(), 3);
  EXPECT_EQ(adds, 2);
  EXPECT_THROW(engine.start({.id = first.id()}, "sum", 1), AlreadyStarted);
}

TEST_F(FlowStart, StartsLater) {
  engine.define("sum", sum);
  const test::Run run = engine.start({.after = 2h}, "sum", 2);
  EXPECT_EQ(run.info().state, FlowState::scheduled);
  engine.crash();
  engine.recover();
  engine.advance(2h - 1ns);
  EXPECT_EQ(adds, 0);
  engine.advance(1ns);
  EXPECT_EQ(run.result<int>(), 3);
  const test::Run never = engine.start({.after = 2h}, "sum", 2);
  engine.cancel(never.id());
  EXPECT_EQ(never.info().state, FlowState::cancelled);
  engine.advance(days{1});
  EXPECT_EQ(adds, 2);
}

TEST_F(FlowStart, RefusesBadStarts) {
  engine.define("sum", sum);
  EXPECT_EQ(kit::message_of<BadRequest>([&] { engine.start("nothing"); }),
            "there is no workflow type 'nothing': define it before starting one");
  EXPECT_TRUE(contains(kit::message_of<BadRequest>([&] { engine.start("sum", "x"); }),
                       R"(workflow 'sum' cannot be started with ["x"])"));
  EXPECT_THROW(engine.start("sum"), BadRequest);
  EXPECT_THROW(engine.define("sum", sum), BadRequest);
  EXPECT_THROW(engine.start({.id = std::string(600, 'x')}, "sum", 1), BadRequest);
}

}  // namespace
}  // namespace tenure
