// Engines in processes of their own: killed at writes in turn, killed and stopped from outside, and
// left without their server.
//
// TENURE_FLOW_EVERY: 1 tries every write of the workflow; by default every ninth, fewer on
// PostgreSQL, where each death costs a lease, and none on etcd.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "flow/schedule_rule.hpp"
#include "space/stored/forwarding_store_test.hpp"
#include "tenure/flow.hpp"
#include "tenure/state.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

int next(int value) { return value + 1; }
int flaky(StepContext& step) {
  if (step.attempt() < 3) throw std::runtime_error("not yet");
  return 10;
}

Flow<int> everything(Context& ctx, int first) {
  int value = co_await ctx.run("a", next, first);
  const Step step{.name = "flaky", .retry = {.max_attempts = 3, .base = 1ms, .cap = 2ms}};
  value += co_await ctx.run(step, flaky);
  co_await ctx.sleep(2ms);
  const auto [left, right] = co_await ctx.all(
      [value](Context& c) -> Flow<int> { co_return co_await c.run("left", next, value); },
      [value](Context& c) -> Flow<int> {
        co_await c.sleep(1ms);
        co_return co_await c.run("right", next, value);
      });
  co_await ctx.state.workflow<int>("total").increment(left);
  co_return left + right;
}

Flow<int> short_one(Context& ctx, int value) {
  for (int i = 0; i < 3; ++i) {
    value = co_await ctx.run("next", next, value);
    co_await ctx.sleep(1ms);
  }
  const int ends = co_await ctx.state.execution<int>("ends").increment();
  co_return ends == 1 ? value : -1;
}

Flow<> tick(Context& ctx) { co_await ctx.state.workflow<int>("ticks").increment(); }

void define(Engine& engine) {
  engine.define("tick", tick);
  engine.define("everything", everything, {.concurrency = {.max = 1}});
  engine.define("short", short_one);
}

// The process ends at its n-th write, before or after the write is made.
class Dying final : public stored::ForwardingStore {
 public:
  Dying(const std::shared_ptr<Store>& store, int write, bool after)
      : ForwardingStore(store), inside_(store), left_(write), after_(after) {}
  Outcome apply(const Txn& txn) override {
    if (!txn.writes.empty()) count(txn);
    return inside_->apply(txn);
  }
  void apply_then(Txn txn, Posted done) noexcept override {
    if (!txn.writes.empty()) count(txn);
    inside_->apply_then(std::move(txn), std::move(done));
  }
  void flush() override { inside_->flush(); }

 private:
  void count(const Txn& txn) {
    if (left_.fetch_sub(1) != 1) return;
    if (after_) static_cast<void>(inside_->apply(txn));
    ::_exit(7);
  }
  const std::shared_ptr<Store> inside_;
  std::atomic<int> left_;
  const bool after_;
};

constexpr std::chrono::milliseconds lease{2000};  // etcd grants no shorter one.

class FlowProcesses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres") {
      schema_ = std::make_unique<kit::Schema>();
      prefix_ = schema_->url();
    } else if (GetParam() == "etcd") {
      prefix_ = kit::Etcd::instance().url(kit::new_prefix());
    }
  }
  [[nodiscard]] bool is_server() const { return !prefix_.empty(); }
  [[nodiscard]] std::string url(int number = 0) const {
    if (is_server()) return prefix_;
    return "sqlite:" + (directory_ / (std::to_string(number) + ".db")).string();
  }
  // A process that starts the workflow, if it is new, and waits for its end. Its exit status.
  [[nodiscard]] static int run(const std::string& where, const std::string& id, int write,
                               bool after) {
    kit::Process process{[=](const kit::Line& /*line*/) {
      std::shared_ptr<Store> inside = store(where);
      Engine engine{write == 0 ? inside : std::make_shared<Dying>(inside, write, after),
                    {.lease = lease}};
      define(engine);
      engine.recover_all();
      tenure::Run run = engine.start({.id = id, .idempotency_key = id}, "everything", 1);
      if (run.result<int>() != 26) ::_exit(1);
      if (!engine.list({.state = FlowState::running}).empty()) ::_exit(2);
      ::_exit(0);
    }};
    return process.exit_status();
  }

  kit::TemporaryDirectory directory_;
  std::unique_ptr<kit::Schema> schema_;
  std::string prefix_;
};

