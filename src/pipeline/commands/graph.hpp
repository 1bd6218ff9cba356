// graph.hpp: the tasks of a manifest that a command line selects, as a graph: levels, critical
// path, and how it is shown. Pure.
//
// A task that is not selected keeps nobody waiting, but those that need it still come after those
// that it needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/manifest.hpp"

namespace tenure::pipeline {

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

// Each is the name of a task, of a group (a task with a matrix) or of a tag.
struct Selection {
  std::vector<std::string> only{};    // These. Empty: all.
  std::vector<std::string> except{};  // Not these.
  std::vector<std::string> from{};    // These, and all that need them, directly or not.
};

// Throws BadRequest for a word that is none of them, and names the nearest one.
[[nodiscard]] std::vector<Task> select(const Manifest& manifest, const Selection& selection);

struct GraphNode {
  std::string name;
  std::vector<std::size_t> needs;
  double seconds = 0;  // As an earlier run measured, or the median of those.
  bool known = false;  // It was measured.
  std::size_t level = 0;
  bool critical = false;
};

struct Graph {
  std::vector<GraphNode> nodes;         // As in the manifest.
  std::vector<std::size_t> critical{};  // The path, from its start.
  std::size_t levels = 0;
  double work = 0;           // Seconds of all tasks,
  double critical_time = 0;  // and of those of the critical path.
};

// NOLINTEND(readability-redundant-member-init)

// `milliseconds` by name, from earlier runs.
[[nodiscard]] Graph graph_of(const std::vector<Task>& tasks,
                             const std::map<std::string, double>& milliseconds);

enum class GraphFormat : std::uint8_t { text, dot, mermaid, json, svg };
[[nodiscard]] std::string render(const Graph& graph, GraphFormat format);
// "4.2s", "2m 10s", "3h 5m".
[[nodiscard]] std::string seconds_text(double seconds);
// Waves, critical path and estimate, for people.
[[nodiscard]] std::string render_plan(const Graph& graph, unsigned jobs);

}  // namespace tenure::pipeline
