// Real graphs of packages: the workspaces of two public repositories, one of them with the optional
// dependencies that make a cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "pipeline/simulation_test.hpp"
#include "tenure/error.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/source_file.hpp"

namespace tenure::pipeline {
namespace {

using Graph = std::map<std::string, std::vector<std::string>>;

Graph read_graph(const std::string& name) {
  std::ifstream file{kit::directory_of(__FILE__) / "graphs" / name};
  return nlohmann::json::parse(file).get<Graph>();
}

TEST(Graphs, MuseumS20CyclicOneIsRefusedWithItsCycle) {
  Pipeline pipeline;
  const Graph graph = read_graph("genkit-js-optional-cyclic.json");
  for (const auto& [name, needs] : graph) pipeline.add(name, [] { FAIL(); }, {.needs = needs});
  const std::string text = kit::message_of<BadRequest>([&] { pipeline.run(); });
  EXPECT_TRUE(text.starts_with("tasks need each other in a cycle: ")) << text;
  // Each step of the printed cycle is in the file.
  std::vector<std::string> names;
  std::string rest = text.substr(text.find(": ") + 2);
  rest = rest.substr(0, rest.rfind(": remove"));
  for (std::size_t at = 0; (at = rest.find(" needs ")) != std::string::npos;
       rest = rest.substr(at + 7)) {
    names.push_back(rest.substr(0, at));
  }
  names.push_back(rest);
  ASSERT_GE(names.size(), 2U);
  EXPECT_EQ(names.front(), names.back());
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    ASSERT_TRUE(graph.contains(names[i])) << names[i];
    EXPECT_TRUE(std::ranges::count(graph.at(names[i]), names[i + 1])) << text;
  }
}

TEST(Graphs, OrderIsRespectedOnThreads) {
  for (const char* const file : {"genkit-js.json", "gutenberg.json"}) {
    Pipeline pipeline{{.concurrency = 3}};
    const Graph graph = read_graph(file);
    std::map<std::string, std::atomic<bool>> ended;
    for (const auto& [name, needs] : graph) ended[name] = false;
    for (const auto& [name, needs] : graph) {
      const auto body = [&ended, &own = name, &all = needs] {
        for (const std::string& needed : all) EXPECT_TRUE(ended.at(needed)) << own;
        ended.at(own) = true;
      };
      pipeline.add(name, body, {.needs = needs});
    }
    EXPECT_TRUE(pipeline.run().ok());
  }
}

// A schedule of a graph with known durations.
class Schedule {
 public:
  Schedule(const Graph& graph, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::map<std::string, Index> index;
    for (const auto& [name, needs] : graph) {
      index[name] = static_cast<Index>(times_.size());
      times_.push_back(static_cast<double>(1 + (random() % 1000)));
    }
    for (const auto& [name, needs] : graph) {
      std::vector<Index>& own = needs_.emplace_back();
      for (const std::string& needed : needs) own.push_back(index[needed]);
    }
    heads_.resize(times_.size());
    tails_.resize(times_.size());
    levels_.resize(times_.size());
    for (std::size_t round = 0; round < times_.size(); ++round) {  // Until nothing changes.
      for (Index task = 0; task < times_.size(); ++task) {
        for (const Index needed : needs_[task]) {
          heads_[task] = std::max(heads_[task], heads_[needed] + times_[needed]);
          tails_[needed] = std::max(tails_[needed], tails_[task] + times_[task]);
          levels_[task] = std::max(levels_[task], levels_[needed] + 1);
        }
      }
    }
  }

  // What the loop needs, with the durations as estimates.
  [[nodiscard]] double makespan(unsigned jobs) const {
    Plan plan;
    SimulatedRunner runner;
    for (Index task = 0; task < times_.size(); ++task) {
      plan.append({});
      plan.estimate(task, static_cast<float>(times_[task]));
    }
    for (Index task = 0; task < times_.size(); ++task) {
      for (const Index needed : needs_[task]) plan.need(task, needed);
    }
    runner.attempt = [&](Index task, unsigned) {
      return SimulatedRunner::Attempt{
          .takes = SimulatedRunner::Time{static_cast<std::int64_t>(times_[task])}};
    };
    std::vector<Index> roots = plan.seal([](Index) { return std::string{}; });
    Loop{plan, runner, std::move(roots), {.concurrency = jobs}}.run();
    return static_cast<double>(runner.now().count());
  }

  // Whole levels one after the other, longest task first.
  [[nodiscard]] double level_by_level(unsigned jobs) const {
    double total = 0;
    for (std::size_t level = 0;; ++level) {
      std::vector<double> all;
      for (Index task = 0; task < times_.size(); ++task) {
        if (levels_[task] == level) all.push_back(times_[task]);
      }
      if (all.empty()) return total;
      std::ranges::sort(all, std::greater<>{});
      std::vector<double> slots(jobs);
      for (const double time : all) *std::ranges::min_element(slots) += time;
      total += *std::ranges::max_element(slots);
    }
  }

  // No schedule is shorter than h + (work of tasks with head >= h and tail >= t) / jobs + t.
  [[nodiscard]] double lower_bound(unsigned jobs) const {
    double best = 0;
    for (const double head : heads_) {
      for (const double tail : tails_) {
        double work = 0;
        for (Index task = 0; task < times_.size(); ++task) {
          if (heads_[task] >= head && tails_[task] >= tail) work += times_[task];
        }
        if (work > 0) best = std::max(best, head + (work / jobs) + tail);
      }
    }
    for (Index task = 0; task < times_.size(); ++task) {
      best = std::max(best, heads_[task] + times_[task] + tails_[task]);
    }
    return best;
  }

 private:
  std::vector<double> times_;
  std::vector<std::vector<Index>> needs_;
  std::vector<double> heads_;
  std::vector<double> tails_;
  std::vector<std::size_t> levels_;
};

TEST(Graphs, MakespanIsWithinFivePercentOfTheBound) {
  for (const char* const file : {"genkit-js.json", "gutenberg.json"}) {
    const Graph graph = read_graph(file);
    for (const unsigned jobs : {2U, 4U, 8U}) {
      std::vector<double> ratios;
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const Schedule schedule{graph, seed};
        const double makespan = schedule.makespan(jobs);
        ratios.push_back(makespan / schedule.lower_bound(jobs));
        EXPECT_LE(makespan, schedule.level_by_level(jobs));
      }
      std::ranges::sort(ratios);
      std::cout << file << ", " << jobs << " jobs: makespan / bound, median " << ratios[2]
                << ", most " << ratios[4] << '\n';
      EXPECT_LE(ratios.back(), 1.05);
    }
  }
}

}  // namespace
}  // namespace tenure::pipeline
