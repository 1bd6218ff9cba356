#include "pipeline/commands/graph.hpp"

#include <gtest/gtest.h>

#include "tenure/error.hpp"
#include "tests/kit/message.hpp"

namespace tenure::pipeline {
namespace {

Task task(const std::string& name, std::vector<std::string> needs = {},
          std::vector<std::string> tags = {}) {
  Task out;
  out.name = name;
  out.group = name;
  out.needs = std::move(needs);
  out.tags = std::move(tags);
  return out;
}

Manifest manifest() {
  Manifest out;
  out.file = "p.toml";
  out.tasks = {task("app", {"lib", "gen"}), task("lib", {"core"}, {"slow"}), task("core"),
               task("gen", {"core"}), task("docs")};
  return out;
}

std::string text(const std::vector<Task>& tasks) {
  std::string out;
  for (const Task& one : tasks) {
    out += one.name + ":";
    for (const std::string& needed : one.needs) out += " " + needed;
    out += "; ";
  }
  return out;
}

TEST(Graph, SelectionKeepsTheOrderOfTheRest) {
  EXPECT_EQ(text(select(manifest(), {.except = {"lib", "gen"}})), "app: core; core:; docs:; ");
  EXPECT_EQ(text(select(manifest(), {.only = {"app", "slow"}})), "app: lib; lib:; ");
  EXPECT_EQ(text(select(manifest(), {.from = {"lib"}})), "app: lib; lib:; ");
  EXPECT_EQ(kit::message_of<BadRequest>([] { (void)select(manifest(), {.only = {"cor"}}); }),
            "'cor' is no task, group or tag of p.toml: did you mean 'core'?");
}

TEST(Graph, CriticalPathByMeasuredTimes) {
  const Graph graph =
      graph_of(manifest().tasks, {{"core", 1000}, {"gen", 9000}, {"lib", 2000}, {"app", 1000}});
  EXPECT_EQ(graph.levels, 3U);
  ASSERT_EQ(graph.critical.size(), 3U);
  EXPECT_EQ(graph.nodes[graph.critical[1]].name, "gen");
  EXPECT_DOUBLE_EQ(graph.critical_time, 11);
  EXPECT_FALSE(graph.nodes[4].known);
  EXPECT_TRUE(render_plan(graph, 2).contains("critical path: core -> gen -> app\n"));
}

TEST(Graph, NamesAreEscaped) {
  Manifest odd;
  odd.tasks = {task("a\"<&")};
  const Graph graph = graph_of(odd.tasks, {});
  EXPECT_TRUE(render(graph, GraphFormat::dot).contains("label=\"a\\\"<&\""));
  EXPECT_TRUE(render(graph, GraphFormat::svg).contains(">a&quot;&lt;&amp;</text>"));
  EXPECT_TRUE(render(graph, GraphFormat::mermaid).contains("[\"a&quot;&lt;&amp;\"]"));
}

}  // namespace
}  // namespace tenure::pipeline
