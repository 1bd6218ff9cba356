#include "git/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace tenure::git {
namespace {

// A value in a configuration file: quoted, so that nothing in it is special.
std::string quoted(std::string_view value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

bool is_true(std::string_view value) {
  static constexpr std::array<std::string_view, 4> words{"true", "yes", "on", "1"};
  return std::ranges::find(words, value) != words.end();
}

}  // namespace

UserSettings parse_settings(std::string_view list) {
  UserSettings out;
  out.core = "[core]\n";
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find('\0'));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    const std::size_t newline = entry.find('\n');
    const std::string_view key = entry.substr(0, newline);
    const bool bare = newline == std::string_view::npos;  // "key" alone means true.
    const std::string_view value = bare ? "true" : entry.substr(newline + 1);
    if (key == "commit.gpgsign") out.signs = is_true(value);
    if (key == "push.gpgsign" || key == "push.pushoption") out.special_pushes = value != "false";
    if (key == "core.hookspath") out.hooks_path = value;
    if (key.starts_with("filter.") &&
        (key.ends_with(".clean") || key.ends_with(".smudge") || key.ends_with(".process"))) {
      out.filters = true;
    }
    constexpr std::string_view core = "core.";
    // What says where a repository is does not apply to the worktree.
    if (!key.starts_with(core) || key == "core.bare" || key == "core.worktree") continue;
    const std::string_view name = key.substr(core.size());
    const bool plain = std::ranges::all_of(
        name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
    if (plain && !name.empty()) {
      out.core += "\t" + std::string{name} + " = " + quoted(value) + "\n";
    }
  }
  return out;
}

UserSettings read_settings(GitProgram& program, const std::filesystem::path& tree,
                           const std::stop_token& stop) {
  UserSettings out = parse_settings(
      program.expect({.arguments = {"config", "--list", "-z"}, .directory = tree}, stop));
  if (!out.hooks_path.empty()) {  // Only git expands "~".
    out.hooks_path = program.expect(
        {.arguments = {"rev-parse", "--git-path", "hooks"}, .directory = tree}, stop);
    while (out.hooks_path.ends_with('\n')) out.hooks_path.pop_back();
  }
  return out;
}

Identity parse_identity(std::string_view text) {
  const std::size_t open = text.rfind(" <");
  const std::size_t close = text.rfind('>');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2) {
    throw GitError(Problem::failed,
                   "git reported an identity that cannot be read: '" + std::string{text} + "'");
  }
  return {.name = std::string{text.substr(0, open)},
          .email = std::string{text.substr(open + 2, close - open - 2)}};
}

Identity read_identity(GitProgram& program, const std::filesystem::path& tree,
                       const std::string& variable, const std::stop_token& stop) {
  return parse_identity(program.expect({.arguments = {"var", variable}, .directory = tree}, stop));
}

bool has_push_hook(const std::filesystem::path& directory) {
  return ::access((directory / "pre-push").c_str(), X_OK) == 0;
}

bool has_commit_hooks(const std::filesystem::path& directory) {
  static constexpr std::array<const char*, 4> names{"pre-commit", "prepare-commit-msg",
                                                    "commit-msg", "post-commit"};
  return std::ranges::any_of(names, [&directory](const char* name) {
    return ::access((directory / name).c_str(), X_OK) == 0;
  });
}

}  // namespace tenure::git
