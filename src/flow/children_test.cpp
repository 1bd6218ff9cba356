#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "flow/children.hpp"
#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;

Flow<int> doubled(Context& ctx, int value) {
  co_await ctx.sleep(1min);
  co_return 2 * value;
}
Flow<int> failing(Context& ctx) {
  co_await ctx.sleep(1min);
  throw std::runtime_error("no paper");
}
Flow<int> parent(Context& ctx, int value) {
  co_return 1 + co_await ctx.child<int>("doubled", value);
}
Flow<int> two_parts(Context& ctx) {
  const Child first = co_await ctx.start_child("doubled", 1);
  const Child second = co_await ctx.start_child("doubled", 2);
  co_await ctx.sleep(1h);  // Both have ended by then.
  const int last = co_await ctx.result<int>(second);
  const int again = co_await ctx.result<int>(second);
  co_return 100 * last + 10 * again + co_await ctx.result<int>(first);
}
Flow<std::string> careful(Context& ctx) {
  try {
    co_await ctx.child<int>("failing");
  } catch (const ChildFailed& failed) {
    co_return std::string{text_of(failed.state())} + ": " + failed.info().message;
  }
  co_return "nothing";
}
Flow<std::string> waits(Context& ctx) {
  std::string how = "ended";
  try {
    co_await ctx.sleep(10h);
  } catch (const Cancelled&) {
    how = "cancelled";
  }
  co_await ctx.shielded([](Context& c) -> Flow<> { co_await c.sleep(1min); });
  co_return how;
}
// Ends while its child waits.
Flow<> leaves(Context& ctx, int policy) {
  const ChildOptions options{.id = "left", .on_parent_close = static_cast<ParentClose>(policy)};
  co_await ctx.start_child(options, "waits");
  co_await ctx.sleep(1min);
}

class Children : public ::testing::Test {
 protected:
  Children() {
    engine.define("doubled", doubled);
    engine.define("failing", failing);
    engine.define("parent", parent);
    engine.define("two_parts", two_parts);
    engine.define("careful", careful);
    engine.define("waits", waits);
    engine.define("leaves", leaves);
  }
  FlowInfo info(const std::string& id) { return engine.engine().run(id).info(); }
  test::Engine engine;
};

TEST_F(Children, AreAwaited) {
  const test::Run run = engine.start({.id = "p"}, "parent", 4);
  EXPECT_EQ(info("p/0.1").parent, "p");
  EXPECT_EQ(info("p/0.1").input, "[4]");
  EXPECT_FALSE(run.ended());
  engine.advance(1min);
  EXPECT_EQ(run.result<int>(), 9);
  std::vector<std::string> kinds;
  for (const HistoryEntry& entry : engine.history("p")) kinds.push_back(entry.kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"child started", "child done"}));
}

TEST_F(Children, AreStartedAndAwaitedInTwoParts) {
  const test::Run run = engine.start({.id = "p"}, "two_parts");
  engine.advance(30min);
  EXPECT_TRUE(is_terminal(info("p/0.1").state));
  engine.crash();
  engine.recover();
  engine.advance(30min);
  EXPECT_EQ(run.result<int>(), 442);
}

TEST_F(Children, TellTheirParentOfAFailure) {
  const test::Run run = engine.start("careful");
  engine.advance(1min);
  EXPECT_EQ(run.result<std::string>(), "failed: no paper");
}

TEST_F(Children, ThatCannotBeStartedAreAnErrorOfTheParent) {
  engine.define("limited", doubled, FlowOptions<int>{.concurrency = {.max = 1}});
  engine.define("tries", [](Context& ctx, std::string type, std::string id) -> Flow<std::string> {
    const ChildOptions options{.id = id};
    try {
      co_await ctx.child<int>(options, type, 1);
    } catch (const ChildFailed& failed) {
      co_return failed.info().type + ": " + failed.info().message;
    }
    co_return "done";
  });
  engine.start({.id = "first"}, "limited", 1);
  EXPECT_TRUE(contains(engine.start("tries", "limited", "").result<std::string>(),
                       "concurrency-limit: workflow 'limited': all 1 places are taken"));
  EXPECT_TRUE(contains(engine.start("tries", "other", "").result<std::string>(),
                       "bad-request: there is no workflow type 'other'"));
  EXPECT_TRUE(contains(engine.start("tries", "doubled", "first").result<std::string>(),
                       "already-started: there is already a workflow 'first', which is not a "));
  EXPECT_TRUE(contains(engine.start("tries", "parent", std::string(500, 'x')).result<std::string>(),
                       "bad-request: the id of a workflow has 500 bytes"));
}

TEST_F(Children, AreLeftCancelledOrTerminatedWhenTheirParentEnds) {
  engine.start("leaves", static_cast<int>(ParentClose::cancel));
  engine.advance(1min);
  EXPECT_EQ(info("left").state, FlowState::running);  // It cleans up.
  engine.advance(1min);
  EXPECT_EQ(info("left").result, "\"cancelled\"");
}
TEST_F(Children, AreTerminatedWhenTheirParentEnds) {
  engine.start({.id = "p"}, "leaves", static_cast<int>(ParentClose::terminate));
  engine.advance(1min);
  EXPECT_EQ(info("left").error.message, "its parent 'p' has ended");
}
TEST_F(Children, AreAbandonedWhenTheirParentEnds) {
  engine.start("leaves", static_cast<int>(ParentClose::abandon));
  engine.advance(11h);
  EXPECT_EQ(info("left").result, "\"ended\"");
}