constexpr std::chrono::milliseconds period{10};

// Waits until the schedule has fired so often, by whatever engines.
void wait_for_ticks(Engine& engine, int count) {
  const ScheduleOptions options{.id = "tick", .every = period, .overlap = Overlap::allow_all};
  engine.schedule(options, "tick");
  while (engine.schedule_info("tick").fired < static_cast<std::uint64_t>(count)) {
    std::this_thread::sleep_for(period);
  }
}

// How many times were left out, came twice or did not run to their end.
int wrong_ticks(Engine& engine, const std::string& where) {
  engine.pause_schedule("tick");
  const ScheduleInfo info = engine.schedule_info("tick");
  std::set<std::string> ids;
  for (const FlowInfo& flow : engine.list({.type = "tick"})) ids.insert(flow.id);
  int wrong = static_cast<int>(info.skipped) + (ids.size() == info.fired ? 0 : 1);
  for (const std::string& id : ids) engine.run(id).result();
  const AtomicState<int> ticks{store(where), slot::workflow("tick", "ticks")};
  wrong += ticks.get() == static_cast<int>(ids.size()) ? 0 : 1;
  for (Instant time = info.last.value_or(Instant{}); ids.erase(flow::run_id("tick", time)) > 0;) {
    time -= period;
  }
  return wrong + static_cast<int>(ids.size());
}

// Obeys "start N" (workflows w0 to wN-1 that this process has not started), "wait N", "ticks N",
// "check N" and "end".
void serve_engine(const std::string& where, const kit::Line& line) {
  Engine engine{store(where), {.lease = lease}};
  define(engine);
  engine.recover_all();
  line.say("ready");
  for (std::optional<std::string> heard = line.hear(); heard; heard = line.hear()) {
    const int count = std::stoi(heard->substr(heard->find(' ') + 1));
    int wrong = 0;
    if (heard->starts_with("ticks")) wait_for_ticks(engine, count);
    if (heard->starts_with("check")) wrong = wrong_ticks(engine, where);
    for (int i = 0; i < count && !heard->starts_with("ticks"); ++i) {
      const std::string id = "w" + std::to_string(i);
      if (heard->starts_with("start")) {
        engine.start({.id = id, .idempotency_key = id}, "short", i);
      } else if (engine.run(id).result<int>() != i + 3) {
        ++wrong;
      }
    }
    line.say(std::to_string(wrong) + " wrong");
  }
}

class Engines {
 public:
  Engines(const std::string& where, int count) {
    for (int i = 0; i < count; ++i) {
      processes_.push_back(std::make_unique<kit::Process>(
          [where](const kit::Line& line) { serve_engine(where, line); }));
      EXPECT_EQ(processes_.back()->hear(), "ready");
    }
  }
  kit::Process& operator[](std::size_t index) { return *processes_.at(index); }

 private:
  std::vector<std::unique_ptr<kit::Process>> processes_;
};

TEST_P(FlowProcesses, GoOnAfterADeathAtAnyWrite) {
  const char* const every = std::getenv("TENURE_FLOW_EVERY");  // NOLINT(concurrency-mt-unsafe)
  if (every == nullptr && GetParam() == "etcd") GTEST_SKIP() << "on etcd with TENURE_FLOW_EVERY";
  const int few = is_server() ? 40 : 9;
  const int stride = every == nullptr ? few : std::atoi(every);  // NOLINT(cert-err34-c)
  int number = 0;
  int deaths = 0;
  // The first writes take the partitions; then come those of the workflow.
  for (int write = is_server() ? 66 : 1;; write += write < 66 ? 13 : stride) {
    bool died = false;
    for (const bool after : {false, true}) {
      ++number;
      const std::string id = "w" + std::to_string(number);
      const int first = run(url(number), id, write, after);
      died = died || first == 7;
      ASSERT_TRUE(first == 7 || first == 0) << write;
      if (first == 7) {
        ASSERT_EQ(run(url(number), id, 0, false), 0) << write << " " << after;
      }
      deaths += first == 7 ? 1 : 0;
    }
    if (!died) break;
  }
  EXPECT_GT(deaths, is_server() ? 0 : 4);
}

