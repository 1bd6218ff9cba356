#include "pipeline.hpp"

#include <fmt/core.h>

#include <map>
#include <string>

#include "cli.hpp"
#include "exit_status.hpp"
#include "pipeline/commands/graph.hpp"
#include "pipeline/commands/run_state.hpp"
#include "pipeline/edits/file_edits.hpp"
#include "pipeline/workspace/workspace.hpp"
#include "pipeline_progress.hpp"
#include "pipeline_run.hpp"
#include "pipeline_status.hpp"
#include "pipeline_workspace.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using pipeline::RunState;

std::map<std::string, double> times_of(const Workspace& workspace) {
  if (!workspace.has_state()) return {};
  return RunState{tenure::store(workspace.url())}.times();
}

pipeline::GraphFormat format_of(const std::string& name) {
  using enum pipeline::GraphFormat;
  if (name == "dot") return dot;
  if (name == "mermaid") return mermaid;
  if (name == "json") return json;
  return name == "svg" ? svg : text;
}

int show_graph(const PipelineCommand& options) {
  const Workspace workspace = workspace_of(options);
  const pipeline::Manifest manifest = read_manifest(workspace, options);
  const pipeline::Graph graph =
      pipeline::graph_of(selected(manifest, options), times_of(workspace));
  if (options.action == PipelineCommand::Action::graph) {
    fmt::print("{}", pipeline::render(graph, format_of(options.format)));
  } else {
    fmt::print("{}", pipeline::render_plan(graph, jobs_of(manifest, options)));
  }
  return exit_ok;
}

int restore() {
  const auto reports = pipeline::restore_edits(edits_directory());
  if (reports.empty()) fmt::print("there is nothing to restore\n");
  return say_restored(reports, stdout) ? exit_ok : exit_failure;
}

int perform(const PipelineCommand& options) {
  switch (options.action) {
    case PipelineCommand::Action::run:
    case PipelineCommand::Action::resume: return run_pipeline(options);
    case PipelineCommand::Action::plan:
    case PipelineCommand::Action::graph: return show_graph(options);
    case PipelineCommand::Action::status: return show_status(options);
    case PipelineCommand::Action::restore: return restore();
    case PipelineCommand::Action::schema:
      fmt::print("{}", tenure::pipeline::manifest_schema());
      return exit_ok;
  }
  return exit_usage;
}

}  // namespace

int pipeline(const PipelineCommand& options) {
  try {
    return perform(options);
  } catch (const tenure::pipeline::ManifestError& error) {
    fmt::print(stderr, "{}\n", printable(error.what()));
    return exit_usage;
  } catch (const tenure::pipeline::WorkspaceError& error) {
    fmt::print(stderr, "{}\n", printable(error.what()));
    return exit_usage;
  } catch (const BadRequest& error) {
    throw UsageError(printable(error.what()), "pipeline");
  }
}

}  // namespace tenure::cli
