#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "pipeline/workspace/semver.hpp"
#include "pipeline/workspace/workspace.hpp"

namespace tenure::pipeline {
namespace {

std::string file_of(const Package& package) {
  return package.directory.empty() ? "package.json" : package.directory + "/package.json";
}

[[noreturn]] void fail_in(const Package& package, const std::string& what) {
  throw WorkspaceError(file_of(package) + ": " + what);
}

// ../b, seen from packages/a, is packages/b.
std::string resolved(const std::string& directory, std::string_view relative) {
  return (std::filesystem::path{directory} / relative).lexically_normal().string();
}

// Names go into addresses and commands.
void check_name(const Package& package) {
  const bool plain = std::ranges::all_of(package.name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view{"@/_.~-"}.contains(c);
  });
  if (package.name.empty()) fail_in(package, "a package without `name`: add it, or \"private\"");
  if (plain && !package.name.starts_with('-')) return;
  fail_in(package, "the name can't be published: use letters, digits, @ / _ . ~ and -");
}

class Publisher {
 public:
  Publisher(const Workspace& workspace, const PublishOptions& options)
      : workspace_(workspace), options_(options) {
    for (const Package& package : workspace.packages) {
      const auto [at, is_new] = by_name_.emplace(package.name, &package);
      if (is_new || package.name.empty()) continue;
      fail_in(package, "the package '" + package.name + "' is also in " + file_of(*at->second) +
                           ": rename one of them");
    }
  }

  Manifest run() {
    Manifest manifest{.file = (workspace_.root / "package.json").string()};
    for (const Package& package : workspace_.packages) {
      if (package.is_private) continue;
      check_name(package);
      if (!Version::parse(package.version)) {
        fail_in(package, "the version '" + package.version +
                             "' is not MAJOR.MINOR.PATCH: correct it, or add \"private\"");
      }
      manifest.tasks.push_back(task_of(package));
    }
    if (manifest.tasks.empty()) {
      throw WorkspaceError(manifest.file +
                           ": the workspace has no package to publish: all are "
                           "private, or none was found");
    }
    refuse_cycles(manifest.tasks);
    return manifest;
  }

 private:
  Task task_of(const Package& package) {
    Task task{.name = package.name, .group = package.name};
    task.dir = package.directory;
    task.run = {.words = options_.command};
    Edit edit{.file = "package.json", .format = Edit::Format::json};
    for (const Package::Dependency& one : package.dependencies) {
      const Package* const local = add_dependency(package, one, edit);
      const bool at_run_time = one.section != "devDependencies";
      if (local == nullptr || !at_run_time || local == &package) continue;
      if (local->is_private) {
        fail_in(package, "it needs '" + local->name +
                             "', which is private: publish that too, or "
                             "make this package private");
      }
      if (std::ranges::count(task.needs, local->name) == 0) task.needs.push_back(local->name);
    }
    if (!edit.set.empty()) task.edits.push_back(std::move(edit));
    task.timeout = std::chrono::minutes{10};
    // Safe, because `done` is asked before each attempt.
    task.retry.max = 3;
    task.done = done_check(package);
    if (!options_.registry.empty()) {
      task.verify = task.done;
      task.verify->timeout = std::chrono::minutes{2};
    }
    return task;
  }

  // Adds what has to be pinned; returns the local package that is meant, or null.
  const Package* add_dependency(const Package& package, const Package::Dependency& one,
                                Edit& edit) const {
    std::string range = one.range;
    if (range.starts_with("catalog:")) range = from_catalog(package, one);
    std::string name = one.name;
    const bool protocol = range.starts_with("workspace:");
    bool alias = false;
    if (protocol) {
      range.erase(0, std::string_view{"workspace:"}.size());
      const std::size_t at = range.rfind('@');
      if (at != std::string::npos && at != 0) {
        alias = true;
        name = range.substr(0, at);
        range.erase(0, at + 1);
      }
    }
    const Package* const local = find(package, name, range, protocol);
    if (protocol && local == nullptr) {
      fail_in(package, "`" + one.section + "` has '" + one.name + "' as '" + one.range +
                           "', and the workspace has no package '" + name + "': add it");
    }
    std::string pinned = range;
    if (local != nullptr) pinned = pin(package, one, *local, range, protocol);
    if (alias) pinned = "npm:" + name + "@" + pinned;
    if (pinned != one.range) {
      edit.set.push_back({.key = {one.section, one.name}, .value = nlohmann::json(pinned).dump()});
    }
    return local;
  }

