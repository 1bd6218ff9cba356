// One workflow with many parallel steps, and many signals to one workflow.
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/stored/questions.hpp"

namespace tenure::bench::flow {
namespace {

constexpr std::size_t rounds = 5;
constexpr std::size_t senders = 50;

Flow<int> fans(Context& ctx, int count) {
  struct Branch {
    int number;
    Flow<int> operator()(Context& inside) const {
      co_return co_await inside.run("nothing", nothing, number);
    }
  };
  std::vector<Branch> branches;
  for (int i = 0; i < count; ++i) branches.push_back({i});
  const std::vector<int> results = co_await ctx.all(branches);
  co_return static_cast<int>(results.size());
}

// Nanoseconds per step of workflows one after another.
double fan_out(Engine& engine, std::size_t workflows, std::size_t steps) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < workflows; ++i) {
    engine.start("fans", static_cast<int>(steps)).result<int>();
  }
  return nanoseconds_since(start) / static_cast<double>(workflows * steps);
}

Flow<int> takes(Context& ctx, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await ctx.wait_signal<int>("number");
  co_return sum;
}

// Nanoseconds per signal, until the workflow has taken all.
double signals(Engine& engine, std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  const Run run = engine.start("takes", static_cast<int>(count));
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < senders; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < count; i += senders) engine.signal(run.id(), "number", 1);
    });
  }
  if (run.result<int>() != static_cast<int>(count)) throw Error("signals were lost or doubled");
  return nanoseconds_since(start) / static_cast<double>(count);
}

}  // namespace

void ask_fan_out(Report& report) {
  Engine engine{store(sqlite_url("fan-out"))};
  engine.define("fans", fans);
  const std::size_t many = report.effort().of(10'000, 100);
  const std::size_t workflows = report.effort().of(50, 2);
  fan_out(engine, workflows, 10);  // Warm.
  Race race{report.effort()};
  const auto wide = race.add_round([&] { return fan_out(engine, 1, many); });
  const auto narrow = race.add_round([&] { return fan_out(engine, workflows, 10); });
  race.run(rounds);
  report.compare("a step of 10,000 in parallel", {"", race[wide], "ns"},
                 {"one of 10", race[narrow], "ns"}, at_most(1.5));
}

void ask_signals(Report& report) {
  Engine engine{store(sqlite_url("signals"))};
  engine.define("takes", takes);
  Runs runs{sqlite_url("flow"), senders};
  const std::size_t count = report.effort().of(10'000, 100);
  const std::size_t workflows = report.effort().of(1000, 5);
  runs.run(workflows);  // Warm.
  Race race{report.effort()};
  const auto ours = race.add_round([&] { return signals(engine, count); });
  const auto steps = race.add_round([&] { return runs.run(workflows); });
  race.run(rounds);
  report.compare("signals to one workflow", {"", stored::a_second(race[ours]), "/s"},
                 {"steps, 50 at a time", stored::a_second(race[steps]), "/s"}, at_least(0.5));
}

}  // namespace tenure::bench::flow
