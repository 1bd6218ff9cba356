// Random graphs with random failures, timeouts, pauses, cancels, adds and removes, on threads. The
// seed is printed; TENURE_SEED=N runs one again, TENURE_SEEDS=N runs more.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/deque.hpp"
#include "tenure/pipeline.hpp"
#include "tenure/space.hpp"

namespace tenure::pipeline {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr std::size_t most_tasks = 600;

// Takes a moment. Not yield(): on a busy machine that takes as long as everybody else wants.
void spin(std::uint64_t times) {
  for (std::uint64_t i = 0; i < times * 50; ++i)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

// What is observed: every start and end of every task, checked against the rules.
class Witness final : public PipelineObserver {
 public:
  struct Task {
    std::atomic<int> starts{0};
    std::atomic<int> retries{0};
    std::atomic<int> ends{0};
    std::atomic<bool> inside{false};
    std::atomic<TaskEnd> end{TaskEnd::cancelled};
    std::vector<TaskId> needs;  // Set before it is added.
    std::atomic<bool> known{false};
  };
  void started(TaskId task, unsigned attempt) override {
    Task& own = tasks[task.value];
    EXPECT_EQ(own.starts++, static_cast<int>(attempt));
    EXPECT_EQ(own.ends, 0);
    EXPECT_FALSE(own.inside.exchange(true));
    if (own.known) {
      for (const TaskId needed : own.needs) {
        const Task& other = tasks[needed.value];
        EXPECT_TRUE(other.ends == 1 &&
                    (other.end == TaskEnd::done || other.end == TaskEnd::skipped))
            << "task " << task.value << " started before " << needed.value;
      }
    }
    if (throws) throw std::runtime_error("observer");
  }
  void retries(TaskId task, unsigned /*attempt*/, std::chrono::nanoseconds /*delay*/) override {
    tasks[task.value].inside = false;
    ++tasks[task.value].retries;
  }
  void ended(TaskId task, TaskEnd end) override {
    Task& own = tasks[task.value];
    own.end = end;
    own.inside = false;
    EXPECT_EQ(own.ends++, 0) << "task " << task.value << " ended twice";
    if (throws) throw std::runtime_error("observer");
  }
  std::vector<Task> tasks{most_tasks};
  bool throws = false;
};

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed), space_(open("local:")) {
    PipelineOptions options{.concurrency = static_cast<unsigned>(1 + below(6)), .seed = seed};
    options.membarrier = below(2) == 0;
    concurrency_ = options.concurrency;
    pipeline_ = std::make_unique<Pipeline>(std::move(options));
    witness_.throws = below(4) == 0;
    pipeline_->observe(&witness_);
  }

