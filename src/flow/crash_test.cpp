// The process dies before and after every write in turn, while workflows run that use every
// feature. Each time the outcome must be the same as without a crash, no step runs again whose
// result is in the log, and nothing is left in the store.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "flow/crash_test.hpp"
#include "tenure/flow_test.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

using namespace crash_kit;

Flow<int> sequence(Context& ctx) {
  int value = co_await ctx.run("a", work, "a", 0);
  value = co_await ctx.run("b", work, "b", value);
  const Step third{.name = "c", .retry = {.max_attempts = 4, .base = 1s}};
  value += co_await ctx.run(third, flaky, "c", 3);
  co_await ctx.sleep(1h);
  value = co_await ctx.run("d", work, "d", value);
  try {
    const Step fifth{.name = "e", .retry = {.max_attempts = 2, .base = 1s}};
    co_await ctx.run(fifth, flaky, "e", 9);
  } catch (const StepFailed&) {
    value += 100;
  }
  co_return value;
}

Flow<std::string> signals(Context& ctx) {
  std::string text = co_await ctx.wait_signal<std::string>("word");
  text += std::to_string(co_await ctx.run("a", work, "a", 1));
  const auto [more, count] = co_await ctx.all(
      [&](Context& c) -> Flow<std::string> {
        const auto word = co_await c.wait_signal<std::string>("word", 30min);
        co_return word.value_or("none") + std::to_string(co_await c.run("b", work, "b", 2));
      },
      [&](Context& c) -> Flow<int> {
        int seen = 0;
        while (const auto number = co_await c.wait_signal<int>("number", 40min)) seen += *number;
        co_return seen;
      });
  const bool held = co_await ctx.wait_until([&, n = count] { return n > 1000; }, 1min);
  co_return text + more + std::to_string(count) + (held ? "!" : ".");
}

Flow<std::string> branches(Context& ctx) {
  const auto won = co_await ctx.race(
      [](Context& c) -> Flow<int> {
        co_await c.run("r1", work, "r1", 1);
        co_await c.sleep(1h);
        co_return 1;
      },
      [](Context& c) -> Flow<int> {
        co_await c.sleep(10min);
        co_return co_await c.run("r2", work, "r2", 5);
      });
  std::string text = std::to_string(won.index());
  try {
    co_await ctx.all(
        [](Context& c) -> Flow<> {
          co_await c.run("f", flaky, "f", 2);  // Throws.
        },
        [&](Context& c) -> Flow<> {
          std::exception_ptr error;
          try {
            co_await c.sleep(5h);
          } catch (const Cancelled&) {
            error = std::current_exception();
          }
          co_await c.shielded([](Context& s) -> Flow<> {
            co_await s.sleep(1min);
            co_await s.run("clean", work, "clean", 1);
          });
          text += "c";
          if (error) std::rethrow_exception(error);
        });
  } catch (const StepFailed&) {
    text += "f";
  }
  co_return text;
}

Flow<int> slots(Context& ctx, int amount) {
  const DurableMutex mutex{{.lease = 1h}};
  const auto lock = ctx.state.workflow<LockRecord>("lock");
  const auto total = ctx.state.workflow<int>("total");
  while (true) {
    const LockCall call{.holder = ctx.id(), .now = ctx.now()};
    const Acquisition answer = co_await mutex.try_acquire(lock, call);
    if (answer.acquired) break;
    co_await ctx.sleep(5s);
  }
  co_await ctx.run("a", work, "a", 1);
  co_await total.increment(amount);
  co_await ctx.sleep(2s);
  const LockCall call{.holder = ctx.id(), .now = ctx.now()};
  co_await mutex.release(lock, call);
  co_return amount;
}

Flow<int> limited(Context& ctx, std::string /*key*/) {
  co_await ctx.run("a", work, "a", 1);
  co_await ctx.sleep(1h);
  co_return co_await ctx.run("b", work, "b", 1);
}

Flow<int> cancelled(Context& ctx) {
  std::exception_ptr error;
  try {
    co_await ctx.run("a", work, "a", 1);
    co_await ctx.sleep(10h);
  } catch (...) {
    error = std::current_exception();
  }
  co_await ctx.shielded([](Context& c) -> Flow<> { co_await c.run("undo", work, "undo", 1); });
  if (error) std::rethrow_exception(error);
  co_return 0;
}

Flow<int> locked(Context& ctx, int amount) {
  const FlowHold hold = co_await ctx.lock(Path::of("account", "42"));
  const int first = co_await ctx.run("a", work, "a", amount);
  co_await ctx.sleep(5min);
  co_await ctx.release(hold);
  const auto body = [first](Context& c, FlowHold /*hold*/) -> Flow<int> {
    co_await c.sleep(1min);
    co_return co_await c.run("b", work, "b", first);
  };
  co_return co_await ctx.with_lock(Path::of("account", "43"), body);
}

