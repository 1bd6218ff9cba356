// Any bytes as the files of a workspace, as patterns and as version ranges.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "pipeline/workspace/semver.hpp"
#include "pipeline/workspace/workspace.hpp"

namespace {

using tenure::pipeline::Package;
using tenure::pipeline::Version;
using tenure::pipeline::WorkspaceError;

void require(bool holds, std::string_view what) {
  if (holds) return;
  std::cerr << "workspace_fuzz: " << what << '\n';
  std::abort();
}

void as_package(const std::string& text) {
  try {
    const Package package = tenure::pipeline::parse_package(text, "a");
    Package other = package;
    other.directory = "b";
    other.name = "b";
    other.version = "1.2.3";
    const auto manifest = tenure::pipeline::publish_manifest(
        {.root = "/", .packages = {package, other}, .catalogs = {}}, {});
    require(!manifest.tasks.empty(), "no task and no error");
  } catch (const WorkspaceError& error) {
    require(!std::string_view{error.what()}.empty(), "no reason");
  }
}

void as_range(std::string_view text) {
  const Version one = Version::parse("1.2.3").value();
  (void)tenure::pipeline::range_includes(text, one);
  if (const auto version = Version::parse(text)) {
    require((*version <=> *version) == 0, "a version that is not itself");
    const std::string exact{text.starts_with('v') ? text.substr(1) : text};
    require(tenure::pipeline::range_includes(exact, *version) == true, "a range without itself");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(data, data + size);
  as_package(text);
  as_package(R"({"name":"a","version":"1.0.0","dependencies":{"b":")" + text + "\"}}");
  try {
    (void)tenure::pipeline::parse_pnpm_file(text);
  } catch (const WorkspaceError&) {
    // Refused, with its place.
  }
  as_range(text);
  const std::size_t half = text.size() / 2;
  if (size < 64) (void)tenure::pipeline::matches_pattern(text.substr(0, half), text.substr(half));
  return 0;
}