// On servers a dead engine's partitions are free when its lease is over.
TEST_P(FlowProcesses, ShareTheWorkAndTakeItOver) {
  Engines engine{url(), 3};
  EXPECT_EQ(engine[1].ask("start 40"), "0 wrong");
  engine[0].stop();
  engine[0].kill();  // The owner of most partitions, stopped and then killed.
  engine[1].stop();
  engine[1].go_on();
  EXPECT_EQ(engine[2].ask("wait 40"), "0 wrong");
  EXPECT_EQ(engine[1].ask("wait 40"), "0 wrong");
  engine[1].kill();
  EXPECT_EQ(engine[2].ask("wait 40"), "0 wrong");
}

// On servers the others go on without it, and it goes on by itself when it may. On SQLite it is
// alive, and keeps its work.
TEST_P(FlowProcesses, OneOfThemIsStopped) {
  Engines engine{url(), 2};
  EXPECT_EQ(engine[0].ask("start 20"), "0 wrong");
  EXPECT_EQ(engine[1].ask("start 40"), "0 wrong");
  engine[0].stop();
  if (is_server()) {
    EXPECT_EQ(engine[1].ask("wait 40"), "0 wrong");
  }
  engine[0].go_on();
  EXPECT_EQ(engine[0].ask("wait 40"), "0 wrong");
  EXPECT_EQ(engine[1].ask("wait 40"), "0 wrong");
  // The engine that was stopped runs workflows again.
  EXPECT_EQ(engine[0].ask("start 60"), "0 wrong");
  engine[1].kill();
  EXPECT_EQ(engine[0].ask("wait 60"), "0 wrong");
}

TEST_P(FlowProcesses, FourOfThemLoseTwo) {
  Engines engine{url(), 4};
  EXPECT_EQ(engine[3].ask("start 50"), "0 wrong");
  engine[0].kill();
  EXPECT_EQ(engine[1].ask("start 100"), "0 wrong");
  engine[2].stop();
  engine[3].kill();
  engine[2].go_on();
  EXPECT_EQ(engine[1].ask("wait 100"), "0 wrong");
  EXPECT_EQ(engine[2].ask("wait 100"), "0 wrong");
}

// Each time has exactly one run, whichever engines live; those that nobody could fire in time are
// caught up with.
TEST_P(FlowProcesses, FireEachTimeOfAScheduleOnce) {
  Engines engine{url(), 3};
  EXPECT_EQ(engine[1].ask("ticks 50"), "0 wrong");
  engine[0].kill();
  EXPECT_EQ(engine[2].ask("ticks 100"), "0 wrong");
  engine[1].stop();
  engine[1].go_on();
  EXPECT_EQ(engine[2].ask("ticks 150"), "0 wrong");
  engine[1].kill();
  EXPECT_EQ(engine[2].ask("ticks 250"), "0 wrong");
  EXPECT_EQ(engine[2].ask("check 0"), "0 wrong");
}

// The server ends, and comes back when the engine's lease is over: the engine opens another
// session. Row W02 of docs/museum.md.
TEST(FlowServer, W02_IsAwayForLongerThanTheLease) {
  kit::Postgres server;
  Engines engine{server.url_of("away") + "&connect_timeout=4&tcp_user_timeout=2000", 1};
  EXPECT_EQ(engine[0].ask("start 20"), "0 wrong");
  server.kill(SIGINT);
  std::this_thread::sleep_for(lease + 500ms);
  server.restart();
  EXPECT_EQ(engine[0].ask("wait 20"), "0 wrong");
  EXPECT_EQ(engine[0].ask("start 40"), "0 wrong");
  EXPECT_EQ(engine[0].ask("wait 40"), "0 wrong");
}

// During the recovery of what a dead engine left.
TEST(FlowServer, W02_RestartsDuringRecovery) {
  kit::Postgres server;
  const std::string url = server.url_of("restarts") + "&connect_timeout=4&tcp_user_timeout=2000";
  {
    Engines engine{url, 1};
    EXPECT_EQ(engine[0].ask("start 60"), "0 wrong");
    engine[0].kill();
  }
  Engines engine{url, 1};
  server.kill(SIGINT);
  server.restart();
  EXPECT_EQ(engine[0].ask("wait 60"), "0 wrong");
}

INSTANTIATE_TEST_SUITE_P(In, FlowProcesses, ::testing::Values("sqlite", "postgres", "etcd"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tenure
