// Workflows that failed or cannot go on: started again, loaded again, ended.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "flow/queries.hpp"
#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

bool works = false;
bool other_program = false;

int charge(int amount) {
  if (!works) throw std::runtime_error("no money");
  return amount;
}
Flow<int> pay(Context& ctx, int amount) {
  const Step once{.name = "charge", .retry = {.max_attempts = 1}};
  co_return co_await ctx.run(once, charge, amount);
}
int one() { return 1; }
Flow<> quiet(Context& ctx) { co_await ctx.sleep(24h); }
// Holds a lock, has a child and a place, and waits for a signal.
Flow<int> holder(Context& ctx) {
  co_await ctx.lock(Path::of("account", "7"));
  const ChildOptions options{.id = "child of " + ctx.id()};
  co_await ctx.start_child(options, "quiet");
  const std::string step = other_program ? "new" : "old";
  co_await ctx.run(step, one);
  co_return co_await ctx.wait_signal<int>("go");
}

class Retry : public ::testing::Test {
 protected:
  Retry() {
    works = other_program = false;
    engine.define("pay", pay);
    engine.define("quiet", quiet);
    engine.define("holder", holder, {.concurrency = {.max = 1}});
  }
  void make_stuck() {
    engine.start({.id = "h"}, "holder");
    engine.crash();
    other_program = true;
    engine.recover();
    engine.signal("h", "go", 5);
    ASSERT_EQ(engine.problems().count("h"), 1U);
  }
  // As `tenure flow` does it.
  void send(const std::string& id, flow::Message message) {
    flow::Queries{engine.store(), 4}.send(id, std::move(message), {}, Durability::full);
    engine.settle();
  }
  std::string state(const std::string& id) {
    return std::string{text_of(test::Run(engine, id).info().state)};
  }
  test::Engine engine;
};

TEST_F(Retry, StartsAFailedOneAgainUnderANewId) {
  engine.start({.id = "a", .tags = {{"customer", "ann"}}}, "pay", 7);
  EXPECT_EQ(state("a"), "failed");
  const flow::Queries queries{engine.store(), 4};
  const std::string as = queries.retry_id("a");
  EXPECT_EQ(as, "a~2");
  for (int i = 0; i < 2; ++i) queries.send_retry("a", as, Durability::full);  // Repeated.
  engine.settle();
  EXPECT_EQ(state("a~2"), "failed");
  works = true;
  EXPECT_EQ(queries.retry_id("a~2"), "a~3");
  queries.send_retry("a~2", "a~3", Durability::full);
  engine.settle();
  EXPECT_EQ(test::Run(engine, "a~3").result<int>(), 7);
  const FlowInfo info = test::Run(engine, "a~3").info();
  EXPECT_EQ(info.tags,
            (std::map<std::string, std::string>{{"customer", "ann"}, {"retry_of", "a~2"}}));
  EXPECT_EQ(engine.list().size(), 3U);
  EXPECT_THROW(queries.send_retry("none", "none~2", Durability::full), NoSuchWorkflow);
  EXPECT_THROW(queries.send_retry("a~3", "a~4", Durability::full), BadRequest);
}

TEST_F(Retry, LoadsOneAgainThatCannotGoOn) {
  make_stuck();
  other_program = false;  // The cause is gone.
  send("h", {.kind = flow::Message::Kind::retry, .workflow = {}, .name = {}, .value = {}});
  EXPECT_EQ(test::Run(engine, "h").result<int>(), 5);  // With the signal that came meanwhile.
}

TEST_F(Retry, TerminateEndsOneThatCannotGoOn) {
  make_stuck();
  EXPECT_THROW(engine.start({.id = "i"}, "holder"), ConcurrencyLimit);
  engine.terminate("h", "hopeless");
  EXPECT_EQ(state("h"), "cancelled");
  EXPECT_EQ(test::Run(engine, "h").info().error.message, "hopeless");
  EXPECT_EQ(state("child of h"), "cancelled");
  Txn txn;  // Neither a lock, a place, a message nor work is left.
  for (const char table : {'r', 'h', 'a', 'i'}) {
    txn.reads.push_back(Range::prefix(std::string{reserved::flow_workflows} + table));
  }
  for (const std::vector<Entry>& left : engine.store().apply(txn).reads) {
    EXPECT_TRUE(left.empty());
  }
  other_program = false;
  engine.start({.id = "i"}, "holder");  // Its place and its lock are free.
  engine.signal("i", "go", 6);
  EXPECT_EQ(test::Run(engine, "i").result<int>(), 6);
}

TEST_F(Retry, SurvivesACrashAtEveryWrite) {
  for (std::size_t write = 1; write < 12; ++write) {
    for (const bool after : {false, true}) {
      works = true;
      test::Engine crashing{{.resident = 0, .partitions = 2}};
      crashing.define("pay", pay);
      works = false;
      crashing.start({.id = "a"}, "pay", 7);
      works = true;
      flow::Queries{crashing.store(), 2}.send_retry("a", "a~2", Durability::full);
      crashing.crash_at(write, after);
      crashing.settle();
      if (crashing.crashed()) {
        crashing.crash();
        crashing.recover();
      }
      EXPECT_EQ(test::Run(crashing, "a~2").result<int>(), 7) << write;
      EXPECT_EQ(crashing.list().size(), 2U);
    }
  }
}

}  // namespace
}  // namespace tenure
