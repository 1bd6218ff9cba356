// Bugs of other workflow engines in recovery and hand-over: docs/museum.md, W03, W04, W06 to W08,
// W15 and W18. Those without a crash are in flow_museum_test.cpp.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "flow/entry.hpp"
#include "flow/keys.hpp"
#include "tenure/flow_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

// TENURE_FLOW_FULL: with as many workflows as in the systems that had the bugs. For make torture.
const bool in_full = std::getenv("TENURE_FLOW_FULL") != nullptr;  // NOLINT(concurrency-mt-unsafe)

int plus_one(int value) { return value + 1; }
int third_time(StepContext& step) {
  if (step.attempt() < 3) throw std::runtime_error("not yet");
  return static_cast<int>(step.attempt());
}

Flow<int> two_steps(Context& ctx) {
  int value = co_await ctx.run("first", plus_one, 0);
  value = co_await ctx.run("second", plus_one, value);
  co_await ctx.sleep(1min);
  co_return co_await ctx.run("third", plus_one, value);
}

Flow<int> retried(Context& ctx) {
  const Step step{.name = "flaky", .retry = {.max_attempts = 3, .base = 1s}};
  const int attempts = co_await ctx.run(step, third_time);
  co_return co_await ctx.run("after", plus_one, attempts);
}

// A process that dies before or after its n-th write, for all n; then `check`.
void at_every_write(Flow<int> (*program)(Context&),
                    const std::function<void(test::Engine&, const test::Run&)>& check) {
  std::size_t deaths = 0;
  for (std::size_t write = 1;; ++write) {
    bool died = false;
    for (const bool after : {false, true}) {
      SCOPED_TRACE((after ? "after write " : "before write ") + std::to_string(write));
      test::Engine engine{{.partitions = 1}};
      engine.define("program", program, FlowOptions<>{.concurrency = {.max = 1}});
      static_cast<void>(engine.list());  // The partition is taken.
      engine.crash_at(write, after);
      try {
        engine.start({.id = "x"}, "program");
        engine.advance(1h);
      } catch (const Error&) {
        ASSERT_TRUE(engine.crashed());
      }
      if (engine.crashed()) {
        died = true;
        ++deaths;
        engine.crash();
        engine.recover();
        if (engine.list().empty()) engine.start({.id = "x"}, "program");
      }
      engine.crash_at(1'000'000, false);  // Not any more.
      check(engine, test::Run{engine, "x"});
    }
    if (!died) break;
  }
  EXPECT_GT(deaths, 8U);
}

TEST(FlowRecovery, W06_ACrashBetweenTwoStepsBlocksNothing) {
  at_every_write(two_steps, [](test::Engine& engine, const test::Run& run) {
    engine.advance(1h);
    EXPECT_EQ(run.result<int>(), 3);
    const test::Run next = engine.start("program");  // There is one place.
    engine.advance(1h);
    EXPECT_EQ(next.result<int>(), 3);
  });
}

TEST(FlowRecovery, W07_TheEndItsResultAndItsPlaceAreOne) {
  at_every_write(two_steps, [](test::Engine& engine, const test::Run& run) {
    if (run.ended()) {
      EXPECT_EQ(run.result<int>(), 3);
      EXPECT_NO_THROW(engine.start("program"));
    } else {
      EXPECT_THROW(engine.start("program"), ConcurrencyLimit);
    }
  });
}

TEST(FlowRecovery, W18_AStepWithRetriesIsRecoveredBetweenItsAttempts) {
  at_every_write(retried, [](test::Engine& engine, const test::Run& run) {
    engine.advance(1h);
    EXPECT_EQ(run.result<int>(), 4);
    std::vector<std::string> kinds;
    for (const HistoryEntry& entry : engine.history("x")) {
      if (entry.name == "flaky") kinds.push_back(entry.kind + std::to_string(entry.attempt));
    }
    // Each attempt is recorded once.
    EXPECT_EQ(std::vector<std::string>(kinds.end() - 1, kinds.end()),
              std::vector<std::string>{"step done3"});
    std::erase_if(kinds, [](const std::string& kind) { return kind.starts_with("timer"); });
    EXPECT_EQ(kinds.size(), 3U);
  });
}

Flow<> sleeper(Context& ctx) { co_await ctx.sleep(24h); }