  void run() {
    const std::uint64_t count = below(300);
    for (std::uint64_t i = 0; i < count; ++i) add(random_());
    const std::uint64_t own = random_();
    std::jthread controller{[&, own](const std::stop_token& stop) { control(stop, own); }};
    const PipelineResult result = pipeline_->run();
    controller.request_stop();
    controller.join();
    check(result);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  // May run on several threads; `size_` is only an estimate of the ids that there are.
  void add(std::uint64_t seed) {
    std::mt19937_64 random{seed};
    if (adds_.fetch_add(1) >= most_tasks) return;
    const std::uint32_t size = size_.load();
    TaskOptions options;
    for (std::uint64_t i = random() % 4; i-- > 0 && size > 0;) {
      options.after.push_back({static_cast<std::uint32_t>(random() % size)});
    }
    if (random() % 4 == 0) options.timeout = std::chrono::microseconds{1 + (random() % 2000)};
    if (random() % 3 == 0) {
      options.retry = {.max = static_cast<unsigned>(random() % 4),
                       .base = std::chrono::microseconds{random() % 200}};
    }
    if (random() % 8 == 0) {
      options.claims = {Path::of(random() % 3)};
      options.locker = space_;
    }
    const std::vector<TaskId> needs = options.after;
    try {
      const std::string name = "t" + std::to_string(seed);
      const TaskId id = pipeline_->add(
          name, [this, seed](const TaskContext& context) { body(context, seed); }, options);
      witness_.tasks[id.value].needs = needs;
      if (!running_) witness_.tasks[id.value].known = true;
      std::uint32_t seen = size_.load();
      while (seen < id.value + 1 && !size_.compare_exchange_weak(seen, id.value + 1)) {
      }
    } catch (const BadRequest&) {
      // The run has ended.
    }
  }

  void body(const TaskContext& context, std::uint64_t seed) {
    running_ = true;
    std::mt19937_64 random{seed + context.attempt()};
    const int now = ++inside_;
    EXPECT_LE(now, 6);
    EXPECT_FALSE(cancelled_) << "a task runs after cancel() returned";
    spin(random() % 50);
    if (random() % 16 == 0) {
      // Until it is told to stop, but never for ever: the task may have no timeout.
      for (int i = 0; i < 2000 && !context.stop_requested(); ++i) spin(20);
    }
    if (random() % 12 == 0) add(random());
    if (random() % 20 == 0) {
      pipeline_->remove(TaskId{static_cast<std::uint32_t>(random() % std::max(1U, size_.load()))},
                        random() % 2 == 0 ? Dependents::skip : Dependents::release);
    }
    --inside_;
    if (random() % 5 == 0) throw std::runtime_error("broken");
  }

  void control(const std::stop_token& stop, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    for (int i = 0; i < 200 && !stop.stop_requested(); ++i) {
      switch (random() % 12) {
        case 0: {
          pipeline_->pause();
          const int starts = total_starts();
          spin(1000);
          // started() may be told after the start: one per worker at most.
          EXPECT_LE(total_starts(), starts + 6);
          pipeline_->resume();
          break;
        }
        case 1: pipeline_->set_concurrency(static_cast<unsigned>(1 + (random() % 6))); break;
        case 2: add(random()); break;
        case 3:
          pipeline_->remove(
              TaskId{static_cast<std::uint32_t>(random() % std::max(1U, size_.load()))});
          break;
        case 4:
          if (random() % 20 == 0) {
            pipeline_->cancel(random() % 2 == 0 ? Running::stop : Running::finish);
            EXPECT_EQ(inside_.load(), 0) << "a task runs after cancel() returned";
            cancelled_ = true;
          }
          break;
        default: spin(200); break;
      }
    }
  }

  int total_starts() const {
    int sum = 0;
    for (const Witness::Task& task : witness_.tasks) sum += task.starts;
    return sum;
  }

  void check(const PipelineResult& result) {
    EXPECT_EQ(inside_.load(), 0);
    EXPECT_TRUE(space_.inspect().empty());
    std::size_t all = 0;
    for (const TaskEnd end :
         {TaskEnd::done, TaskEnd::failed, TaskEnd::blocked, TaskEnd::skipped, TaskEnd::cancelled}) {
      for (const TaskId task : result.tasks(end)) {
        ++all;
        const Witness::Task& seen = witness_.tasks[task.value];
        EXPECT_EQ(seen.ends, 1) << "task " << task.value;
        EXPECT_EQ(seen.end.load(), end);
        EXPECT_EQ(result.cause(task).has_value(), end == TaskEnd::blocked);
        if (end == TaskEnd::blocked) {
          EXPECT_EQ(result.end(*result.cause(task)), TaskEnd::failed);
        }
        EXPECT_EQ(result.error(task) != nullptr, end == TaskEnd::failed);
        if (end == TaskEnd::done) {
          EXPECT_EQ(seen.starts, seen.retries + 1);
        }
      }
    }
    EXPECT_GE(all, size_.load());
    EXPECT_EQ(witness_.throws && all > 0, result.observer_errors() > 0);
  }

  std::mt19937_64 random_;
  Space space_;
  unsigned concurrency_ = 1;
  Witness witness_;
  std::unique_ptr<Pipeline> pipeline_;
  std::atomic<std::size_t> adds_{0};
  std::atomic<std::uint32_t> size_{0};
  std::atomic<int> inside_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> running_{false};
};

TEST(Crew, RandomGraphsOnThreads) {
  const std::uint64_t first = from_environment("TENURE_SEED", 1);
  const std::uint64_t count =
      from_environment("TENURE_SEEDS", std::getenv("TENURE_SEED") != nullptr ? 1 : 60);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("TENURE_SEED=" + std::to_string(seed));
    Storm{seed}.run();
    if (HasFailure()) break;
  }
}

// Every task is taken exactly once, whoever takes it.
TEST(Crew, DequeGivesEachTaskToOneThread) {
  for (const bool membarrier : {true, false}) {
    Deque deque{base::AsymmetricFence{membarrier}};
    constexpr std::uint32_t count = 20'000;
    std::vector<std::atomic<int>> taken(count);
    std::atomic<bool> over{false};
    std::vector<std::jthread> thieves;
    for (int i = 0; i < 2; ++i) {
      thieves.emplace_back([&] {
        while (!over) {
          if (const auto task = deque.steal()) {
            ++taken[*task];
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    for (std::uint32_t i = 0; i < count;) {
      for (int n = 0; n < 3 && i < count; ++n) deque.push(i++);
      for (int n = 0; n < 2; ++n) {
        if (const auto task = deque.take()) ++taken[*task];
      }
    }
    while (const auto task = deque.take()) ++taken[*task];
    while (!deque.empty()) std::this_thread::yield();
    over = true;
    thieves.clear();
    EXPECT_TRUE(std::ranges::all_of(taken, [](const auto& times) { return times == 1; }));
  }
}

// Problem 8: an end that races with another one counts once. Failure of one dependency against the
// end of the other, and removal against both.
TEST(Crew, SeedProblem8ATaskEndsOnce) {
  for (int round = 0; round < 300; ++round) {
    Pipeline pipeline{{.concurrency = 3}};
    pipeline.add("a", [] { throw std::runtime_error("broken"); });
    pipeline.add("b", [] {});
    const TaskId c = pipeline.add("c", [] {}, {.needs = {"a", "b"}});
    pipeline.add("d", [&] { pipeline.remove("c"); });
    const PipelineResult result = pipeline.run();
    EXPECT_TRUE(result.end(c) == TaskEnd::blocked || result.end(c) == TaskEnd::skipped);
    EXPECT_EQ(result.count(TaskEnd::done), 2U);
  }
}

}  // namespace
}  // namespace tenure::pipeline