std::map<std::string, int> paid;  // By workflow, over all its processes.
int pay(StepContext& step) {
  if (++paid[step.workflow()] > 1) violations.push_back(step.workflow() + " paid twice");
  return 1;
}
Flow<std::string> at_most_once(Context& ctx) {
  const Step step{.name = "pay", .retry = {.max_attempts = 3}, .at_most_once = true};
  try {
    co_await ctx.run(step, pay);
  } catch (const StepFailed& failed) {
    if (failed.info().type != "interrupted") throw;
  }
  co_await ctx.sleep(1min);
  co_return "paid, or not";
}

std::vector<Action> script() {
  const auto plain = [](std::string type) {
    return [=](test::Engine& engine, const std::string& id) { engine.start({.id = id}, type); };
  };
  return {
      start("sequence", plain("sequence")),
      start("signals", plain("signals")),
      start("branches", plain("branches")),
      start("slots-1",
            [](test::Engine& e, const std::string& id) { e.start({.id = id}, "slots", 10); }),
      start("slots-2",
            [](test::Engine& e, const std::string& id) { e.start({.id = id}, "slots", 20); }),
      start("limited-1",
            [](test::Engine& e, const std::string& id) { e.start({.id = id}, "limited", "k"); }),
      start("later",
            [](test::Engine& e, const std::string& id) {
              e.start({.id = id, .after = 90min}, "limited", "other");
            }),
      start("locked-1",
            [](test::Engine& e, const std::string& id) { e.start({.id = id}, "locked", 1); }),
      start("locked-2",
            [](test::Engine& e, const std::string& id) { e.start({.id = id}, "locked", 2); }),
      start("once", plain("once")),
      start("cancelled", plain("cancelled")),
      start("timed-out",
            [](test::Engine& e, const std::string& id) {
              e.start({.id = id, .deadline = MemoryStore::virtual_start + 30min}, "cancelled");
            }),
      start("terminated", plain("cancelled")),
      signal("signals", "word", std::string{"hello"}, "m1"),
      until(1min),
      signal("signals", "number", 4, "m2"),
      signal("signals", "number", 5, "m3"),
      [](test::Engine& engine) {
        try {
          engine.cancel("cancelled");
        } catch (const WorkflowEnded&) {
        }
      },
      [](test::Engine& engine) {
        try {
          engine.terminate("terminated");
        } catch (const WorkflowEnded&) {
        }
      },
      until(20min),
      until(4h),
  };
}

// With the slot that the workflows share.
std::string outcome_with_total(test::Engine& engine) {
  std::string text = crash_kit::outcome(engine);
  Txn txn;
  txn.reads.push_back(Range::key(slot::workflow("slots", "total").key()));
  const Outcome read = engine.store().apply(txn);
  return text + "total " + (read.reads[0].empty() ? "none" : read.reads[0][0].value) + "\n";
}

Scenario corpus() {
  return {.define =
              [](test::Engine& engine) {
                engine.define("sequence", sequence);
                engine.define("signals", signals);
                engine.define("branches", branches);
                engine.define("slots", slots);
                engine.define(
                    "limited", limited,
                    {.concurrency = {.max = 1, .key = [](const std::string& key) { return key; }}});
                engine.define("cancelled", cancelled);
                engine.define("locked", locked);
                engine.define("once", at_most_once);
                paid.clear();
              },
          .script = script(),
          .outcome = outcome_with_total};
}

constexpr std::string_view expected =
    "branches: completed \"1cf\"\n"
    "cancelled: cancelled it was cancelled\n"
    "later: completed 2\n"
    "limited-1: completed 2\n"
    "locked-1: completed 3\n"
    "locked-2: completed 4\n"
    "once: completed \"paid, or not\"\n"
    "sequence: completed 106\n"
    "signals: completed \"hello2none39.\"\n"
    "slots-1: completed 10\n"
    "slots-2: completed 20\n"
    "terminated: cancelled it was terminated\n"
    "timed-out: timed-out its deadline passed\n"
    "total 30\n";

class FlowCrash : public ::testing::TestWithParam<std::size_t> {};

TEST_P(FlowCrash, ChangesNothingBeforeAndAfterEveryWrite) {
  expect_the_same_after_crashes(corpus(), expected, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Resident, FlowCrash, ::testing::Values(0U, 1024U));

TEST(FlowCrashes, ChangeNothingHoweverManyThereAre) {
  expect_the_same_after_many_crashes(corpus(), expected);
}

}  // namespace
}  // namespace tenure
