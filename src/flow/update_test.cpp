// Updates of running workflows: validators, results now and later, ids, replays, crashes.
#include "tenure/flow_update.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "flow/updates.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using kit::message_of;

int twice(int value) { return 2 * value; }

// A stock of ten, from which updates take.
Flow<int> stock(Context& ctx) {
  int left = 10;
  bool closed = false;
  const UpdateHandler take = ctx.on_update(
      "take",
      [&](int count) {
        if (count == 7) throw std::runtime_error("seven is jinxed");
        return left -= count;
      },
      [&](int count) {
        if (count > left) throw std::invalid_argument("only " + std::to_string(left) + " left");
      });
  const UpdateHandler slow = ctx.on_update("slow", [&](Context& inside, int count) -> Flow<int> {
    const int doubled = co_await inside.run("twice", twice, count);
    co_await inside.sleep(1h);
    left += doubled;
    co_return left;
  });
  const UpdateHandler close = ctx.on_update("close", [&] { closed = true; });
  co_await ctx.wait_until([&] { return closed; });
  co_return left;
}

Flow<int> renewed(Context& ctx, int round) {
  const UpdateHandler slow =
      ctx.on_update("slow", [](Context& inside) -> Flow<> { co_await inside.sleep(1h); });
  if (round > 0) co_return round;
  co_await ctx.wait_signal<int>("next");
  co_await ctx.continue_as_new(round + 1);
  co_return 0;
}

class Updates : public ::testing::Test {
 protected:
  Updates() {
    engine.define("stock", stock);
    engine.define("renewed", renewed);
    run = engine.start({.id = "a"}, "stock").id();
  }
  std::string kinds() {
    std::string text;
    for (const HistoryEntry& entry : engine.history("a"))
      text += entry.kind + " " + entry.name + "; ";
    return text;
  }
  test::Engine engine;
  std::string run;
};

TEST_F(Updates, ReturnWhatTheHandlerReturns) {
  EXPECT_EQ(engine.update<int>("a", "take", 3), 7);
  EXPECT_EQ(engine.update<int>("a", "take", 2), 5);
  EXPECT_EQ(kinds(), "update take; update take; ");
  EXPECT_TRUE(contains(engine.history("a").front().value, ",[3]]"));
  engine.crash();
  engine.recover();
  EXPECT_EQ(engine.update<int>("a", "take", 1), 4);
  engine.update("a", "close");
  EXPECT_EQ(test::Run(engine, "a").result<int>(), 4);
}

TEST_F(Updates, AreRejectedWithoutATrace) {
  const auto refusal = [&](auto... arguments) {
    try {
      engine.update<int>("a", arguments...);
      return std::string{"none"};
    } catch (const UpdateRejected& rejected) {
      return rejected.info().message;
    }
  };
  EXPECT_EQ(refusal("take", 11), "only 10 left");
  EXPECT_EQ(refusal("give", 1),
            "it has no handler for the update 'give'; it takes: close, slow, take");
  EXPECT_EQ(refusal("take"), "there are 0 arguments, not 1");
  EXPECT_NE(refusal("take", std::string{"x"}), "none");
  EXPECT_EQ(kinds(), "");
  EXPECT_EQ(engine.problems().size(), 0U);
}

TEST_F(Updates, FailWithWhatTheHandlerThrows) {
  try {
    engine.update<int>("a", "take", 7);
    FAIL();
  } catch (const UpdateFailed& failed) {
    EXPECT_EQ(failed.info().message, "seven is jinxed");
  }
  EXPECT_EQ(engine.update<int>("a", "take", 1), 9);  // The workflow goes on.
}

TEST_F(Updates, MayAwait) {
  const Update update = engine.send_update({.id = "u"}, "a", "slow", 4);
  EXPECT_EQ(update.state(), UpdateState::accepted);
  update.wait_accepted();
  engine.crash();
  engine.recover();
  EXPECT_EQ(engine.update<int>("a", "take", 3), 7);
  engine.advance(1h);
  EXPECT_EQ(engine.send_update({.id = "u"}, "a", "slow", 4).result<int>(), 15);  // Sent once.
  EXPECT_EQ(kinds(), "update slow; step done twice; update take; timer sleep; ");
}

TEST_F(Updates, FailWhereTheWorkflowEndsOrContinuesBeforeTheirHandler) {
  const Update update = engine.send_update({}, "a", "slow", 4);
  engine.update("a", "close");
  EXPECT_TRUE(contains(message_of<UpdateFailed>([&] { update.result(); }), "before the handler"));
  EXPECT_THROW(engine.send_update({}, "a", "take", 1), WorkflowEnded);
  engine.start({.id = "r"}, "renewed", 0);
  const Update other = engine.send_update({}, "r", "slow");
  engine.signal("r", "next", 1);
  EXPECT_TRUE(contains(message_of<UpdateFailed>([&] { other.result(); }), "continued as new"));
}

