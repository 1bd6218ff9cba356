// Workflows of ten steps that do nothing. Rival: a loop of one synced transaction of a single row,
// in the same run and on a store of the same kind. README.md has the bars.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <string>
#include <vector>

#include "bench/flow_schedules.hpp"
#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "tenure/flow.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::bench {
namespace {

constexpr int steps = 10;

int nothing(int i) { return i; }

Flow<int> ten_steps(Context& ctx) {
  int sum = 0;
  for (int i = 0; i < steps; ++i) sum += co_await ctx.run("nothing", nothing, i);
  co_return sum;
}

Flow<int> many_steps(Context& ctx, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await ctx.run("nothing", nothing, i);
  co_await ctx.wait_signal<int>("go");
  co_return sum;
}

Flow<int> many_branches(Context& ctx, int branches, int each) {
  std::vector<std::function<Flow<int>(Context&)>> all;
  for (int b = 0; b < branches; ++b) {
    all.emplace_back([each](Context& c) -> Flow<int> {
      int sum = 0;
      for (int i = 0; i < each; ++i) sum += co_await c.run("nothing", nothing, i);
      co_return sum;
    });
  }
  co_await ctx.all(std::move(all));
  co_await ctx.wait_signal<int>("go");
  co_return 0;
}

Flow<> sleeps(Context& ctx) { co_await ctx.sleep(std::chrono::hours{1}); }

double nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// Nanoseconds per synced transaction of one row.
double loop_ns(Store& store, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    Txn put;
    put.durability = Durability::full;
    put.writes.push_back(Write::put("row/" + std::to_string(i % 100), std::string(60, 'x')));
    static_cast<void>(store.apply(put));
  }
  return nanoseconds_since(start) / static_cast<double>(count);
}

// So many at a time; each end starts the next.
class Runs {
 public:
  Runs(Engine& engine, std::size_t depth) : engine_(engine), depth_(depth) {}
  // Nanoseconds per step.
  double run(std::size_t workflows) {
    left_ = static_cast<std::int64_t>(workflows);
    const std::size_t first = std::min(depth_, workflows);
    under_way_ = first;
    left_ -= static_cast<std::int64_t>(first);
    finished_ = {};
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < first; ++i) begin();
    finished_.get_future().get();
    return nanoseconds_since(start) / static_cast<double>(workflows * steps);
  }

 private:
  void begin() {
    engine_.start_then(
        [this](std::optional<Run> run, const std::exception_ptr& error) {
          if (error) std::terminate();
          run->then([this](const FlowInfo& info) {
            if (info.result != "45") std::terminate();
            if (left_.fetch_sub(1) > 0) {
              begin();
            } else if (under_way_.fetch_sub(1) == 1) {
              finished_.set_value();
            }
          });
        },
        {}, "ten-steps");
  }
  Engine& engine_;
  const std::size_t depth_;
  std::atomic<std::int64_t> left_{0};
  std::atomic<std::size_t> under_way_{0};
  std::promise<void> finished_;
};

std::string sqlite_url(const kit::TemporaryDirectory& directory, std::string_view name) {
  return "sqlite:" + (directory / (std::string{name} + ".db")).string();
}

void ask_steps(Report& report) {
  const kit::TemporaryDirectory directory;
  const std::shared_ptr<Store> rows = store(sqlite_url(directory, "loop"));
  const std::size_t rounds = report.effort().of(5, 1);
  for (const auto& [depth, bar] :
       {std::pair{1U, 0.75}, std::pair{50U, 10.0}, std::pair{500U, 25.0}}) {
    Engine engine{store(sqlite_url(directory, "flow" + std::to_string(depth)))};
    engine.define("ten-steps", ten_steps);
    Runs runs{engine, depth};
    runs.run(report.effort().of(depth, 2));
    const std::size_t workflows = report.effort().of(depth == 1 ? 50 : 1000, 5);
    Samples loop;
    Samples ours;
    for (std::size_t i = 0; i < rounds; ++i) {
      loop.push_back(loop_ns(*rows, report.effort().of(500, 5)));
      ours.push_back(runs.run(workflows));
    }
    report.compare("step, " + std::to_string(depth) + " workflows at a time",
                   {.name = "flow", .samples = ours}, {.name = "synced row", .samples = loop},
                   at_most(1 / bar));
    report.figure("steps per second", 1e9 / spread_of(ours).median, "/s");
  }
}

