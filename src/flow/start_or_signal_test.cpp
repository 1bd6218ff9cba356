#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;

Flow<int> sum(Context& ctx, int wanted) {
  int total = 0;
  for (int i = 0; i < wanted; ++i) total += co_await ctx.wait_signal<int>("add");
  co_return total;
}

class StartOrSignal : public ::testing::Test {
 protected:
  StartOrSignal() { engine.define("sum", sum); }
  test::Engine engine;
};

TEST_F(StartOrSignal, StartsWithTheSignalAndThenSignals) {
  const test::Run first = engine.start_or_signal({.id = "s"}, {"add", 1}, "sum", 3);
  EXPECT_FALSE(first.ended());
  engine.start_or_signal({.id = "s"}, {"add", 2}, "sum", 3);
  EXPECT_FALSE(first.ended());
  const test::Run last = engine.start_or_signal({.id = "s"}, {"add", 4}, "sum", 3);
  EXPECT_EQ(last.result<int>(), 7);
  EXPECT_EQ(last.id(), "s");
}

TEST_F(StartOrSignal, SendsARepeatedMessageOnce) {
  for (int i = 0; i < 3; ++i) {
    engine.start_or_signal({.id = "s"}, {"add", 5, "m1"}, "sum", 2);
  }
  const test::Run run = engine.start_or_signal({.id = "s"}, {"add", 6, "m2"}, "sum", 2);
  EXPECT_EQ(run.result<int>(), 11);
  // Its answer was lost: the caller repeats it although the workflow has ended.
  EXPECT_EQ(engine.start_or_signal({.id = "s"}, {"add", 6, "m2"}, "sum", 2).result<int>(), 11);
  EXPECT_THROW(engine.start_or_signal({.id = "s"}, {"add", 6, "m3"}, "sum", 2), WorkflowEnded);
}

TEST_F(StartOrSignal, SignalsARunThatHasTheLastPlace) {
  engine.define("one", sum, FlowOptions<int>{.concurrency = {.max = 1}});
  engine.start_or_signal({.id = "a"}, {"add", 1}, "one", 2);
  EXPECT_THROW(engine.start_or_signal({.id = "b"}, {"add", 1}, "one", 2), ConcurrencyLimit);
  EXPECT_EQ(engine.start_or_signal({.id = "a"}, {"add", 2}, "one", 2).result<int>(), 3);
}

TEST_F(StartOrSignal, KeepsTheSignalUntilAScheduledStart) {
  const test::Run run = engine.start_or_signal({.id = "s", .after = 1h}, {"add", 1}, "sum", 2);
  engine.start_or_signal({.id = "s"}, {"add", 2}, "sum", 2);
  engine.crash();
  engine.recover();
  EXPECT_EQ(run.info().state, FlowState::scheduled);
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 3);
}

TEST_F(StartOrSignal, SaysWhatIsWrong) {
  EXPECT_TRUE(contains(
      kit::message_of<BadRequest>([&] { engine.start_or_signal({}, {"add", 1}, "sum", 1); }),
      "needs the id of the workflow"));
  EXPECT_TRUE(contains(kit::message_of<BadRequest>([&] {
                         engine.start_or_signal({.id = "s", .idempotency_key = "k"}, {"add", 1},
                                                "sum", 1);
                       }),
                       "takes no idempotency key"));
  EXPECT_THROW(engine.start_or_signal({.id = "s"}, {"add", 1}, "sum", "text"), BadRequest);
  EXPECT_THROW(engine.start_or_signal({.id = "s"}, {"add", 1}, "other", 1), BadRequest);
  EXPECT_TRUE(engine.list().empty());
}

// An engine that owns no partition starts and signals; the owner runs what it finds in its inbox.
TEST(StartOrSignalElsewhere, ReachesTheOwnerInOneMessage) {
  auto store = std::make_shared<MemoryStore>();
  tenure::Engine owner{store, {.partitions = 1}};
  owner.define("sum", sum);
  owner.recover_all();
  tenure::Engine other{store, {.partitions = 1}};
  other.define("sum", sum);
  other.start_or_signal({.id = "s"}, {"add", 1, "m1"}, "sum", 2);
  other.start_or_signal({.id = "s"}, {"add", 1, "m1"}, "sum", 2);
  const tenure::Run run = other.start_or_signal({.id = "s"}, {"add", 2, "m2"}, "sum", 2);
  EXPECT_EQ(run.result<int>(), 3);
  EXPECT_EQ(owner.run("s").result<int>(), 3);
}

Flow<std::string> words(Context& ctx) {
  std::string all = co_await ctx.wait_signal<std::string>("word");
  all += std::to_string(co_await ctx.run("count", crash_kit::work, "count", 1));
  co_await ctx.sleep(1h);
  while (const auto more = co_await ctx.wait_signal<std::string>("word", 1min)) all += *more;
  co_return all;
}

TEST(StartOrSignalCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const auto send = [](std::string id, std::string word, std::chrono::nanoseconds after) {
    return [=](test::Engine& engine) {
      engine.start_or_signal({.id = id, .after = after}, {"word", word, word}, "words");
    };
  };
  const crash_kit::Scenario scenario{
      .define = [](test::Engine& engine) { engine.define("words", words); },
      .script = {send("now", "a", 0s), send("later", "d", 10min), send("now", "b", 0s),
                 send("later", "e", 0s), crash_kit::until(30min), send("now", "c", 0s),
                 crash_kit::until(3h)}};
  for (const std::size_t resident : {0U, 1024U}) {
    crash_kit::expect_the_same_after_crashes(
        scenario, "later: completed \"d2e\"\nnow: completed \"a2bc\"\n", resident);
  }
}

}  // namespace
}  // namespace tenure
