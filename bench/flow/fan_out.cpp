// One workflow with many parallel steps.
#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"

namespace tenure::bench::flow {
namespace {

constexpr std::size_t rounds = 5;

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

}  // namespace tenure::bench::flow