// The log is read and the workflow runs again when it is asked for after an eviction.
void ask_replay(Report& report) {
  const kit::TemporaryDirectory directory;
  const auto count = static_cast<int>(report.effort().of(51'200, 100));
  EngineOptions options;
  options.resident = 0;
  options.durability = Durability::relaxed;
  Engine engine{store(sqlite_url(directory, "replay")), options};
  engine.define("many-steps", many_steps);
  engine.define("many-branches", many_branches);
  const auto replay = [&](const tenure::Run& run) {
    while (engine.history(run.id(), static_cast<std::uint32_t>(count - 1)).empty() ||
           engine.resident() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    const auto start = std::chrono::steady_clock::now();
    engine.signal(run.id(), "go", 1);
    run.result();
    return nanoseconds_since(start) / count;
  };
  const Samples one{replay(engine.start("many-steps", count))};
  report.figure("entry of a log of 51,200, with its signal and its end", one.front(), "ns",
                at_most(1000));
  const Samples many{replay(engine.start("many-branches", count / 50, 50))};
  report.compare("entry of branches", {.name = "1,000 branches", .samples = many},
                 {.name = "one", .samples = one}, at_most(1.5));
}

void ask_sleepers(Report& report) {
  const kit::TemporaryDirectory directory;
  const std::string url = sqlite_url(directory, "sleepers");
  const std::size_t count = report.effort().of(100'000, 100);
  EngineOptions options;
  options.durability = Durability::relaxed;
  {
    Engine engine{store(url), options};
    engine.define("sleeps", sleeps);
    const auto start_many = [&](std::size_t many) {
      std::atomic<std::size_t> left{many};
      std::promise<void> all;
      for (std::size_t i = 0; i < many; ++i) {
        engine.start_then(
            [&](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
              if (error) std::terminate();
              if (left.fetch_sub(1) == 1) all.set_value();
            },
            {}, "sleeps");
      }
      all.get_future().get();
    };
    start_many(count / 10);
    const double before = resident_bytes();
    start_many(count - (count / 10));
    report.figure("resident memory per sleeper beyond the first tenth",
                  (resident_bytes() - before) / static_cast<double>(count), "bytes", at_most(1));
  }
  const auto start = std::chrono::steady_clock::now();
  Engine engine{store(url), options};
  engine.define("sleeps", sleeps);
  engine.recover_all();
  report.figure("start of an engine on that store", nanoseconds_since(start) / 1e6, "ms",
                at_most(100));
}

Flow<> admitted(Context& ctx) { co_await ctx.wait_signal<int>("never"); }

void ask_admission(Report& report) {
  const kit::TemporaryDirectory directory;
  EngineOptions options;
  options.durability = Durability::relaxed;
  Engine engine{store(sqlite_url(directory, "admission")), options};
  engine.define("admitted", admitted, {.concurrency = {.max = 200'000}});
  const auto start_and_end = [&](std::size_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      const tenure::Run run = engine.start("admitted");
      engine.terminate(run.id());
      try {
        run.result();
      } catch (const WorkflowFailed&) {
      }
    }
    return nanoseconds_since(start) / static_cast<double>(count);
  };
  const auto fill = [&](std::size_t count) {
    std::atomic<std::size_t> left{count};
    std::promise<void> all;
    for (std::size_t i = 0; i < count; ++i) {
      engine.start_then(
          [&](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
            if (error) std::terminate();
            if (left.fetch_sub(1) == 1) all.set_value();
          },
          {}, "admitted");
    }
    all.get_future().get();
  };
  fill(10);
  Samples few;
  Samples many;
  const std::size_t rounds = report.effort().of(5, 1);
  for (std::size_t i = 0; i < rounds; ++i) few.push_back(start_and_end(report.effort().of(200, 2)));
  fill(report.effort().of(100'000, 100));
  for (std::size_t i = 0; i < rounds; ++i)
    many.push_back(start_and_end(report.effort().of(200, 2)));
  report.compare("start and end of a limited workflow",
                 {.name = "100,000 running", .samples = many},
                 {.name = "10 running", .samples = few}, at_most(1.2));
}

constexpr Question questions[] = {
    // NOLINT(modernize-avoid-c-arrays)
    {"flow-steps", "1,000 workflows of ten steps that do nothing, each result synced", ask_steps},
    {"flow-replay", "the cost of an entry when a workflow is replayed", ask_replay},
    {"flow-sleepers", "100,000 workflows that sleep", ask_sleepers},
    {"flow-admission", "starts and ends under a concurrency limit", ask_admission},
    {"flow-idle-schedules", "10,000 schedules that are not due", ask_idle_schedules},
    {"flow-firing", "a firing of a schedule beside a start", ask_firing},
    {"flow-queue", "100,000 starts that wait for one place", ask_queue},
};

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  return tenure::bench::run_program(argc, argv, tenure::bench::questions);
}
