// Engines in processes of their own, on SQLite: killed at writes in turn, and killed and stopped
// from outside.
//
// TENURE_FLOW_EVERY: 1 tries every write of the workflow; by default every ninth.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "space/stored/forwarding_store_test.hpp"
#include "tenure/flow.hpp"
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
  co_return value;
}

void define(Engine& engine) {
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

class FlowProcesses : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgres") schema_ = std::make_unique<kit::Schema>();
  }
  [[nodiscard]] std::string url(int number = 0) const {
    if (schema_ != nullptr) return schema_->url();
    return "sqlite:" + (directory_ / (std::to_string(number) + ".db")).string();
  }
  // A process that starts the workflow, if it is new, and waits for its end. Its exit status.
  [[nodiscard]] static int run(const std::string& where, const std::string& id, int write,
                               bool after) {
    kit::Process process{[=](const kit::Line& /*line*/) {
      std::shared_ptr<Store> inside = store(where);
      Engine engine{write == 0 ? inside : std::make_shared<Dying>(inside, write, after)};
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
};

TEST_P(FlowProcesses, GoOnAfterADeathAtAnyWrite) {
  const char* const every = std::getenv("TENURE_FLOW_EVERY");  // NOLINT(concurrency-mt-unsafe)
  const int stride = every == nullptr ? 9 : std::atoi(every);  // NOLINT(cert-err34-c)
  int number = 0;
  int deaths = 0;
  // The first writes take the partitions; then come those of the workflow.
  for (int write = 1;; write += write < 66 ? 13 : stride) {
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
  EXPECT_GT(deaths, 4);
}

// Some are killed, one is stopped and goes on later. On PostgreSQL a dead engine's partitions are
// free when its lease is over.
TEST_P(FlowProcesses, ShareTheWorkAndTakeItOver) {
  constexpr int workflows = 40;
  const std::string where = url();
  const auto engine_process = [&where](const kit::Line& line) {
    Engine engine{store(where)};
    define(engine);
    engine.recover_all();
    line.say("ready");
    for (std::optional<std::string> heard = line.hear(); heard; heard = line.hear()) {
      if (*heard == "start") {
        for (int i = 0; i < workflows; ++i) {
          engine.start({.id = "w" + std::to_string(i)}, "short", i);
        }
        line.say("started");
      } else if (*heard == "wait") {
        int wrong = 0;
        for (int i = 0; i < workflows; ++i) {
          if (engine.run("w" + std::to_string(i)).result<int>() != i + 3) ++wrong;
        }
        line.say(std::to_string(wrong) + " wrong");
      }
    }
  };
  kit::Process first{engine_process};
  ASSERT_EQ(first.hear(), "ready");
  kit::Process second{engine_process};
  ASSERT_EQ(second.hear(), "ready");
  kit::Process third{engine_process};
  ASSERT_EQ(third.hear(), "ready");
  EXPECT_EQ(second.ask("start"), "started");
  first.stop();
  first.kill();  // The owner of all partitions, stopped and then killed.
  second.stop();
  second.go_on();
  EXPECT_EQ(third.ask("wait"), "0 wrong");
  EXPECT_EQ(second.ask("wait"), "0 wrong");
  second.kill();
  EXPECT_EQ(third.ask("wait"), "0 wrong");
}

INSTANTIATE_TEST_SUITE_P(In, FlowProcesses, ::testing::Values("sqlite"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tenure
