#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tenure/flow_test.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using std::chrono::days;

// What steps did: the world outside.
std::map<std::string, int>& calls() {
  static std::map<std::string, int> all;
  return all;
}
int count(const std::string& name) { return calls()[name]; }

int add(int a, int b) {
  ++calls()["add"];
  return a + b;
}
int call(std::string name, int value) {
  ++calls()[name];
  return value;
}
struct OutOfMoney : std::runtime_error {
  using std::runtime_error::runtime_error;
};
int fail_until(int attempts, const std::string& name) {
  const int call_number = ++calls()[name];
  if (call_number <= attempts) throw std::runtime_error("attempt " + std::to_string(call_number));
  return call_number;
}
int no_money() {
  ++calls()["no_money"];
  throw OutOfMoney("empty");
}

struct Order {
  std::string customer;
  int amount = 0;
};
void to_json(nlohmann::json& json, const Order& order) {
  json = {{"customer", order.customer}, {"amount", order.amount}};
}
void from_json(const nlohmann::json& json, Order& order) {
  json.at("customer").get_to(order.customer);
  json.at("amount").get_to(order.amount);
}

class FlowEngine : public ::testing::Test {
 protected:
  FlowEngine() { calls().clear(); }
  test::Engine engine;
};

Flow<int> sum(Context& ctx, int n) {
  int total = 0;
  for (int i = 1; i <= n; ++i) total = co_await ctx.run("add", add, total, i);
  co_return total;
}

TEST_F(FlowEngine, RunsStepsAndReturnsTheResult) {
  engine.define("sum", sum);
  const test::Run run = engine.start("sum", 4);
  EXPECT_EQ(run.result<int>(), 10);
  EXPECT_EQ(run.info().state, FlowState::completed);
  EXPECT_EQ(run.info().result, "10");
  EXPECT_EQ(run.info().input, "[4]");
  EXPECT_EQ(count("add"), 4);
  const std::vector<HistoryEntry> history = engine.history(run.id());
  ASSERT_EQ(history.size(), 4U);
  EXPECT_EQ(history[2].kind, "step done");
  EXPECT_EQ(history[2].name, "add");
  EXPECT_EQ(history[2].value, "6");
  EXPECT_EQ(history[2].order, 2U);
}

// So that new workflows are neighbours in the store.
TEST_F(FlowEngine, CommitsElevenTimesForTenSteps) {
  engine.define("sum", sum);
  engine.start("sum", 1);
  const std::size_t before = engine.writes();
  EXPECT_EQ(engine.start("sum", 10).result<int>(), 55);
  EXPECT_EQ(engine.writes() - before, 11U);
}

Flow<int> reminder(Context& ctx, int times) {
  for (int i = 0; i < times; ++i) {
    co_await ctx.sleep(days{1});
    co_await ctx.run("remind", call, "remind", i);
  }
  co_return times;
}

TEST_F(FlowEngine, SleepsForDays) {
  engine.define("reminder", reminder);
  const test::Run run = engine.start("reminder", 30);
  EXPECT_EQ(count("remind"), 0);
  engine.advance(days{1} - 1ns);
  EXPECT_EQ(count("remind"), 0);
  engine.advance(1ns);
  EXPECT_EQ(count("remind"), 1);
  EXPECT_FALSE(run.ended());
  engine.advance(days{29});
  EXPECT_EQ(count("remind"), 30);
  EXPECT_EQ(run.result<int>(), 30);
}

TEST_F(FlowEngine, SurvivesACrashAtAnyTime) {
  engine.define("reminder", reminder);
  const test::Run run = engine.start("reminder", 3);
  for (int i = 0; i < 6; ++i) {
    engine.crash();
    engine.recover();
    engine.advance(12h);
  }
  EXPECT_EQ(run.result<int>(), 3);
  EXPECT_EQ(count("remind"), 3);
}

