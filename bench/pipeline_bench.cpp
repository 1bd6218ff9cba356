// Tasks that do nothing, on two threads, with states and an observer. Rival: oneTBB's flow graph,
// with a continue_node per task. Building is not timed on either side; it has a line of its own.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <malloc.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/pipeline_questions.hpp"
#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "tenure/pipeline.hpp"

namespace tenure::bench {
namespace {

// The tasks that each task needs, all of them earlier ones.
using Graph = std::vector<std::vector<std::uint32_t>>;

Graph wide(std::uint32_t size) { return Graph(size); }

Graph chain(std::uint32_t size) {
  Graph graph(size);
  for (std::uint32_t i = 1; i < size; ++i) graph[i] = {i - 1};
  return graph;
}

Graph tree(std::uint32_t size) {
  Graph graph(size);
  for (std::uint32_t i = 1; i < size; ++i) graph[i] = {(i - 1) / 2};
  return graph;
}

Graph random_two(std::uint32_t size) {
  std::mt19937 random{1};
  Graph graph(size);
  for (std::uint32_t i = 2; i < size; ++i) {
    const auto one = static_cast<std::uint32_t>(random() % i);
    const auto other = static_cast<std::uint32_t>(random() % i);
    graph[i] = {one, other};
  }
  return graph;
}

// The cheapest work that the compiler can't leave out.
struct Nothing {
  void operator()() const { std::atomic_signal_fence(std::memory_order_seq_cst); }
};

class Counter final : public PipelineObserver {
 public:
  void started(TaskId /*task*/, unsigned /*attempt*/) override {}
  void ended(TaskId /*task*/, TaskEnd /*end*/) override {}
};

class Clock {
 public:
  [[nodiscard]] double per(std::size_t count) const {
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start_;
    return time.count() / static_cast<double>(count);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Times {
  double build = 0;
  double run = 0;
};

Times run_ours(const Graph& graph) {
  Times times;
  Counter counter;
  Pipeline pipeline{{.concurrency = 2}};
  pipeline.observe(&counter);
  const Clock build;
  std::array<TaskId, 8> needs{};
  for (const std::vector<std::uint32_t>& of : graph) {
    for (std::size_t i = 0; i < of.size(); ++i) needs[i] = {of[i]};
    pipeline.add(std::function<void()>{Nothing{}}, std::span{needs.data(), of.size()});
  }
  pipeline.prepare();
  times.build = build.per(graph.size());
  const Clock run;
  const PipelineResult result = pipeline.run();
  times.run = run.per(graph.size());
  if (result.count(TaskEnd::done) != graph.size()) throw std::runtime_error("not all are done");
  return times;
}

Times run_tbb(const Graph& graph) {
  namespace flow = oneapi::tbb::flow;
  using Node = flow::continue_node<flow::continue_msg>;
  Times times;
  flow::graph flow_graph;
  std::deque<Node> nodes;
  const Clock build;
  const std::function<void()> work = Nothing{};
  for (const std::vector<std::uint32_t>& of : graph) {
    nodes.emplace_back(flow_graph, [work](const flow::continue_msg&) { work(); });
    for (const std::uint32_t needed : of) flow::make_edge(nodes[needed], nodes.back());
  }
  times.build = build.per(graph.size());
  const Clock run;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph[i].empty()) nodes[i].try_put(flow::continue_msg{});
  }
  flow_graph.wait_for_all();
  times.run = run.per(graph.size());
  return times;
}

struct Measured {
  Samples ours;
  Samples rival;
};

Measured measure(Report& report, const Graph& graph, std::size_t rounds) {
  Samples build;
  Samples rival_build;
  Race race{report.effort()};
  const auto ours = race.add_round([&] {
    const Times times = run_ours(graph);
    build.push_back(times.build);
    return times.run;
  });
  const auto rival = race.add_round([&] {
    const Times times = run_tbb(graph);
    rival_build.push_back(times.build);
    return times.run;
  });
  race.run(rounds);
  return {.ours = race[ours], .rival = race[rival]};
}

struct Shape {
  const char* name;
  Graph (*make)(std::uint32_t);
  double bar;
  double large_bar;
  double growth;
};

void ask_scheduler(Report& report) {
  const oneapi::tbb::global_control two{oneapi::tbb::global_control::max_allowed_parallelism, 2};
  const std::uint32_t small = report.effort().brief ? 1'000 : 100'000;
  const std::uint32_t large = report.effort().brief ? 2'000 : 1'000'000;
  constexpr std::array shapes{
      Shape{.name = "wide", .make = &wide, .bar = 0.2, .large_bar = 0.2, .growth = 1.3},
      Shape{.name = "chain", .make = &chain, .bar = 0.6, .large_bar = 0.6, .growth = 1.3},
      Shape{.name = "binary tree", .make = &tree, .bar = 0.3, .large_bar = 0.3, .growth = 1.3},
      Shape{.name = "random, 2 needed",
            .make = &random_two,
            .bar = 0.5,
            .large_bar = 0.7,
            .growth = 3.5}};
  for (const Shape& shape : shapes) {
    const Measured few = measure(report, shape.make(small), report.effort().of(21, 1));
    const Measured many = measure(report, shape.make(large), report.effort().of(7, 1));
    const std::string name = shape.name;
    report.compare(name + ", 100,000", {"", few.ours}, {"oneTBB", few.rival}, at_most(shape.bar));
    report.compare(name + ", 1,000,000", {"", many.ours}, {"oneTBB", many.rival},
                   at_most(shape.large_bar));
    report.figure(name + ", 1,000,000 : 100,000",
                  spread_of(many.ours).median / spread_of(few.ours).median, "",
                  at_most(shape.growth));
  }
}

void ask_memory(Report& report) {
  const std::uint32_t size = report.effort().brief ? 10'000 : 1'000'000;
  for (const auto& [name, make] :
       {std::pair{"wide", &wide}, std::pair{"random, 2 needed", &random_two}}) {
    const Graph graph = make(size);
    const auto used = [] {
      const struct mallinfo2 info = ::mallinfo2();
      return static_cast<double>(info.uordblks + info.hblkhd);
    };
    const double before = used();
    double inside = 0;
    Pipeline pipeline{{.concurrency = 2}};
    for (std::uint32_t i = 0; i < size; ++i) {
      std::array<TaskId, 2> needs{};
      for (std::size_t n = 0; n < graph[i].size(); ++n) needs[n] = {graph[i][n]};
      // The last one that is added needs all that it can: it looks when most have been released.
      if (i + 1 == size) {
        pipeline.add([&] { inside = used(); }, std::span{needs.data(), graph[i].size()});
      } else {
        pipeline.add(std::function<void()>{Nothing{}}, std::span{needs.data(), graph[i].size()});
      }
    }
    pipeline.prepare();
    const double prepared = used();
    static_cast<void>(pipeline.run());
    report.figure(std::string{name} + ": bytes per task, prepared", (prepared - before) / size,
                  "bytes", at_most(96));
    report.figure(std::string{name} + ": bytes per task, running", (inside - before) / size,
                  "bytes", at_most(96));
  }
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  using namespace tenure::bench;
  static constexpr std::array questions = {
      Question{.name = "scheduler",
               .text = "a task that does nothing, on two threads; what does the scheduler cost?",
               .ask = &ask_scheduler},
      Question{
          .name = "task_memory", .text = "how much memory does a task take?", .ask = &ask_memory},
      Question{.name = "pipeline_commands",
               .text = "commands of a manifest per second, with state; what do they cost?",
               .ask = &ask_pipeline_commands,
               .threads = Threads::never},
      Question{.name = "pipeline_resume",
               .text = "how soon does a resumed run start what is left?",
               .ask = &ask_pipeline_resume},
  };
  return run_program(argc, argv, questions);
}
