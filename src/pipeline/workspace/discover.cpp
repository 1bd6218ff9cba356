#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/escape.hpp"
#include "pipeline/workspace/workspace.hpp"

namespace tenure::pipeline {
namespace {

namespace fs = std::filesystem;
using PackageJson = nlohmann::json;

constexpr std::uintmax_t max_file = 16U << 20U;
constexpr std::size_t max_depth = 32;  // Of directories below the root.
constexpr std::size_t max_directories = 100'000;
constexpr std::array sections{"dependencies", "optionalDependencies", "peerDependencies",
                              "devDependencies"};

PackageJson parse_json(std::string_view text, const std::string& file) {
  try {
    PackageJson json = PackageJson::parse(text);
    if (json.is_object()) return json;
    throw WorkspaceError(file + ": it is not a JSON object: correct it");
  } catch (const PackageJson::exception& error) {
    std::string why;
    append_escaped(why, error.what(), "");
    throw WorkspaceError(file + ": it is not valid JSON: " + why + ": correct it");
  }
}

// Null: there is no such file.
std::optional<std::string> text_of_file(const fs::path& root, const std::string& name) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(root / name, error);
  if (error) return std::nullopt;
  if (size > max_file) throw WorkspaceError(name + ": it has more than 16 MiB: check it");
  std::ifstream file{root / name, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{file}, {}};
  if (!file) throw WorkspaceError(name + ": it can't be read: check its permissions");
  return text;
}

std::string text_at(const PackageJson& json, const char* key, const std::string& file) {
  const auto at = json.find(key);
  if (at == json.end()) return {};
  if (!at->is_string()) throw WorkspaceError(file + ": `" + key + "` must be a text");
  return at->get<std::string>();
}

std::vector<std::string> texts_of(const PackageJson& json) {
  std::vector<std::string> out;
  if (!json.is_array()) throw WorkspaceError("package.json: `workspaces` must be an array");
  for (const PackageJson& one : json) {
    if (!one.is_string()) throw WorkspaceError("package.json: `workspaces` must have texts only");
    out.push_back(one.get<std::string>());
  }
  return out;
}

bool matches_segment(std::string_view pattern, std::string_view name) {
  // Greedy with one way back: the last star takes one byte more.
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string_view first_segment(std::string_view path) { return path.substr(0, path.find('/')); }
std::string_view after_first(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
}

// NOLINTNEXTLINE(misc-no-recursion): paths are max_depth deep.
bool matches_segments(std::string_view pattern, std::string_view path) {
  if (pattern.empty()) return path.empty();
  if (first_segment(pattern) == "**") {
    if (matches_segments(after_first(pattern), path)) return true;
    return !path.empty() && matches_segments(pattern, after_first(path));
  }
  return !path.empty() && matches_segment(first_segment(pattern), first_segment(path)) &&
         matches_segments(after_first(pattern), after_first(path));
}

// Later patterns win: !packages/old takes one out again.
bool is_selected(const std::vector<std::string>& patterns, const std::string& directory) {
  bool selected = false;
  for (const std::string_view pattern : patterns) {
    const bool out = pattern.starts_with('!');
    if (selected == out && matches_pattern(pattern.substr(out ? 1 : 0), directory)) selected = !out;
  }
  return selected;
}

// Every directory below the root, but for those of other tools. Sorted.
std::vector<std::string> directories_of(const fs::path& root) {
  std::vector<std::string> out;
  const auto options = fs::directory_options::skip_permission_denied;
  for (auto at = fs::recursive_directory_iterator{root, options};
       at != fs::recursive_directory_iterator{}; ++at) {
    const std::string name = at->path().filename().string();
    if (!at->is_directory() || at->is_symlink()) continue;
    if (name == "node_modules" || name == ".git" ||
        static_cast<std::size_t>(at.depth()) >= max_depth) {
      at.disable_recursion_pending();
      continue;
    }
    out.push_back(at->path().lexically_relative(root).string());
    if (out.size() > max_directories) {
      throw WorkspaceError(
          "package.json: the workspace has more than 100,000 directories: check "
          "that it is the right one");
    }
  }
  std::ranges::sort(out);
  return out;
}

std::map<std::string, std::string> catalog_of(const YAML::Node& node) {
  std::map<std::string, std::string> out;
  for (const auto& entry : node) {
    out.emplace(entry.first.as<std::string>(), entry.second.as<std::string>());
  }
  return out;
}

}  // namespace

Package parse_package(std::string_view text, const std::string& directory) {
  const std::string file = directory.empty() ? "package.json" : directory + "/package.json";
  const PackageJson json = parse_json(text, file);
  Package package;
  package.directory = directory;
  package.name = text_at(json, "name", file);
  package.version = text_at(json, "version", file);
  const auto is_private = json.find("private");
  package.is_private = is_private != json.end() && *is_private == true;
  for (const char* const section : sections) {
    const auto found = json.find(section);
    if (found == json.end()) continue;
    if (!found->is_object()) {
      throw WorkspaceError(file + ": `" + section + "` must be an object");
    }
    for (const auto& [name, range] : found->items()) {
      if (!range.is_string()) {
        // NOLINTNEXTLINE(performance-inefficient-string-concatenation): once, it throws.
        throw WorkspaceError(file + ": '" + name + "' in `" + section + "` must be a text");
      }
      package.dependencies.push_back(
          {.section = section, .name = name, .range = range.get<std::string>()});
    }
  }
  return package;
}

std::optional<std::vector<std::string>> parse_patterns(std::string_view text) {
  const PackageJson json = parse_json(text, "package.json");
  const auto found = json.find("workspaces");
  if (found == json.end()) return std::nullopt;
  if (!found->is_object()) return texts_of(*found);
  const auto packages = found->find("packages");  // Yarn's first form.
  return packages == found->end() ? std::vector<std::string>{} : texts_of(*packages);
}

PnpmFile parse_pnpm_file(const std::string& text) {
  try {
    PnpmFile out;
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return out;
    if (!root.IsMap()) throw WorkspaceError("pnpm-workspace.yaml: it must be a map: correct it");
    if (const YAML::Node packages = root["packages"]) {
      out.patterns = packages.as<std::vector<std::string>>();
    }
    if (const YAML::Node catalog = root["catalog"]) out.catalogs[""] = catalog_of(catalog);
    if (const YAML::Node catalogs = root["catalogs"]) {
      for (const auto& entry : catalogs) {
        const auto name = entry.first.as<std::string>();
        out.catalogs[name == "default" ? "" : name] = catalog_of(entry.second);
      }
    }
    return out;
  } catch (const YAML::Exception& error) {
    throw WorkspaceError("pnpm-workspace.yaml:" + std::to_string(error.mark.line + 1) + ":" +
                         std::to_string(error.mark.column + 1) + ": " + error.msg + ": correct it");
  }
}

bool matches_pattern(std::string_view pattern, std::string_view directory) {
  if (pattern.starts_with("./")) pattern.remove_prefix(2);
  while (pattern.ends_with('/')) pattern.remove_suffix(1);
  return matches_segments(pattern, directory);
}

Workspace read_workspace(const fs::path& root) {
  Workspace workspace{.root = root};
  const std::optional<std::string> own = text_of_file(root, "package.json");
  if (!own) throw WorkspaceError((root / "package.json").string() + ": there is no such file");
  std::vector<std::string> patterns;
  if (const auto pnpm = text_of_file(root, "pnpm-workspace.yaml")) {
    PnpmFile file = parse_pnpm_file(*pnpm);
    patterns = std::move(file.patterns);
    workspace.catalogs = std::move(file.catalogs);
    workspace.packages.push_back(parse_package(*own, ""));  // pnpm counts the root as a package.
  } else if (auto found = parse_patterns(*own)) {
    patterns = *std::move(found);
  } else {
    throw WorkspaceError((root / "package.json").string() +
                         ": it has no `workspaces`, and there is no pnpm-workspace.yaml: add one");
  }
  for (const std::string& directory : directories_of(root)) {
    if (!is_selected(patterns, directory)) continue;
    const auto text = text_of_file(root, directory + "/package.json");
    if (!text) continue;
    workspace.packages.push_back(parse_package(*text, directory));
    if (workspace.packages.size() > max_packages) {
      throw WorkspaceError("package.json: the workspace has more than 10,000 packages: split it");
    }
  }
  return workspace;
}

}  // namespace tenure::pipeline