  [[nodiscard]] std::string from_catalog(const Package& package,
                                         const Package::Dependency& one) const {
    std::string name = one.range.substr(std::string_view{"catalog:"}.size());
    if (name == "default") name.clear();
    const auto catalog = workspace_.catalogs.find(name);
    if (catalog != workspace_.catalogs.end()) {
      const auto range = catalog->second.find(one.name);
      if (range != catalog->second.end()) return range->second;
    }
    fail_in(package, "`" + one.section + "` has '" + one.name + "' as '" + one.range +
                         "', and pnpm-workspace.yaml has no such entry: add it to the catalog");
  }

  // The package of the workspace that a dependency means; null: the registry's.
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): as in package.json.
  [[nodiscard]] const Package* find(const Package& package, const std::string& name,
                                    const std::string& range, bool protocol) const {
    for (const std::string_view scheme : {"file:", "link:", "portal:"}) {
      if (range.starts_with(scheme)) {
        return at_directory(resolved(package.directory, range.substr(scheme.size())));
      }
    }
    if (protocol && (range.starts_with("./") || range.starts_with("../"))) {
      return at_directory(resolved(package.directory, range));
    }
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return nullptr;
    if (protocol) return found->second;
    const auto version = Version::parse(found->second->version);
    const bool any = range.empty() || range == "*";
    const bool matches = version && range_includes(range, *version).value_or(false);
    return any || matches ? found->second : nullptr;
  }

  [[nodiscard]] const Package* at_directory(std::string directory) const {
    if (directory.ends_with('/')) directory.pop_back();
    const auto at = std::ranges::find(workspace_.packages, directory, &Package::directory);
    return at == workspace_.packages.end() ? nullptr : &*at;
  }

  [[nodiscard]] static std::string pin(const Package& package, const Package::Dependency& one,
                                       const Package& local, const std::string& range,
                                       bool protocol) {
    const std::optional<Version> version = Version::parse(local.version);
    const bool path = range.starts_with('.') || range.contains(':');
    const bool exact = range.empty() || range == "*" || path;
    const bool prefix = protocol && (range == "^" || range == "~");
    if (!exact && !prefix) {
      const std::optional<bool> matches =
          version ? range_includes(range, *version) : std::optional<bool>{};
      if (protocol && !matches.value_or(false)) {
        fail_in(package, "`" + one.section + "` has '" + one.name + "' as '" + one.range +
                             "', which the local version '" + local.version +
                             "' does not match: change one of them");
      }
      return range;
    }
    if (!version) {
      fail_in(local, "the version '" + local.version + "' is not MAJOR.MINOR.PATCH, and '" +
                         package.name + "' needs it: correct it");
    }
    return (prefix ? range : "") + local.version;
  }

  [[nodiscard]] Check done_check(const Package& package) const {
    Check check;
    if (options_.registry.empty()) {
      // Exit status 0 with no output means: the package is there, but not this version.
      check.what = Invocation{.words = {"test -n \"$(npm view '" + package.name + "@" +
                                        package.version + "' version)\""},
                              .shell = true};
      return check;
    }
    std::string url = options_.registry;
    if (!url.ends_with('/')) url += '/';
    for (const char c : package.name) url += c == '/' ? "%2f" : std::string{c};
    check.what = HttpCheck{.url = url + "/" + package.version};
    return check;
  }

  void refuse_cycles(const std::vector<Task>& tasks) const {
    std::unordered_map<std::string_view, const Task*> named;
    for (const Task& task : tasks) named.emplace(task.name, &task);
    std::set<std::string_view> closed;
    for (const Task& start : tasks) {
      std::vector<std::pair<const Task*, std::size_t>> path{{&start, 0}};
      std::set<std::string_view> open{start.name};
      while (!path.empty()) {
        const auto [task, next] = path.back();
        if (closed.contains(task->name) || next == task->needs.size()) {
          closed.insert(task->name);
          open.erase(task->name);
          path.pop_back();
          continue;
        }
        ++path.back().second;
        const Task* const to = named.at(task->needs[next]);
        if (open.contains(to->name)) fail_with_cycle(path, *to);
        open.insert(to->name);
        path.emplace_back(to, 0);
      }
    }
  }

  [[noreturn]] void fail_with_cycle(const std::vector<std::pair<const Task*, std::size_t>>& path,
                                    const Task& to) const {
    std::string text;
    bool inside = false;
    for (const auto& [task, edge] : path) {
      inside = inside || task == &to;
      if (inside) text += task->name + " needs ";
    }
    fail_in(*by_name_.at(to.name), "the packages need each other: " + text + to.name +
                                       ": remove one of these dependencies, or make it a "
                                       "devDependency");
  }

  const Workspace& workspace_;
  const PublishOptions& options_;
  std::unordered_map<std::string, const Package*> by_name_;
};

}  // namespace

Manifest publish_manifest(const Workspace& workspace, const PublishOptions& options) {
  return Publisher{workspace, options}.run();
}

}  // namespace tenure::pipeline
