// Any bytes as a manifest: a manifest that keeps its invariants, or an error that says where.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "pipeline/manifest.hpp"

namespace {

using tenure::pipeline::Manifest;
using tenure::pipeline::ManifestError;
using tenure::pipeline::Task;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "manifest_fuzz: " << what << '\n';
  std::abort();
}

void check(const Manifest& manifest) {
  std::set<std::string_view> names;
  require(!manifest.tasks.empty(), "no task");
  for (const Task& task : manifest.tasks) {
    require(!task.run.words.empty(), "nothing to run");
    require(names.insert(task.name).second, "a name twice");
    require(!tenure::pipeline::task_text(task).empty(), "no text");
  }
  for (const Task& task : manifest.tasks) {
    for (const std::string& need : task.needs) {
      require(names.contains(need), "needs a task that is not there");
      require(need != task.name, "needs itself");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tenure::pipeline::ManifestOptions options;
  options.environment = [](std::string_view name) {
    return name.size() > 3 ? std::nullopt : std::optional<std::string>{"\xff"};
  };
  const std::string text(data, data + size);
  // Alone, and as the rest of a task, which a fuzzer takes long to find.
  for (const std::string begin : {"", "[vars]\na='b'\n[task.a]\nrun='x'\n"}) {
    try {
      check(tenure::pipeline::parse_manifest(begin + text, "m", options));
    } catch (const ManifestError& error) {
      require(std::string_view{error.what()}.starts_with("m:"), "an error that names no file");
    }
  }
  return 0;
}
