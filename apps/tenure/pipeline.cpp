#include "pipeline.hpp"

#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "cli.hpp"
#include "exit_status.hpp"
#include "pipeline/commands/graph.hpp"
#include "pipeline/commands/run_state.hpp"
#include "pipeline/edits/file_edits.hpp"
#include "pipeline/workspace/workspace.hpp"
#include "pipeline_progress.hpp"
#include "pipeline_run.hpp"
#include "pipeline_workspace.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using pipeline::RunInfo;
using pipeline::RunState;
using pipeline::TaskRecord;

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

std::string_view text_of(TaskRecord::State state, bool live) {
  switch (state) {
    case TaskRecord::State::started: return live ? "running" : "interrupted";
    case TaskRecord::State::done: return "done";
    case TaskRecord::State::failed: return "failed";
    case TaskRecord::State::skipped: return "skipped";
  }
  return "";
}

int show_status(const PipelineCommand& options) {
  const Workspace workspace = workspace_of(options);
  if (!workspace.has_state()) throw Error("there was no run of this manifest yet");
  const std::shared_ptr<Store> store = tenure::store(workspace.url());
  const Space space = tenure::open(store);
  const RunState state{store};
  const std::optional<RunInfo> info = state.newest();
  if (!info) throw Error("there was no run of this manifest yet");
  bool live = false;
  for (const TicketInfo& ticket : space.inspect(Path::of(run_lock))) {
    live = live || (ticket.granted && !info->ended);
  }
  std::string result = info->ended ? info->result : "interrupted";
  if (live) result = "running";
  const std::map<std::string, TaskRecord> records = state.tasks(info->id);
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  std::string lines;
  for (const auto& [name, text] : info->texts) {
    const auto at = records.find(name);
    const std::string_view one = at == records.end() ? "waiting" : text_of(at->second.state, live);
    lines += fmt::format("{:<12} {}\n", one, printable(name));
    tasks.push_back({{"task", name}, {"state", one}});
  }
  if (options.json) {
    const nlohmann::ordered_json all{
        {"run", info->id}, {"began", info->began}, {"state", result}, {"tasks", tasks}};
    fmt::print("{}\n", all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("run {}: {}\n{}", info->id, result, lines);
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
