// The driver for commands, in seeded simulation with virtual time. TENURE_SEED=N runs one seed
// again, TENURE_SEEDS=N runs more.
#include "pipeline/loop.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "pipeline/simulation_test.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {
namespace {

using Kind = Runner::Report::Kind;
using Time = SimulatedRunner::Time;

struct Fixture {
  Plan plan;
  SimulatedRunner runner;
  std::optional<Loop> loop;

  Index add(const std::vector<Index>& needs = {}, float estimate = 1) {
    const Index task = plan.append({});
    for (const Index needed : needs) plan.need(task, needed);
    plan.estimate(task, estimate);
    return task;
  }
  Loop& start(const Loop::Options& options = {}) {
    std::vector<Index> roots = plan.seal([](Index task) { return std::to_string(task); });
    return loop.emplace(plan, runner, std::move(roots), options);
  }
  std::string ends() {
    std::string text;
    for (Index task = 0; task < plan.size(); ++task) {
      text += (task == 0 ? "" : " ") + std::string{text_of(runner.seen(task).end)};
    }
    return text;
  }
};

TEST(Loop, StrictPriority) {
  Fixture all;
  std::vector<Index> order;
  all.runner.on_start = [&](Index task) { order.push_back(task); };
  all.add({}, 1);                     // 0
  const Index head = all.add({}, 2);  // 1
  all.add({head}, 5);                 // 2
  all.add({}, 6);                     // 3
  all.start().run();
  EXPECT_EQ(order, (std::vector<Index>{1, 3, 2, 0}));
  EXPECT_EQ(all.ends(), "done done done done");
}

TEST(Loop, FailureBlocksAndOthersGoOn) {
  Fixture all;
  const Index bad = all.add();
  const Index next = all.add({bad});
  all.add({next});
  all.add();
  all.runner.attempt = [&](Index task, unsigned) {
    return SimulatedRunner::Attempt{.outcome = task == bad ? Kind::failed : Kind::done};
  };
  all.start().run();
  EXPECT_EQ(all.ends(), "failed blocked blocked done");
  EXPECT_EQ(all.plan.word(2).high(), bad);
}

TEST(Loop, WithoutKeepGoingNothingStartsAfterAFailure) {
  Fixture all;
  all.add({}, 9);
  all.add({}, 8);
  all.add({0});
  all.add();
  all.runner.attempt = [&](Index task, unsigned) {
    return SimulatedRunner::Attempt{.takes = Time{task == 1 ? 50 : 1},
                                    .outcome = task == 0 ? Kind::failed : Kind::done};
  };
  all.start({.concurrency = 2, .keep_going = false}).run();
  EXPECT_EQ(all.ends(), "failed done blocked cancelled");
}

TEST(Loop, TaskWithNothingToDoKeepsNobodyWaiting) {
  Fixture all;
  all.add();
  all.add({0});
  all.runner.attempt = [&](Index task, unsigned) {
    return SimulatedRunner::Attempt{.outcome = task == 0 ? Kind::skipped : Kind::done};
  };
  all.start().run();
  EXPECT_EQ(all.ends(), "skipped done");
}

TEST(Loop, DoneTasksDoNotStart) {
  Fixture all;
  all.add();
  all.add({0});
  Loop& loop = all.start();
  loop.set_done(0);
  loop.run();
  EXPECT_EQ(all.runner.seen(0).starts, 0U);
  EXPECT_EQ(all.ends(), "done done");
}

TEST(Loop, TimeoutAndRetryFreeTheSlotMeanwhile) {
  Fixture all;
  all.add({}, 9);
  all.add();
  all.runner.attempt = [&](Index task, unsigned attempt) {
    return SimulatedRunner::Attempt{.takes = Time{task == 0 && attempt == 0 ? 1000 : 1}};
  };
  Loop& loop = all.start();
  loop.set_terms(0, {.timeout = Time{100}, .retry = {.max = 1, .base = Time{1000}}});
  loop.run();
  EXPECT_EQ(all.ends(), "done done");
  EXPECT_EQ(all.runner.seen(0).starts, 2U);
  EXPECT_EQ(all.runner.most(), 1U);
  EXPECT_LT(all.runner.seen(1).ended_at, all.runner.seen(0).ended_at);
}

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed) {}

  void run() {
    concurrency_ = 1 + below(5);
    for (std::uint64_t i = below(120); i-- > 0;) add_first();
    std::vector<Index> roots = plan_.seal([](Index task) { return std::to_string(task); });
    runner_.attempt = [&](Index, unsigned) { return any_attempt(); };
    runner_.claim_takes = [&](Index) -> std::optional<Time> {
      if (below(6) != 0) return std::nullopt;
      return Time{below(50)};
    };
    runner_.meanwhile = [&] { meanwhile(); };
    runner_.on_start = [&](Index task) { on_start(task); };
    loop_.emplace(plan_, runner_, std::move(roots),
                  Loop::Options{.concurrency = static_cast<unsigned>(concurrency_),
                                .seed = random_(),
                                .keep_going = below(5) != 0});
    for (Index task = 0; task < plan_.size(); ++task) set_terms(task);
    loop_->run();
    check();
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  SimulatedRunner::Attempt any_attempt() {
    const std::uint64_t dice = below(10);
    return {.takes = Time{below(100)},
            .outcome = dice < 2    ? Kind::failed
                       : dice == 2 ? Kind::skipped
                                   : Kind::done};
  }
  void add_first() {
    const auto size = static_cast<Index>(plan_.size());
    const Index task = plan_.append({});
    needs_.emplace_back();
    for (std::uint64_t n = below(4); n-- > 0 && size > 0;) {
      needs_[task].push_back(static_cast<Index>(below(size)));
      plan_.need(task, needs_[task].back());
    }
  }
  void set_terms(Index task) {
    Terms terms;
    if (below(3) == 0) terms.timeout = Time{1 + below(80)};
    if (below(3) == 0) terms.retry = {.max = static_cast<unsigned>(below(4)), .base = Time{50}};
    loop_->set_terms(task, terms);
  }
  void meanwhile() {
    if (paused_for_ > 0 && --paused_for_ == 0) loop_->resume();
    switch (below(60)) {
      case 0:
        loop_->pause();
        paused_for_ = 1 + below(5);
        break;
      case 1: loop_->set_concurrency(static_cast<unsigned>(1 + below(5))); break;
      case 2: {
        if (plan_.size() == 0) break;
        const auto size = static_cast<Index>(plan_.size());
        const Index task = plan_.append({});
        needs_.emplace_back();
        for (std::uint64_t n = below(3); n-- > 0;) {
          needs_[task].push_back(static_cast<Index>(below(size)));
        }
        loop_->add(task, needs_[task]);
        break;
      }
      case 3:
        if (plan_.size() != 0) {
          loop_->remove(static_cast<Index>(below(plan_.size())),
                        below(2) == 0 ? Dependents::skip : Dependents::release);
        }
        break;
      case 4:
        if (below(8) == 0) loop_->cancel(below(2) == 0 ? Running::stop : Running::finish);
        break;
      default: break;
    }
  }
  void on_start(Index task) {
    EXPECT_FALSE(loop_->paused()) << "a task starts while paused";
    EXPECT_FALSE(loop_->cancelling()) << "a task starts after cancel";
    for (const Index needed : needs_[task]) {
      const SimulatedRunner::Seen& other = runner_.seen(needed);
      EXPECT_TRUE(other.ends == 1 && (other.end == TaskEnd::done || other.end == TaskEnd::skipped));
    }
  }
  void check() {
    EXPECT_EQ(runner_.running(), 0U);
    for (Index task = 0; task < plan_.size(); ++task) {
      const SimulatedRunner::Seen& seen = runner_.seen(task);
      EXPECT_EQ(seen.ends, 1U) << "task " << task;
      EXPECT_FALSE(seen.claims) << "task " << task << " kept its claims";
      if (seen.end == TaskEnd::blocked) {
        EXPECT_EQ(runner_.seen(plan_.word(task).high()).end, TaskEnd::failed);
        EXPECT_EQ(seen.starts, 0U);
      }
    }
  }

  std::mt19937_64 random_;
  std::uint64_t concurrency_ = 1;
  std::uint64_t paused_for_ = 0;
  Plan plan_;
  SimulatedRunner runner_;
  std::optional<Loop> loop_;
  std::vector<std::vector<Index>> needs_;
};

TEST(Loop, RandomGraphsInSimulation) {
  const char* const one = std::getenv("TENURE_SEED");    // NOLINT(concurrency-mt-unsafe)
  const char* const many = std::getenv("TENURE_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const std::uint64_t count = many != nullptr  ? std::strtoull(many, nullptr, 10)
                              : one != nullptr ? 1
                                               : 1000;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("TENURE_SEED=" + std::to_string(seed));
    Storm{seed}.run();
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tenure::pipeline