Flow<long> century(Context& ctx) {
  const Instant before = ctx.now();
  co_await ctx.sleep(days{36'525});
  co_return std::chrono::duration_cast<days>(ctx.now() - before).count();
}

TEST_F(FlowEngine, SleepsForAHundredYearsAndNoLonger) {
  engine.define("century", century);
  engine.define("longer", [](Context& ctx) -> Flow<> { co_await ctx.sleep(days{36'526}); });
  const test::Run run = engine.start("century");
  engine.advance(days{36'524});
  EXPECT_FALSE(run.ended());
  engine.advance(days{1});
  EXPECT_EQ(run.result<long>(), 36'525);
  const test::Run longer = engine.start("longer");
  EXPECT_EQ(
      kit::message_of<WorkflowFailed>([&] { longer.result(); }),
      "workflow '" + longer.id() + "' failed: a workflow cannot wait longer than a hundred years");
}

Flow<std::string> retries(Context& ctx, int failures) {
  try {
    const Step step{.name = "flaky", .retry = {.max_attempts = 3, .base = 1s, .cap = 10s}};
    co_await ctx.run(step, fail_until, failures, "flaky");
    co_return "ok";
  } catch (const StepFailed& error) {
    co_return error.info().message;
  }
}

TEST_F(FlowEngine, RetriesAStepWithPauses) {
  engine.define("retries", retries);
  const test::Run run = engine.start("retries", 2);
  EXPECT_EQ(count("flaky"), 1);
  EXPECT_EQ(engine.history(run.id()).at(0).kind, "attempt failed");
  engine.crash();
  engine.recover();
  engine.advance(3s);  // The pauses are random, up to one and up to two seconds.
  EXPECT_EQ(count("flaky"), 3);
  EXPECT_EQ(run.result<std::string>(), "ok");
}

TEST_F(FlowEngine, GivesUpAfterTheLastAttempt) {
  engine.define("retries", retries);
  const test::Run run = engine.start("retries", 5);
  engine.advance(1h);
  EXPECT_EQ(count("flaky"), 3);
  EXPECT_EQ(run.result<std::string>(), "attempt 3");
}

Flow<std::string> pays(Context& ctx) {
  std::string caught;
  // g++ 12 cannot compile an initializer list inside co_await.
  Step step{.name = "pay", .retry = {.max_attempts = 5}};
  step.retry.never_for.emplace_back("out-of-money");
  try {
    co_await ctx.run(step, no_money);
  } catch (const OutOfMoney& error) {
    caught = error.what();
  }
  co_await ctx.sleep(1h);
  co_return caught;
}

TEST_F(FlowEngine, CatchesRegisteredErrorsAsThemselvesAndDoesNotRetryThem) {
  engine.error_type<OutOfMoney>("out-of-money");
  engine.define("pays", pays);
  const test::Run run = engine.start("pays");
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(run.result<std::string>(), "empty");
  EXPECT_EQ(count("no_money"), 1);
  EXPECT_EQ(engine.history(run.id()).at(0).value,
            R"({"code":"","message":"empty","type":"out-of-money"})");
}

Flow<std::string> approval(Context& ctx) {
  const auto first = co_await ctx.wait_signal<std::string>("approve");
  const auto second = co_await ctx.wait_signal<std::string>("approve", 1h);
  co_return first + " " + second.value_or("nobody");
}

TEST_F(FlowEngine, BuffersSignalsAndDropsRepeatedOnes) {
  engine.define("approval", approval);
  const test::Run run = engine.start({.id = "a-1"}, "approval");
  engine.signal("a-1", "approve", std::string{"ann"}, "message-1");
  engine.signal("a-1", "approve", std::string{"ann"}, "message-1");
  EXPECT_FALSE(run.ended());
  engine.crash();
  engine.recover();
  engine.signal("a-1", "approve", std::string{"bob"}, "message-2");
  EXPECT_EQ(run.result<std::string>(), "ann bob");
  EXPECT_THROW(engine.signal("a-1", "approve", 1), WorkflowEnded);
  EXPECT_THROW(engine.signal("a-2", "approve", 1), NoSuchWorkflow);
}

TEST_F(FlowEngine, WaitsForASignalForALimitedTime) {
  engine.define("approval", approval);
  const test::Run run = engine.start("approval");
  engine.signal(run.id(), "approve", std::string{"ann"});
  engine.advance(1h - 1ns);
  EXPECT_FALSE(run.ended());
  engine.advance(1ns);
  EXPECT_EQ(run.result<std::string>(), "ann nobody");
}

Flow<int> collector(Context& ctx) {
  int sum = 0;
  bool timed_out = false;
  co_await ctx.all(
      [&](Context& c) -> Flow<> {
        for (int i = 0; i < 3; ++i) sum += co_await c.wait_signal<int>("number");
      },
      [&](Context& c) -> Flow<> {
        co_await c.wait_until([&] { return sum >= 3; });
        co_await c.run("reached", call, "reached", sum);
        timed_out = !co_await c.wait_until([&] { return sum > 100; }, 1h);
      });
  co_return timed_out ? sum : -1;
}

TEST_F(FlowEngine, WaitsForConditions) {
  engine.define("collector", collector);
  const test::Run run = engine.start("collector");
  engine.signal(run.id(), "number", 1);
  EXPECT_EQ(count("reached"), 0);
  engine.signal(run.id(), "number", 2);
  EXPECT_EQ(count("reached"), 1);
  engine.signal(run.id(), "number", 4);
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 7);
}

Flow<std::string> racer(Context& ctx, bool slow) {
  const auto result = co_await ctx.race(
      [&](Context& c) -> Flow<int> {
        co_await c.sleep(slow ? 2h : 30min);
        co_return co_await c.run("work", call, "work", 7);
      },
      [&](Context& c) -> Flow<std::string> {
        co_await c.sleep(1h);
        co_return "timeout";
      });
  co_return result.index() == 0 ? std::to_string(std::get<0>(result)) : std::get<1>(result);
}

TEST_F(FlowEngine, RacesAndCancelsTheLoser) {
  engine.define("racer", racer);
  const test::Run quick = engine.start("racer", false);
  const test::Run slow = engine.start("racer", true);
  engine.advance(2h);
  EXPECT_EQ(quick.result<std::string>(), "7");
  EXPECT_EQ(slow.result<std::string>(), "timeout");
  EXPECT_EQ(count("work"), 1);
}

Flow<std::vector<int>> fan_out(Context& ctx, int n) {
  std::vector<std::function<Flow<int>(Context&)>> branches;
  for (int i = 0; i < n; ++i) {
    branches.emplace_back([i](Context& c) -> Flow<int> {
      const int one = co_await c.run("add", add, i, 1);
      co_return co_await c.run("add", add, one, 1);
    });
  }
  co_return co_await ctx.all(std::move(branches));
}

TEST_F(FlowEngine, RunsBranchesAtOnce) {
  engine.define("fan-out", fan_out);
  const test::Run run = engine.start("fan-out", 100);
  const auto result = run.result<std::vector<int>>();
  ASSERT_EQ(result.size(), 100U);
  EXPECT_EQ(result[99], 101);
  EXPECT_EQ(count("add"), 200);
}

Flow<int> cleans_up(Context& ctx) {
  int result = 0;
  std::exception_ptr error;
  try {
    co_await ctx.run("reserve", call, "reserve", 1);
    co_await ctx.sleep(days{7});
    result = 1;
  } catch (...) {
    error = std::current_exception();
  }
  co_await ctx.shielded([](Context& c) -> Flow<> {
    co_await c.sleep(1h);
    co_await c.run("unreserve", call, "unreserve", 1);
  });
  if (error) std::rethrow_exception(error);
  co_return result;
}

TEST_F(FlowEngine, CleansUpAfterCancellation) {
  engine.define("cleans-up", cleans_up);
  const test::Run run = engine.start("cleans-up");
  engine.cancel(run.id());
  EXPECT_FALSE(run.ended());
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(run.info().state, FlowState::cancelled);
  EXPECT_EQ(count("unreserve"), 1);
  EXPECT_THROW(run.result<int>(), WorkflowFailed);
}

TEST_F(FlowEngine, EndsTimedOutAtItsDeadline) {
  engine.define("cleans-up", cleans_up);
  const test::Run run = engine.start({.deadline = engine.now() + 1h}, "cleans-up");
  engine.advance(2h);
  EXPECT_EQ(run.info().state, FlowState::timed_out);
  EXPECT_EQ(count("unreserve"), 1);
}

TEST_F(FlowEngine, TerminatesWithoutRunningCode) {
  engine.define("cleans-up", cleans_up);
  const test::Run run = engine.start("cleans-up");
  engine.terminate(run.id(), "operator");
  EXPECT_EQ(run.info().state, FlowState::cancelled);
  EXPECT_EQ(run.info().error.message, "operator");
  engine.advance(days{10});
  EXPECT_EQ(count("unreserve"), 0);
}

Flow<int> counts(Context& ctx) {
  const FlowSlot<int> visits = ctx.state.workflow<int>("visits");
  const int now = co_await visits.increment();
  co_await ctx.state.execution<int>("mine").set(now);
  co_await ctx.sleep(1h);
  co_return now * 100 + (co_await ctx.state.execution<int>("mine").get()).value_or(-1);
}

TEST_F(FlowEngine, ChangesSlotsOnce) {
  engine.define("counts", counts);
  const test::Run first = engine.start("counts");
  const test::Run second = engine.start("counts");
  engine.crash();
  engine.recover();
  engine.advance(1h);
  EXPECT_EQ(first.result<int>(), 101);
  EXPECT_EQ(second.result<int>(), 202);
}

Flow<int> transfer(Context& ctx, Order order) {
  const DurableMutex mutex{{.lease = 60s}};
  const auto slot = ctx.state.workflow<LockRecord>("account:lock");
  while (true) {
    const LockCall lock_call{.holder = ctx.id(), .now = ctx.now()};
    const Acquisition answer = co_await mutex.try_acquire(slot, lock_call);
    if (answer.acquired) break;
    co_await ctx.sleep(5s);
  }
  const int inside = co_await ctx.run("enter", call, "inside", order.amount);
  co_await ctx.sleep(7s);
  const LockCall lock_call{.holder = ctx.id(), .now = ctx.now()};
  co_await mutex.release(slot, lock_call);
  co_return inside;
}

TEST_F(FlowEngine, UsesADurableMutexOnASlot) {
  engine.define("transfer", transfer);
  const test::Run first = engine.start("transfer", Order{"ann", 1});
  const test::Run second = engine.start("transfer", Order{"ann", 2});
  EXPECT_EQ(count("inside"), 1);
  engine.advance(6s);
  EXPECT_EQ(count("inside"), 1);
  engine.advance(20s);
  EXPECT_EQ(first.result<int>() + second.result<int>(), 3);
}

TEST_F(FlowEngine, LimitsRunsByKey) {
  engine.define("import",
                +[](Context& ctx, Order order) -> Flow<int> {
                  co_await ctx.sleep(1h);
                  co_return order.amount;
                },
                {.concurrency = {.max = 2, .key = &Order::customer}});
  engine.start("import", Order{"ann", 1});
  const test::Run second = engine.start("import", Order{"ann", 2});
  engine.start("import", Order{"bob", 3});
  try {
    engine.start("import", Order{"ann", 4});
    ADD_FAILURE();
  } catch (const ConcurrencyLimit& limit) {
    EXPECT_EQ(limit.type(), "import");
    EXPECT_EQ(limit.partition(), "ann");
    EXPECT_EQ(limit.limit(), 2U);
  }
  engine.crash();
  engine.recover();
  EXPECT_THROW(engine.start("import", Order{"ann", 4}), ConcurrencyLimit);
  engine.cancel(second.id());
  engine.start("import", Order{"ann", 5});
  EXPECT_THROW(engine.start("import", Order{"ann", 6}), ConcurrencyLimit);
  engine.advance(1h);
  engine.start("import", Order{"ann", 7});
}

TEST_F(FlowEngine, ListsByTypeStateAndTag) {
  engine.define("sum", sum);
  engine.define("reminder", reminder);
  engine.start({.id = "s-1", .tags = {{"team", "red"}}}, "sum", 1);
  engine.start({.id = "r-1", .tags = {{"team", "red"}}}, "reminder", 1);
  engine.start({.id = "r-2", .tags = {{"team", "blue"}}}, "reminder", 1);
  EXPECT_EQ(engine.list().size(), 3U);
  EXPECT_EQ(engine.list({.type = "reminder"}).size(), 2U);
  EXPECT_EQ(engine.list({.state = FlowState::completed}).at(0).id, "s-1");
  EXPECT_EQ(engine.list({.state = FlowState::running, .tags = {{"team", "red"}}}).at(0).id, "r-1");
}

Flow<std::string> first_version(Context& ctx) {
  co_await ctx.run("pack", call, "pack", 1);
  co_await ctx.sleep(1h);
  co_await ctx.run("ship", call, "ship", 1);
  co_return "shipped";
}
Flow<std::string> other_version(Context& ctx) {
  co_await ctx.run("weigh", call, "weigh", 1);
  co_await ctx.sleep(1h);
  co_return "weighed";
}

TEST_F(FlowEngine, StopsAWorkflowThatDoesNotFitItsLogAndGoesOnWithAFixedProgram) {
  static bool broken = false;
  broken = false;
  engine.define("ship", [](Context& ctx) -> Flow<std::string> {
    if (broken) co_return co_await other_version(ctx);
    co_return co_await first_version(ctx);
  });
  const test::Run run = engine.start({.id = "x"}, "ship");
  engine.crash();
  broken = true;
  engine.recover();
  engine.advance(1h);
  EXPECT_FALSE(run.ended());
  EXPECT_EQ(engine.problems().at("x"),
            "workflow 'x' of type 'ship' does not fit its log: the log has step done 'pack' (scope "
            "0, sequence 1), but the program waits for step 'weigh' (scope 0, sequence 1) there; "
            "the program waits for: step 'weigh' (scope 0, sequence 1). Start a program that does "
            "what the log has, and the workflow goes on");
  EXPECT_EQ(run.info().problem, engine.problems().at("x"));
  engine.crash();
  broken = false;
  engine.recover();
  engine.advance(0s);
  EXPECT_EQ(run.result<std::string>(), "shipped");
  EXPECT_EQ(count("pack"), 1);
}

TEST_F(FlowEngine, KeepsWaitingWorkflowsInTheStoreOnly) {
  calls().clear();
  test::Engine small{{.resident = 0, .partitions = 2}};
  small.define("reminder", reminder);
  small.define("collector", collector);
  std::vector<test::Run> runs;
  for (int i = 0; i < 50; ++i) runs.push_back(small.start("reminder", 3));
  const test::Run collects = small.start("collector");
  EXPECT_EQ(small.engine().resident(), 0U);
  small.advance(days{2});
  EXPECT_EQ(small.engine().resident(), 0U);
  for (int i = 0; i < 3; ++i) small.signal(collects.id(), "number", 2);
  small.advance(days{1});
  for (const test::Run& run : runs) EXPECT_EQ(run.result<int>(), 3);
  EXPECT_EQ(collects.result<int>(), 6);
  EXPECT_EQ(count("remind"), 150);
}

TEST_F(FlowEngine, ReplacesSteps) {
  engine.define("sum", sum);
  engine.mock("add", [](int a, int b) { return (a * 10) + b; });
  EXPECT_EQ(engine.start("sum", 3).result<int>(), 123);
  EXPECT_EQ(count("add"), 0);
}

Flow<std::vector<std::uint64_t>> dice(Context& ctx) {
  std::vector<std::uint64_t> all{ctx.random()};
  co_await ctx.sleep(1s);
  all.push_back(ctx.random());
  const std::string uuid = ctx.uuid().text();
  all.push_back(std::hash<std::string>{}(uuid));
  all.push_back(static_cast<std::uint64_t>(ctx.now().time_since_epoch().count()));
  co_await ctx.sleep(1s);
  co_return all;
}

TEST_F(FlowEngine, HasRandomnessAndTimeThatReplayTheSame) {
  engine.define("dice", dice);
  test::Engine other;
  other.define("dice", dice);
  const test::Run calm = engine.start("dice");
  const test::Run crashed = other.start("dice");
  engine.advance(3s);
  for (int i = 0; i < 6; ++i) {
    other.crash();
    other.recover();
    other.advance(500ms);
  }
  EXPECT_EQ(calm.result<std::vector<std::uint64_t>>(),
            crashed.result<std::vector<std::uint64_t>>());
}

TEST_F(FlowEngine, EndsAtMostOnceStepsAsInterrupted) {
  engine.define("once", [](Context& ctx) -> Flow<std::string> {
    try {
      const Step step{.name = "pay", .at_most_once = true};
      co_await ctx.run(step, call, "pay", 1);
      co_return "paid";
    } catch (const StepFailed& failed) {
      co_return failed.info().type;
    }
  });
  EXPECT_EQ(engine.start("once").result<std::string>(), "paid");
  // Dies when the start of the step was stored.
  engine.crash_at(2, true);
  const test::Run run = engine.start({.id = "o"}, "once");
  EXPECT_TRUE(engine.crashed());
  engine.recover();
  EXPECT_EQ(engine.engine().run("o").info().result, "\"interrupted\"");
}

}  // namespace
}  // namespace tenure