TEST_F(Children, AreCancelledAndAwaitedWithTheirParent) {
  engine.define("awaits", [](Context& ctx) -> Flow<> { co_await ctx.child<std::string>("waits"); });
  const test::Run run = engine.start({.id = "p"}, "awaits");
  engine.cancel("p");
  EXPECT_FALSE(run.ended());  // The child cleans up.
  engine.cancel("p");
  engine.advance(1min);
  EXPECT_EQ(run.info().state, FlowState::cancelled);
  EXPECT_EQ(info("p/0.1").result, "\"cancelled\"");
  int cancels = 0;
  for (const HistoryEntry& entry : engine.history("p/0.1")) cancels += entry.kind == "cancel";
  EXPECT_EQ(cancels, 1);
}

TEST_F(Children, LoseARaceAndAreAwaited) {
  engine.define("races", [](Context& ctx) -> Flow<int> {
    const auto won = co_await ctx.race(
        [](Context& c) -> Flow<int> { co_return co_await c.child<int>("doubled", 5); },
        [](Context& c) -> Flow<std::string> { co_return co_await c.child<std::string>("waits"); });
    co_return std::get<0>(won);
  });
  const test::Run run = engine.start("races");
  engine.advance(1min);
  EXPECT_FALSE(run.ended());
  engine.advance(1min);
  EXPECT_EQ(run.result<int>(), 10);
}

TEST(ChildMessages, AreReadBackAndRefusedWhenDamaged) {
  using flow::ParentLink;
  const ParentLink link{.id = "a b", .key = {.scope = 7, .sequence = 9}};
  EXPECT_EQ(flow::parse_parent(flow::text_of(link)), link);
  for (const std::string_view bad : {"", "1", "1.", "1.2", "x.2 a", "1.x a", "99999999999.1 a"}) {
    EXPECT_EQ(flow::parse_parent(bad), std::nullopt) << bad;
  }
  flow::Message message = flow::child_ended(
      link, {.id = "c d", .state = FlowState::failed, .value = R"({"type":"t"})"});
  EXPECT_EQ(message.workflow, "a b");
  const auto ended = flow::parse_child_ended(message);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->key, link.key);
  EXPECT_EQ(ended->end.id, "c d");
  EXPECT_EQ(ended->end.state, FlowState::failed);
  EXPECT_EQ(ended->end.value, R"({"type":"t"})");
  message.value[0] = 9;
  EXPECT_FALSE(flow::parse_child_ended(message));
  message.value.clear();
  EXPECT_FALSE(flow::parse_child_ended(message));
}

// --- crashes

Flow<int> leaf(Context& ctx, int value) {
  co_await ctx.sleep(1min);
  co_return co_await ctx.run("leaf", crash_kit::work, "leaf", value);
}
Flow<std::string> family(Context& ctx) {
  const ChildOptions abandoned{.id = "abandoned", .on_parent_close = ParentClose::abandon};
  const ChildOptions terminated{.id = "terminated", .on_parent_close = ParentClose::terminate};
  co_await ctx.start_child(abandoned, "waits");
  co_await ctx.start_child(terminated, "waits");
  const Child cancelled = co_await ctx.start_child("waits");
  const auto [a, b, c] =
      co_await ctx.all([](Context& x) -> Flow<int> { co_return co_await x.child<int>("leaf", 1); },
                       [](Context& x) -> Flow<int> { co_return co_await x.child<int>("leaf", 2); },
                       [](Context& x) -> Flow<std::string> {
                         try {
                           co_await x.child<int>("failing");
                         } catch (const ChildFailed& failed) {
                           co_return failed.info().message;
                         }
                         co_return "";
                       });
  co_return cancelled.id() + std::to_string(a) + std::to_string(b) + c;
}

TEST(ChildrenCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const crash_kit::Scenario scenario{
      .define =
          [](test::Engine& engine) {
            engine.define("leaf", leaf);
            engine.define("failing", failing);
            engine.define("waits", waits);
            engine.define("family", family);
            engine.define("parent",
                          [](Context& ctx) -> Flow<> { co_await ctx.child<std::string>("waits"); });
          },
      .script = {
          crash_kit::start(
              "f", [](test::Engine& e, const std::string& id) { e.start({.id = id}, "family"); }),
          crash_kit::start(
              "p", [](test::Engine& e, const std::string& id) { e.start({.id = id}, "parent"); }),
          crash_kit::until(10min),
          [](test::Engine& engine) {
            try {
              engine.cancel("p");
            } catch (const WorkflowEnded&) {
            }
          },
          crash_kit::until(12h)}};
  for (const std::size_t resident : {0U, 1024U}) {
    crash_kit::expect_the_same_after_crashes(scenario,
                                             "abandoned: completed \"ended\"\n"
                                             "f: completed \"f/0.323no paper\"\n"
                                             "f/0.3: completed \"cancelled\"\n"
                                             "f/1.1: completed 2\n"
                                             "f/2.1: completed 3\n"
                                             "f/3.1: failed no paper\n"
                                             "p: cancelled it was cancelled\n"
                                             "p/0.1: completed \"cancelled\"\n"
                                             "terminated: cancelled its parent 'f' has ended\n",
                                             resident);
  }
}

}  // namespace
}  // namespace tenure
