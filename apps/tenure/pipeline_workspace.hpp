// pipeline_workspace.hpp: where a manifest is, and where the state of its runs is kept.
//
// The state is outside of the workspace, so that no tool packs, commits or cleans it:
//   $XDG_STATE_HOME/tenure/pipelines/HASH/state.db       records of runs, and the lock of the run
//   $XDG_STATE_HOME/tenure/pipelines/HASH/ID/NAME.log    the output of a task
//   $XDG_STATE_HOME/tenure/pipelines/edits               originals of edited files; shared by all
//                                                        manifests: two may edit the same file
// HASH stands for the real path of the manifest, or of the root of an npm workspace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"
#include "pipeline/commands/graph.hpp"
#include "pipeline/manifest.hpp"

namespace tenure::cli {

struct Workspace {
  std::string file;       // The real path of the manifest, or of the root of an npm workspace,
  std::string directory;  // and its directory, or that root.
  std::string state;      // The directory for state.

  [[nodiscard]] std::string url() const { return "sqlite:" + state + "/state.db"; }
  [[nodiscard]] bool has_state() const;
};

// Where EditSession keeps the originals of edited files.
[[nodiscard]] std::string edits_directory();

// The one lock of a workspace: whoever holds it runs the pipeline.
inline constexpr const char* run_lock = "run";

// Throw Error for a file that can't be read, pipeline::ManifestError for a bad manifest,
// pipeline::WorkspaceError for packages that can't be published.
[[nodiscard]] Workspace workspace_of(const PipelineCommand& options);
[[nodiscard]] pipeline::Manifest read_manifest(const Workspace& workspace,
                                               const PipelineCommand& options);
// What somebody types to do that with the same manifest: "tenure pipeline resume release.toml".
[[nodiscard]] std::string command_text(const PipelineCommand& options, std::string_view action);
// The tasks that the command line selects. Throws UsageError.
[[nodiscard]] std::vector<pipeline::Task> selected(const pipeline::Manifest& manifest,
                                                   const PipelineCommand& options);
[[nodiscard]] unsigned jobs_of(const pipeline::Manifest& manifest, const PipelineCommand& options);

}  // namespace tenure::cli
