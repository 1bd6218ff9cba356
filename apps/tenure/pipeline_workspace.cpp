#include "pipeline_workspace.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "cli.hpp"
#include "environment.hpp"
#include "pipeline/workspace/workspace.hpp"
#include "space_choice.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

std::uint64_t fnv(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

pipeline::Manifest read_toml(const Workspace& workspace, const std::string& shown) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(workspace.file, error);
  if (!error && size > pipeline::max_manifest_bytes) {
    throw Error(fmt::format("'{}' is larger than {} bytes: split it", printable(shown),
                            pipeline::max_manifest_bytes));
  }
  const std::ifstream in{workspace.file, std::ios::binary};
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || error) throw Error(fmt::format("cannot read '{}'", printable(shown)));
  pipeline::ManifestOptions options;
  options.environment = [](std::string_view name) -> std::optional<std::string> {
    const std::string variable{name};
    const char* const value = std::getenv(variable.c_str());  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>{value};
  };
  return pipeline::parse_manifest(text.str(), shown, options);
}

}  // namespace

bool Workspace::has_state() const { return ::access((state + "/state.db").c_str(), F_OK) == 0; }

std::string edits_directory() { return state_directory() + "/pipelines/edits"; }

Workspace workspace_of(const PipelineCommand& options) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(options.file, error);
  if (error) {
    throw Error(fmt::format("cannot read '{}': {}", printable(options.file), error.message()));
  }
  return {.file = real.string(),
          .directory = options.packages ? real.string() : real.parent_path().string(),
          .state = fmt::format("{}/pipelines/{:016x}", state_directory(), fnv(real.string()))};
}

pipeline::Manifest read_manifest(const Workspace& workspace, const PipelineCommand& options) {
  if (options.packages) {
    pipeline::PublishOptions publish;
    if (!options.registry.empty()) {
      publish.registry = options.registry;
      publish.command.insert(publish.command.end(), {"--registry", options.registry});
    }
    return pipeline::publish_manifest(pipeline::read_workspace(workspace.file), publish);
  }
  return read_toml(workspace, options.file);
}

std::string command_text(const PipelineCommand& options, std::string_view action) {
  std::string text = fmt::format("tenure pipeline {} {}", action, options.file);
  if (options.packages) text += " --workspace npm";
  if (!options.registry.empty()) text += " --registry " + options.registry;
  return text;
}

std::vector<pipeline::Task> selected(const pipeline::Manifest& manifest,
                                     const PipelineCommand& options) {
  std::vector<pipeline::Task> tasks = pipeline::select(
      manifest, {.only = options.only, .except = options.except, .from = options.from});
  if (tasks.empty()) throw UsageError("no task is selected", "pipeline");
  return tasks;
}

unsigned jobs_of(const pipeline::Manifest& manifest, const PipelineCommand& options) {
  constexpr unsigned most = 256;
  if (options.jobs) return *options.jobs;
  if (manifest.jobs) return std::min<unsigned>(*manifest.jobs, most);
  return std::clamp(std::thread::hardware_concurrency(), 1U, most);
}

}  // namespace tenure::cli
