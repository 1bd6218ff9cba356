// The log of a workflow is read and the workflow runs again, because it was not in memory when a
// signal came.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <functional>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/flow/questions.hpp"
#include "bench/flow/runs.hpp"
#include "bench/program.hpp"

namespace tenure::bench::flow {
namespace {

using std::chrono_literals::operator""ms;

std::binary_semaphore ran{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
int tell() {
  ran.release();
  return 0;
}

// After each signal a step tells that the workflow is up to date.
Flow<> answers(Context& ctx) {
  while (true) {
    const int go = co_await ctx.wait_signal<int>("go");
    if (go == 0) break;
    co_await ctx.run("tell", tell);
  }
}

Flow<> one_branch(Context& ctx, int count) {
  for (int i = 0; i < count; ++i) co_await ctx.run("nothing", nothing, i);
  co_await answers(ctx);
}

Flow<> many_branches(Context& ctx, int branches, int each) {
  std::vector<std::function<Flow<int>(Context&)>> all;
  for (int b = 0; b < branches; ++b) {
    all.emplace_back([each](Context& c) -> Flow<int> {
      int sum = 0;
      for (int i = 0; i < each; ++i) sum += co_await c.run("nothing", nothing, i);
      co_return sum;
    });
  }
  co_await ctx.all(std::move(all));
  co_await answers(ctx);
}

// A thousand at a time: their results share transactions.
Flow<> long_one(Context& ctx, int thousands) {
  for (int t = 0; t < thousands; ++t) {
    std::vector<std::function<Flow<int>(Context&)>> all;
    for (int b = 0; b < 1000; ++b) {
      all.emplace_back([](Context& c) -> Flow<int> { co_return co_await c.run("n", nothing, 0); });
    }
    co_await ctx.all(std::move(all));
  }
  co_await answers(ctx);
}

// An engine that keeps no workflow in memory that waits.
class Forgetful {
 public:
  explicit Forgetful(const std::string& url) : engine_(store(url), options()) {
    engine_.define("one-branch", one_branch);
    engine_.define("many-branches", many_branches);
    engine_.define("long-one", long_one);
  }
  [[nodiscard]] Engine& get() noexcept { return engine_; }

  // Returns when the workflow waits for its signal, outside memory.
  void settle(const std::string& id, std::size_t entries) {
    while (engine_.history(id, static_cast<std::uint32_t>(entries - 1), 1).empty() ||
           engine_.resident() > 0) {
      std::this_thread::sleep_for(5ms);
    }
  }
  // Nanoseconds from a signal to the step that follows it.
  double replay(const std::string& id) {
    while (engine_.resident() > 0) std::this_thread::sleep_for(1ms);
    const auto start = std::chrono::steady_clock::now();
    engine_.signal(id, "go", 1);
    ran.acquire();
    return nanoseconds_since(start);
  }

 private:
  static EngineOptions options() {
    EngineOptions options;
    options.resident = 0;
    options.durability = Durability::relaxed;
    return options;
  }
  Engine engine_;
};

double peak_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  }
  throw std::runtime_error("/proc/self/status has no VmHWM");
}

Samples in_ms(Samples samples) {
  for (double& sample : samples) sample /= 1e6;
  return samples;
}

// What a process of its own needs to bring that workflow back: its peak in bytes, and nanoseconds.
std::pair<double, double> brought_back(const std::string& url, const std::string& id) {
  const std::vector<double> figures = in_a_process([&] {
    Forgetful engine{url};
    engine.get().recover_all();
    const double time = engine.replay(id);
    return std::vector{peak_bytes(), time};
  });
  return {figures.at(0), figures.at(1)};
}

}  // namespace

void ask_replay(Report& report) {
  const auto count = report.effort().of(51'200, 1000);
  const std::size_t branches = report.effort().of(1'000, 10);
  Forgetful engine{sqlite_url("replay")};
  const Run one = engine.get().start("one-branch", count);
  const Run many = engine.get().start("many-branches", branches, count / branches);
  engine.settle(one.id(), count);
  engine.settle(many.id(), count / branches * branches);
  Race race{report.effort()};
  const auto of_one = race.add_round([&] { return engine.replay(one.id()); });
  const auto of_many = race.add_round([&] { return engine.replay(many.id()); });
  race.run(20);
  const double time = spread_of(race[of_one]).low;  // No ratio: what the machine does else counts.
  report.figure("51,200 entries, with their signal", time / 1e6, "ms", at_most(50));
  report.figure("entries per second", 1e9 * static_cast<double>(count) / time, "/s",
                at_least(1'000'000));
  report.compare("51,200 entries in 1,000 branches", {"", in_ms(race[of_many]), "ms"},
                 {"in one", in_ms(race[of_one]), "ms"}, at_most(1.5));
}

void ask_long_history(Report& report) {
  const std::string url = sqlite_url("long");
  const std::size_t thousands = report.effort().of(1'000, 3);
  std::string short_id = "short";
  std::string long_id = "long";
  // In a process of its own: what it leaves in memory is not measured.
  static_cast<void>(in_a_process([&] {
    Forgetful engine{url};
    engine.get().start({.id = short_id}, "long-one", 1);
    engine.get().start({.id = long_id}, "long-one", thousands);
    engine.settle(short_id, 1'000);
    const auto start = std::chrono::steady_clock::now();
    engine.settle(long_id, 1'000 * thousands);
    return std::vector{nanoseconds_since(start)};
  }));
  const double small = brought_back(url, short_id).first;
  const auto [large, slow] = brought_back(url, long_id);
  const auto entries = static_cast<double>(1'000 * thousands);
  report.figure("replay of a million entries", slow / 1e9, "s");
  report.figure("entries per second", 1e9 * entries / slow, "/s");
  report.figure("memory beyond that for 1,000 entries", (large - small) / 1e6, "MB", at_most(4));
}

}  // namespace tenure::bench::flow