TEST(FlowRecovery, W08_TakingOverManyWorkflowsWritesNoRowForEach) {
  const int workflows = in_full ? 50'000 : 3'000;
  test::Engine engine{{.resident = 16, .partitions = 4}};
  engine.define("sleeper", sleeper);
  for (int i = 0; i < workflows; ++i) engine.start("sleeper");
  engine.crash();
  const std::size_t before = engine.writes();
  engine.recover();
  EXPECT_LT(engine.writes() - before, 50U);
  EXPECT_LT(engine.engine().resident(), 100U);
  engine.advance(24h);
  EXPECT_EQ(engine.list({.state = FlowState::completed, .limit = 100'000}).size(),
            static_cast<std::size_t>(workflows));
}

Flow<> naps(Context& ctx) {
  for (int i = 0; i < 20; ++i) co_await ctx.sleep(1min);
}

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/task"},
                       std::filesystem::directory_iterator{});
}

TEST(FlowRecovery, W15_TenThousandEvictionsLeaveNoThreadAndNoWorkflow) {
  const int workflows = in_full ? 5'000 : 500;  // Each is evicted 20 times.
  const std::ptrdiff_t before = threads();
  {
    test::Engine engine{{.resident = 0, .partitions = 1}};
    engine.define("naps", naps);
    for (int i = 0; i < workflows; ++i) engine.start("naps");
    const std::ptrdiff_t during = threads();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(engine.engine().resident(), 0U);
      engine.advance(1min);
    }
    EXPECT_LE(threads(), during);
  }
  kit::until([&] { return threads() <= before; });  // The kernel forgets one after its join.
}

// --- two engines in one process, with threads of their own

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): steps capture nothing.
Store* logs = nullptr;
std::atomic<int> repeated{0};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

int once_recorded(StepContext& step, int value) {
  const flow::keys::Partition partition = flow::keys::partition_of(step.workflow(), 64);
  Txn txn;
  txn.reads.push_back(flow::keys::log_from(flow::keys::log_prefix(partition, step.workflow()), 0));
  const Outcome outcome = logs->apply(txn);
  for (const Entry& stored : outcome.reads.front()) {
    if (flow::decode_entry(stored.value).value().name == "step-" + std::to_string(value)) {
      ++repeated;
    }
  }
  return value + 1;
}

Flow<int> steps_and_naps(Context& ctx) {
  int value = 0;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "step-" + std::to_string(value);
    value = co_await ctx.run(name, once_recorded, value);
    co_await ctx.sleep(1ms);
  }
  co_return value;
}

class TwoEngines : public ::testing::Test {
 protected:
  static constexpr int workflows = 60;
  TwoEngines() : shared_(store("memory:")) {
    repeated = 0;
    logs = shared_.get();
  }
  // Of one label, as a process and the one that replaces it.
  [[nodiscard]] std::unique_ptr<Engine> engine() const {
    auto made = std::make_unique<Engine>(shared_, EngineOptions{.label = "worker-1"});
    made->define("steps", steps_and_naps);
    return made;
  }
  static void start_all(Engine& engine) {
    for (int i = 0; i < workflows; ++i) engine.start({.id = std::to_string(i)}, "steps");
  }
  static void expect_all(Engine& engine) {
    for (int i = 0; i < workflows; ++i) {
      EXPECT_EQ(engine.run(std::to_string(i)).result<int>(), 5);
    }
    EXPECT_EQ(repeated, 0);
  }

 private:
  const std::shared_ptr<Store> shared_;
};

TEST_F(TwoEngines, W03_RecoverTheSameWorkflowsAndRunNoRecordedStepAgain) {
  {
    const std::unique_ptr<Engine> first = engine();
    start_all(*first);
  }
  const std::unique_ptr<Engine> second = engine();
  const std::unique_ptr<Engine> third = engine();
  std::thread other{[&] { third->recover_all(); }};
  second->recover_all();
  other.join();
  expect_all(*second);
  expect_all(*third);
}

TEST_F(TwoEngines, W04_AnEngineThatIsDrainedClaimsNothingBack) {
  std::unique_ptr<Engine> old = engine();
  start_all(*old);
  const std::unique_ptr<Engine> next = engine();
  next->recover_all();
  old->drain();
  EXPECT_EQ(old->resident(), 0U);
  expect_all(*next);  // Also while the old process is still there.
  next->start({.id = "later"}, "steps");
  EXPECT_EQ(next->run("later").result<int>(), 5);
  EXPECT_THROW(old->start("steps"), Closed);
  old.reset();
}

}  // namespace
}  // namespace tenure
