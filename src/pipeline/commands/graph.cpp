#include "pipeline/commands/graph.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/nearest.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {
namespace {

bool has_name(const Task& task, const std::string& word) {
  return task.name == word || task.group == word || std::ranges::count(task.tags, word) != 0;
}

bool is_any(const Task& task, const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& word) { return has_name(task, word); });
}

void check_words(const Manifest& manifest, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (std::ranges::any_of(manifest.tasks,
                            [&](const Task& task) { return has_name(task, word); })) {
      continue;
    }
    std::set<std::string> known;
    for (const Task& task : manifest.tasks) {
      known.insert({task.name, task.group});
      known.insert(task.tags.begin(), task.tags.end());
    }
    const std::string near{base::nearest(word, known)};
    throw BadRequest(fmt::format("'{}' is no task, group or tag of {}{}", word, manifest.file,
                                 near.empty() ? "" : ": did you mean '" + near + "'?"));
  }
}

// Positions such that each task comes after those that it needs. A manifest has no cycle.
std::vector<std::size_t> order_of(const std::vector<std::vector<std::size_t>>& needs) {
  std::vector<std::size_t> missing(needs.size());
  std::vector<std::vector<std::size_t>> needed_by(needs.size());
  std::vector<std::size_t> order;
  for (std::size_t task = 0; task < needs.size(); ++task) {
    missing[task] = needs[task].size();
    if (needs[task].empty()) order.push_back(task);
    for (const std::size_t needed : needs[task]) needed_by[needed].push_back(task);
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const std::size_t next : needed_by[order[at]]) {
      if (--missing[next] == 0) order.push_back(next);
    }
  }
  return order;
}

std::vector<std::vector<std::size_t>> positions(const std::vector<Task>& tasks) {
  std::map<std::string, std::size_t> at;
  for (std::size_t i = 0; i < tasks.size(); ++i) at.emplace(tasks[i].name, i);
  std::vector<std::vector<std::size_t>> needs(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string& name : tasks[i].needs) needs[i].push_back(at.at(name));
  }
  return needs;
}

}  // namespace

std::vector<Task> select(const Manifest& manifest, const Selection& selection) {
  for (const auto* const words : {&selection.only, &selection.except, &selection.from}) {
    check_words(manifest, *words);
  }
  const std::vector<std::vector<std::size_t>> needs = positions(manifest.tasks);
  const std::vector<std::size_t> order = order_of(needs);
  std::vector<bool> chosen(needs.size());
  std::vector<bool> behind(needs.size());
  // Selected tasks that come before, for those that are not selected.
  std::vector<std::set<std::size_t>> before(needs.size());
  for (const std::size_t task : order) {
    const Task& own = manifest.tasks[task];
    behind[task] = selection.from.empty() || is_any(own, selection.from) ||
                   std::ranges::any_of(needs[task], [&](std::size_t n) { return behind[n]; });
    chosen[task] = behind[task] && (selection.only.empty() || is_any(own, selection.only)) &&
                   !is_any(own, selection.except);
    for (const std::size_t needed : needs[task]) {
      if (chosen[needed]) {
        before[task].insert(needed);
      } else {
        before[task].insert(before[needed].begin(), before[needed].end());
      }
    }
  }
  std::vector<Task> out;
  for (std::size_t task = 0; task < needs.size(); ++task) {
    if (!chosen[task]) continue;
    Task& own = out.emplace_back(manifest.tasks[task]);
    own.needs.clear();
    for (const std::size_t needed : before[task]) own.needs.push_back(manifest.tasks[needed].name);
  }
  return out;
}

Graph graph_of(const std::vector<Task>& tasks, const std::map<std::string, double>& milliseconds) {
  Graph graph;
  const std::vector<std::vector<std::size_t>> needs = positions(tasks);
  std::vector<double> known;
  for (const Task& task : tasks) {
    const auto at = milliseconds.find(task.name);
    if (at != milliseconds.end()) known.push_back(at->second / 1000);
  }
  std::ranges::sort(known);
  const double usual = known.empty() ? 1 : known[known.size() / 2];
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto at = milliseconds.find(tasks[i].name);
    const bool measured = at != milliseconds.end();
    graph.nodes.push_back({.name = tasks[i].name,
                           .needs = needs[i],
                           .seconds = measured ? at->second / 1000 : usual,
                           .known = measured});
    graph.work += graph.nodes.back().seconds;
  }
  // The longest way to the end of each task, and which task it comes from.
  std::vector<double> until(tasks.size());
  std::vector<std::size_t> from(tasks.size(), tasks.size());
  std::size_t last = tasks.size();
  for (const std::size_t task : order_of(needs)) {
    GraphNode& node = graph.nodes[task];
    for (const std::size_t needed : node.needs) {
      node.level = std::max(node.level, graph.nodes[needed].level + 1);
      if (from[task] == tasks.size() || until[needed] > until[from[task]]) from[task] = needed;
    }
    until[task] = node.seconds + (from[task] < tasks.size() ? until[from[task]] : 0);
    graph.levels = std::max(graph.levels, node.level + 1);
    if (last == tasks.size() || until[task] > until[last]) last = task;
  }
  for (; last < tasks.size(); last = from[last]) {
    graph.critical_time += graph.nodes[last].seconds;
    graph.nodes[last].critical = true;
    graph.critical.insert(graph.critical.begin(), last);
  }
  return graph;
}

}  // namespace tenure::pipeline
