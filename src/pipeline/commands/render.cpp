// The forms in which a graph is shown.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/commands/graph.hpp"

namespace tenure::pipeline {
namespace {

std::string escaped(std::string_view text, bool markup) {
  std::string out;
  for (const char c : text) {
    if (markup && c == '<') {
      out += "&lt;";
    } else if (markup && c == '>') {
      out += "&gt;";
    } else if (markup && c == '&') {
      out += "&amp;";
    } else if (markup && c == '"') {
      out += "&quot;";
    } else if (!markup && (c == '"' || c == '\\')) {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the names say which is which.
bool on_path(const Graph& graph, std::size_t from, std::size_t to) {
  const auto at = std::ranges::find(graph.critical, from);
  return at != graph.critical.end() && at + 1 != graph.critical.end() && *(at + 1) == to;
}

std::string as_text(const Graph& graph) {
  std::string out;
  for (const GraphNode& node : graph.nodes) {
    out += fmt::format("{} {}", node.critical ? '*' : ' ', node.name);
    for (std::size_t i = 0; i < node.needs.size(); ++i) {
      out += (i == 0 ? " needs " : ", ") + graph.nodes[node.needs[i]].name;
    }
    out += '\n';
  }
  return out + "* critical path\n";
}

std::string as_dot(const Graph& graph) {
  std::string out = "digraph pipeline {\n  rankdir=LR;\n  node [shape=box];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    out += fmt::format("  n{} [label=\"{}\"{}];\n", i, escaped(node.name, false),
                       node.critical ? ", color=red, penwidth=2" : "");
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::size_t needed : graph.nodes[i].needs) {
      out += fmt::format("  n{} -> n{}{};\n", needed, i,
                         on_path(graph, needed, i) ? " [color=red, penwidth=2]" : "");
    }
  }
  return out + "}\n";
}

std::string as_mermaid(const Graph& graph) {
  std::string out = "graph LR\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    std::string label = escaped(node.name, true);
    out += fmt::format("  n{}[\"{}\"]{}\n", i, label, node.critical ? ":::critical" : "");
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const std::size_t needed : graph.nodes[i].needs) {
      out += fmt::format("  n{} {} n{}\n", needed, on_path(graph, needed, i) ? "==>" : "-->", i);
    }
  }
  return out + "  classDef critical stroke:#c00,stroke-width:3px\n";
}

std::string as_json(const Graph& graph) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  for (const GraphNode& node : graph.nodes) {
    nlohmann::ordered_json needs = nlohmann::ordered_json::array();
    for (const std::size_t needed : node.needs) needs.push_back(graph.nodes[needed].name);
    nlohmann::ordered_json one{
        {"name", node.name}, {"needs", needs}, {"level", node.level}, {"critical", node.critical}};
    one["seconds"] = node.known ? nlohmann::ordered_json(node.seconds) : nlohmann::ordered_json();
    tasks.push_back(std::move(one));
  }
  nlohmann::ordered_json path = nlohmann::ordered_json::array();
  for (const std::size_t task : graph.critical) path.push_back(graph.nodes[task].name);
  const nlohmann::ordered_json all{{"tasks", tasks}, {"critical_path", path}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Levels from left to right, the tasks of one below each other.
class Svg {
 public:
  explicit Svg(const Graph& graph) : graph_(graph), row_(graph.nodes.size()) {
    std::vector<std::size_t> rows(graph.levels);
    std::size_t longest = 4;
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      row_[i] = rows[graph.nodes[i].level]++;
      longest = std::max(longest, graph.nodes[i].name.size());
    }
    width_ = 24 + (longest * 8);
    height_ = rows.empty() ? 1 : std::ranges::max(rows);
  }
  [[nodiscard]] std::string text() const {
    const std::size_t full_width = (graph_.levels * (width_ + gap)) + margin;
    const std::size_t full_height = (height_ * row_height) + (2 * margin);
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"monospace\" font-size=\"13\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        full_width, full_height);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const std::size_t needed : graph_.nodes[i].needs) out += edge(needed, i);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) out += box(i);
    return out + "</svg>\n";
  }

 private:
  static constexpr std::size_t gap = 60;
  static constexpr std::size_t margin = 16;
  static constexpr std::size_t row_height = 44;
  static constexpr std::size_t box_height = 28;

  [[nodiscard]] std::size_t left(std::size_t node) const {
    return margin + (graph_.nodes[node].level * (width_ + gap));
  }
  [[nodiscard]] std::size_t top(std::size_t node) const {
    return margin + (row_[node] * row_height);
  }
  [[nodiscard]] std::string edge(std::size_t from, std::size_t to) const {
    const std::size_t x1 = left(from) + width_;
    const std::size_t y1 = top(from) + (box_height / 2);
    const std::size_t x2 = left(to);
    const std::size_t y2 = top(to) + (box_height / 2);
    const std::size_t middle = x1 + (gap / 2);
    const bool path = on_path(graph_, from, to);
    return fmt::format(
        "<path d=\"M{} {} C{} {} {} {} {} {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
        x1, y1, middle, y1, x2 - (gap / 2), y2, x2, y2, path ? "#c00" : "#999", path ? 2.5 : 1.2);
  }
  [[nodiscard]] std::string box(std::size_t i) const {
    const GraphNode& node = graph_.nodes[i];
    return fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\" stroke=\"{}\" "
        "stroke-width=\"{}\"/>\n<text x=\"{}\" y=\"{}\">{}</text>\n",
        left(i), top(i), width_, box_height, node.critical ? "#fff0f0" : "#f4f6f8",
        node.critical ? "#c00" : "#555", node.critical ? 2 : 1, left(i) + 12, top(i) + 19,
        escaped(node.name, true));
  }

  const Graph& graph_;
  std::vector<std::size_t> row_;
  std::size_t width_ = 0;
  std::size_t height_ = 0;
};

}  // namespace

std::string render(const Graph& graph, GraphFormat format) {
  switch (format) {
    case GraphFormat::text: return as_text(graph);
    case GraphFormat::dot: return as_dot(graph);
    case GraphFormat::mermaid: return as_mermaid(graph);
    case GraphFormat::json: return as_json(graph);
    case GraphFormat::svg: return Svg{graph}.text();
  }
  return {};
}

std::string seconds_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<long>(seconds);
  if (whole < 3600) return fmt::format("{}m {}s", whole / 60, whole % 60);
  return fmt::format("{}h {}m", whole / 3600, (whole % 3600) / 60);
}

std::string render_plan(const Graph& graph, unsigned jobs) {
  std::string out;
  for (std::size_t level = 0; level < graph.levels; ++level) {
    out += fmt::format("wave {}:", level + 1);
    for (const GraphNode& node : graph.nodes) {
      if (node.level == level) out += " " + node.name;
    }
    out += '\n';
  }
  out += "critical path:";
  for (std::size_t i = 0; i < graph.critical.size(); ++i) {
    out += (i == 0 ? " " : " -> ") + graph.nodes[graph.critical[i]].name;
  }
  const auto known = std::ranges::count_if(graph.nodes, &GraphNode::known);
  if (known == 0) return out + "\nestimate: unknown, no earlier run has finished a task\n";
  const double least = std::max(graph.critical_time, graph.work / jobs);
  return out + fmt::format("\nestimate: {} with {} jobs ({} of {} tasks were timed)\n",
                           seconds_text(least), jobs, known, graph.nodes.size());
}

}  // namespace tenure::pipeline
