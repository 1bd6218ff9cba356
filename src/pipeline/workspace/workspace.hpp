// workspace.hpp: the packages of an npm, yarn or pnpm workspace as tasks that publish them.
//
// A package is published after the packages that it needs at run time: dependencies,
// optionalDependencies, peerDependencies. devDependencies are for builds, may make cycles, and do
// not count. A dependency whose range the local version does not match means the registry's copy.
//
// What registries do not understand is pinned while the package is published, by edits of its
// package.json:
//   workspace:*, *, file:../b, link:../b   1.2.3          the local version
//   workspace:^, workspace:~               ^1.2.3, ~1.2.3
//   workspace:>=1                          >=1            the range itself; it must match
//   workspace:b@^                          npm:b@^1.2.3   an alias
//   catalog:, catalog:NAME                 as pnpm-workspace.yaml says
// Other ranges of local packages stay as they are.
//
// Thread safety: none needed; values.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/manifest.hpp"
#include "tenure/error.hpp"

namespace tenure::pipeline {

// The message begins with the file that is wrong.
class WorkspaceError : public Error {
 public:
  using Error::Error;
};

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.

// One package.json, as far as it matters here.
struct Package {
  struct Dependency {
    std::string section;  // dependencies, devDependencies, ...
    std::string name;
    std::string range;
  };
  std::string directory;  // Relative to the root; empty: the root.
  std::string name;
  std::string version;
  bool is_private = false;
  std::vector<Dependency> dependencies{};
};

// Catalogs of pnpm-workspace.yaml: catalog name ("" is the default one) to package to range.
using Catalogs = std::map<std::string, std::map<std::string, std::string>>;

struct Workspace {
  std::filesystem::path root;
  std::vector<Package> packages{};  // In the order of their directories.
  Catalogs catalogs{};
};

inline constexpr std::size_t max_packages = 10'000;

// Reads the files. Throws WorkspaceError.
[[nodiscard]] Workspace read_workspace(const std::filesystem::path& root);

struct PublishOptions {
  std::vector<std::string> command{"npm", "publish"};
  std::string registry{};  // An http address for `done` and `verify`; empty: `npm view` is asked.
};

// One task for each package that is not private. Pure. Throws WorkspaceError: a cycle, a public
// package that needs a private one, a range that can't be pinned.
[[nodiscard]] Manifest publish_manifest(const Workspace& workspace, const PublishOptions& options);

// --- Parts, for their tests.

[[nodiscard]] Package parse_package(std::string_view text, const std::string& directory);
// `packages:` and catalogs of a pnpm-workspace.yaml.
struct PnpmFile {
  std::vector<std::string> patterns{};
  Catalogs catalogs{};
};
[[nodiscard]] PnpmFile parse_pnpm_file(const std::string& text);
// NOLINTEND(readability-redundant-member-init)

// `workspaces` of a root package.json; null: it has none.
[[nodiscard]] std::optional<std::vector<std::string>> parse_patterns(std::string_view text);
// packages/*, apps/**, !packages/old
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view directory);

}  // namespace tenure::pipeline