TEST_F(Updates, OfATerminatedWorkflowEndWithIt) {
  const Update update = engine.send_update({}, "a", "slow", 4);
  engine.terminate("a");
  EXPECT_THROW(update.result(), WorkflowEnded);
}

TEST_F(Updates, WaitForTheStart) {
  engine.start({.id = "later", .after = 1h}, "stock");
  const Update update = engine.send_update({}, "later", "take", 4);
  EXPECT_EQ(update.state(), UpdateState::sent);
  engine.advance(1h);
  EXPECT_EQ(update.result<int>(), 6);
}

TEST_F(Updates, AreReplayedFromAHistory) {
  engine.update<int>("a", "take", 3);
  static_cast<void>(engine.send_update({}, "a", "slow", 4));
  engine.advance(2h);
  engine.update("a", "close");
  const FlowHistory history = FlowHistory::parse(engine.engine().export_history("a").json());
  EXPECT_TRUE(engine.engine().replay(history).fits())
      << engine.engine().replay(history).difference();
}

TEST_F(Updates, HaveIdsThatCanBeStored) {
  EXPECT_THROW(engine.send_update({.id = std::string(500, 'x')}, "a", "take", 1), BadRequest);
  EXPECT_THROW(engine.send_update({.id = "\xff"}, "a", "take", 1), BadRequest);
  EXPECT_THROW(static_cast<void>(flow::decode_outcome("?")), Error);
}

// The caller waits on its own thread, and another engine has the workflow.
TEST(UpdateThreads, ReachTheEngineThatHasTheWorkflow) {
  const std::shared_ptr<Store> shared = store("memory:");
  Engine owner{shared, {.partitions = 4}};
  owner.define("stock", stock);
  owner.start({.id = "a"}, "stock");
  Engine other{shared, {.partitions = 4}};
  other.define("stock", stock);
  std::vector<std::future<int>> callers;
  for (int i = 0; i < 10; ++i) {
    callers.push_back(std::async(std::launch::async, [&, i] {
      return (i % 2 == 0 ? owner : other).update<int>("a", "take", 1);
    }));
  }
  int sum = 0;
  for (std::future<int>& caller : callers) sum += caller.get();
  EXPECT_EQ(sum, 45);
  other.update("a", "close");
  EXPECT_EQ(owner.run("a").result<int>(), 0);
}

TEST(UpdateCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  const auto send = [](std::string id, std::string name, auto... arguments) -> crash_kit::Action {
    return [=](test::Engine& engine) {
      static_cast<void>(engine.send_update({.id = id}, "a", name, arguments...));
    };
  };
  crash_kit::Scenario scenario;
  scenario.define = [](test::Engine& engine) { engine.define("stock", stock); };
  scenario.script = {
      crash_kit::start("a", [](test::Engine& engine,
                               const std::string& id) { engine.start({.id = id}, "stock"); }),
      send("one", "take", 3),
      send("much", "take", 20),
      send("slow", "slow", 4),
      send("two", "take", 2),
      send("jinx", "take", 7),
      crash_kit::until(2h),
      send("last", "take", 1),
      [](test::Engine& engine) {
        try {
          static_cast<void>(engine.send_update({.id = "end"}, "a", "close"));
        } catch (const WorkflowEnded&) {  // Before the crash.
        }
      },
  };
  scenario.outcome = [](test::Engine& engine) {
    std::string text = crash_kit::outcome(engine);
    for (const char* const id : {"one", "much", "slow", "two", "jinx", "last", "end"}) {
      const flow::UpdateOutcome outcome =
          flow::read_outcome(engine.store(), flow::keys::partition_of("a", 2), "a", id);
      text += std::string{id} + " " + std::string{text_of(outcome.state)} + " ";
      text += outcome.state == UpdateState::completed ? outcome.value
                                                      : ErrorInfo::parse(outcome.value).message;
      text += "\n";
    }
    return text;
  };
  for (const std::size_t resident : {0U, 100U}) {
    crash_kit::expect_the_same_after_crashes(scenario, R"(a: completed 12
one completed 7
much rejected only 7 left
slow completed 13
two completed 5
jinx rejected only 5 left
last completed 12
end completed null
)",
                                             resident);
  }
}

}  // namespace
}  // namespace tenure
