// Histories that are exported and replayed elsewhere, and queries, which are answered by a replay.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;

int version = 1;  // Of the program.

std::string pack(std::string item) { return "packed " + item; }

Flow<std::string> order(Context& ctx, std::string item) {
  std::string state = "new";
  int asked = 0;
  const QueryHandler state_query = ctx.on_query("state", [&] { return state; });
  const QueryHandler sum_query = ctx.on_query("sum", [&](int a, int b) { return ++asked + a + b; });
  const QueryHandler bad_query = ctx.on_query("bad", []() -> int { throw std::range_error("no"); });
  if (version == 2) co_await ctx.run("check", pack, item);
  if (version == 3 && ctx.patched("check")) co_await ctx.run("check", pack, item);
  const std::string packed =
      version == 4 ? "other" : item;  // g++ 12 destroys `?:` twice in co_await.
  state = co_await ctx.run("pack", pack, packed);
  const auto word = co_await ctx.wait_signal<std::string>("word", 1h);
  if (word) state += " " + *word;
  if (version == 5) co_return "too early";
  co_await ctx.sleep(1h);
  co_return version == 6 ? "other" : state;
}

class Replaying : public ::testing::Test {
 protected:
  Replaying() { engine.define("order", order); }
  ~Replaying() override { version = 1; }
  ReplayReport replay(const FlowHistory& history, int program) {
    version = program;
    test::Engine elsewhere;
    elsewhere.define("order", order);
    ReplayReport report = elsewhere.engine().replay(FlowHistory::parse(history.json()));
    version = 1;
    return report;
  }
  FlowHistory waiting() {
    engine.start({.id = "a"}, "order", "lamp");
    engine.signal("a", "word", std::string{"well"});
    return engine.engine().export_history("a");
  }
  test::Engine engine;
};

TEST_F(Replaying, AHistoryIsReadBackFromItsJson) {
  FlowHistory history = waiting();
  EXPECT_EQ(history.entries.size(), 2U);
  history.entries[0].value = "\xff\x01";  // Of a codec that is not JSON.
  EXPECT_EQ(FlowHistory::parse(history.json()), history);
  EXPECT_TRUE(contains(history.json(), "\"kind\": \"step done\""));
}

TEST_F(Replaying, AHistoryThatCannotBeReadIsRefused) {
  const std::string good = waiting().json();
  for (const std::string& bad :
       {std::string{}, std::string{"{}"}, good.substr(0, good.size() / 2)}) {
    EXPECT_TRUE(
        contains(kit::message_of<BadRequest>([&] { static_cast<void>(FlowHistory::parse(bad)); }),
                 "the history of a workflow cannot be read: "));
  }
  std::string newer = good;
  newer.replace(newer.find("step done"), 9, "step left");
  EXPECT_TRUE(
      contains(kit::message_of<BadRequest>([&] { static_cast<void>(FlowHistory::parse(newer)); }),
               "there is no kind of entry 'step left'"));
}

TEST_F(Replaying, TheSameProgramFits) {
  const FlowHistory running = waiting();
  EXPECT_TRUE(replay(running, 1).fits());
  engine.advance(1h);
  const FlowHistory ended = engine.engine().export_history("a");
  EXPECT_EQ(ended.state, FlowState::completed);
  EXPECT_EQ(replay(ended, 1).difference(), "");
  EXPECT_EQ(replay(running, 3).difference(), "") << "a patch takes the old way";
}

TEST_F(Replaying, ADifferenceIsShownWithBothSides) {
  const FlowHistory running = waiting();
  const ReplayReport other_step = replay(running, 2);
  EXPECT_FALSE(other_step.fits());
  EXPECT_EQ(other_step.order(), 0U);
  EXPECT_TRUE(
      contains(other_step.difference(), "the log has step done 'pack' (scope 0, sequence 1)"));
  EXPECT_TRUE(contains(other_step.difference(), "the program waits for step 'check'"));
  const ReplayReport other_arguments = replay(running, 4);
  EXPECT_TRUE(contains(other_arguments.difference(), "with other arguments"));
  const ReplayReport too_early = replay(running, 5);
  EXPECT_EQ(too_early.order(), 2U);
  EXPECT_TRUE(contains(too_early.difference(), "but the program returns \"too early\" there"));
  engine.advance(1h);
  const ReplayReport other_result = replay(engine.engine().export_history("a"), 6);
  EXPECT_EQ(other_result.order(), 3U);
  EXPECT_TRUE(contains(other_result.difference(),
                       "completed with \"packed lamp well\", but the program returns \"other\""));
  test::Engine without;
  EXPECT_TRUE(contains(without.engine().replay(running).difference(), "is not defined"));
}

TEST_F(Replaying, TerminatedAndCancelledWorkflowsFit) {
  engine.start({.id = "t"}, "order", "lamp");
  engine.terminate("t");
  EXPECT_EQ(replay(engine.engine().export_history("t"), 1).difference(), "");
  engine.start({.id = "c"}, "order", "lamp");
  engine.cancel("c");
  EXPECT_EQ(replay(engine.engine().export_history("c"), 1).difference(), "");
}

TEST_F(Replaying, AQueryIsAnsweredFromTheStoredState) {
  waiting();
  const std::size_t writes = engine.writes();
  tenure::Engine& program = engine.engine();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(program.query<std::string>("a", "state"), "packed lamp well");
    EXPECT_EQ((program.query<int>("a", "sum", 2, 3)), 6) << "what a handler changes is thrown away";
  }
  EXPECT_EQ(engine.writes(), writes);
  EXPECT_EQ(engine.history("a").size(), 2U);
  engine.crash();
  engine.recover();
  EXPECT_EQ(engine.engine().query<std::string>("a", "state"), "packed lamp well");
}

TEST_F(Replaying, AQuerySaysWhatIsWrong) {
  waiting();
  tenure::Engine& program = engine.engine();
  EXPECT_EQ(
      kit::message_of<BadRequest>([&] { static_cast<void>(program.query<int>("a", "size")); }),
      "workflow 'a' has no handler for the query 'size'; it answers: bad, state, sum");
  EXPECT_THROW(static_cast<void>(program.query<int>("a", "sum", 1)), BadRequest);
  EXPECT_THROW(static_cast<void>(program.query<int>("a", "bad")), std::range_error);
  EXPECT_THROW(static_cast<void>(program.query<int>("b", "sum")), NoSuchWorkflow);
  engine.terminate("a");
  EXPECT_THROW(static_cast<void>(program.query<int>("a", "sum", 1, 2)), WorkflowEnded);
}

// The owner of the partitions is another engine.
TEST(Queries, AreAnsweredByAnyEngineThatHasTheDefinition) {
  auto store = std::make_shared<MemoryStore>();
  tenure::Engine owner{store, {.partitions = 1}};
  owner.define("order", order);
  owner.start({.id = "a"}, "order", "lamp");
  tenure::Engine other{store, {.partitions = 1}};
  other.define("order", order);
  owner.signal("a", "word", "x");
  while (other.history("a").size() < 2) std::this_thread::yield();
  EXPECT_EQ(other.query<std::string>("a", "state"), "packed lamp x");
}

}  // namespace
}  // namespace tenure
