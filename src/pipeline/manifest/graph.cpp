#include "pipeline/manifest/graph.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace tenure::pipeline {
namespace {

using Edges = std::vector<std::vector<std::size_t>>;
// Which tasks a name stands for: one, or all that came from one matrix.
using Names = std::unordered_map<std::string, std::vector<std::size_t>>;

constexpr std::size_t max_printed = 20;  // Tasks of a cycle.

Names names_of(const std::vector<ReadTask>& tasks) {
  Names names;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i].task;
    names[task.name].push_back(i);
    if (task.group != task.name) names[task.group].push_back(i);
  }
  return names;
}

[[noreturn]] void unknown_need(const Scope& scope, const Names& names, const Text& need) {
  std::vector<std::string_view> known;
  known.reserve(names.size());
  for (const auto& [name, tasks] : names) known.emplace_back(name);
  std::ranges::sort(known);  // The same answer every time.
  scope.fail(need.position, "`needs` has " + in_quotes(need.text) + ", and there is no such task" +
                                did_you_mean(need.text, known) + ": add it, or remove the name");
}

Edges edges_of(const Scope& scope, const std::vector<ReadTask>& tasks) {
  const Names names = names_of(tasks);
  Edges edges(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const Text& need : tasks[i].needs) {
      const auto found = names.find(need.text);
      if (found == names.end()) unknown_need(scope, names, need);
      edges[i].insert(edges[i].end(), found->second.begin(), found->second.end());
    }
    // Each once, where it was named first.
    std::vector<std::size_t>& own = edges[i];
    std::vector<std::size_t> sorted = own;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) == sorted.end()) continue;
    std::vector<std::size_t> unique;
    for (const std::size_t to : own) {
      const auto [first, last] = std::ranges::equal_range(sorted, to);
      if (first == last) continue;
      unique.push_back(to);
      sorted.erase(first, last);
    }
    own = std::move(unique);
  }
  return edges;
}

[[noreturn]] void fail_with_cycle(const Scope& scope, const std::vector<ReadTask>& tasks,
                                  std::vector<std::size_t> cycle) {
  // From the task that stands first in the file.
  std::ranges::rotate(cycle, std::ranges::min_element(cycle));
  std::string text;
  for (std::size_t i = 0; i < cycle.size() && i < max_printed; ++i) {
    text += tasks[cycle[i]].task.name + " needs ";
  }
  if (cycle.size() > max_printed) {
    text += "... (" + std::to_string(cycle.size() - max_printed) + " more) ... needs ";
  }
  const Task& first = tasks[cycle.front()].task;
  scope.fail(first.position,
             "the tasks need each other: " + text + first.name + ": remove one of these `needs`");
}

// Depth first, with a stack of our own: a chain may be as long as the manifest.
void refuse_cycles(const Scope& scope, const std::vector<ReadTask>& tasks, const Edges& edges) {
  enum class State : std::uint8_t { unseen, open, closed };
  std::vector<State> states(edges.size(), State::unseen);
  std::vector<std::pair<std::size_t, std::size_t>> path;  // A task, and which of its edges is next.
  for (std::size_t start = 0; start < edges.size(); ++start) {
    if (states[start] != State::unseen) continue;
    states[start] = State::open;
    path.emplace_back(start, 0);
    while (!path.empty()) {
      const auto [at, next] = path.back();
      if (next == edges[at].size()) {
        states[at] = State::closed;
        path.pop_back();
        continue;
      }
      ++path.back().second;
      const std::size_t to = edges[at][next];
      if (states[to] == State::unseen) {
        states[to] = State::open;
        path.emplace_back(to, 0);
      } else if (states[to] == State::open) {
        std::vector<std::size_t> cycle;
        cycle.reserve(path.size());
        for (const auto& [task, edge] : path) cycle.push_back(task);
        cycle.erase(cycle.begin(), std::ranges::find(cycle, to));
        fail_with_cycle(scope, tasks, std::move(cycle));
      }
    }
  }
}

}  // namespace

std::vector<Task> resolve_needs(const Scope& scope, std::vector<ReadTask> tasks) {
  const Edges edges = edges_of(scope, tasks);
  refuse_cycles(scope, tasks, edges);
  std::vector<Task> out;
  out.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::size_t to : edges[i]) tasks[i].task.needs.push_back(tasks[to].task.name);
  }
  for (ReadTask& one : tasks) out.push_back(std::move(one.task));
  return out;
}

}  // namespace tenure::pipeline
