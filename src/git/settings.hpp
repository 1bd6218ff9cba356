// settings.hpp: what git's own configuration says about commits here. Read once, by git, so that
// every file, include and variable counts that git knows of.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "git/program.hpp"
#include "tenure/git.hpp"

namespace tenure::git {

struct UserSettings {
  bool signs = false;              // commit.gpgSign
  bool filters = false;            // A filter driver, such as git-lfs, is configured.
  bool special_pushes = false;     // Signed pushes, or push options.
  std::string hooks_path;          // core.hooksPath, as it is written; empty: not set.
  std::string core;                // The section [core], for libgit2.
  std::optional<Identity> author;  // Both are read with the first commit.
  std::optional<Identity> committer;
};

// Of the output of `git config --list -z`. Pure.
[[nodiscard]] UserSettings parse_settings(std::string_view list);
[[nodiscard]] UserSettings read_settings(GitProgram& program, const std::filesystem::path& tree,
                                         const std::stop_token& stop);

// "Ann <ann@host> 1700000000 +0000", as `git var` prints it. Throws GitError for another text.
[[nodiscard]] Identity parse_identity(std::string_view text);
// `variable` is GIT_AUTHOR_IDENT or GIT_COMMITTER_IDENT.
[[nodiscard]] Identity read_identity(GitProgram& program, const std::filesystem::path& tree,
                                     const std::string& variable, const std::stop_token& stop);

// Whether a hook would run at `git commit`.
[[nodiscard]] bool has_commit_hooks(const std::filesystem::path& directory);
[[nodiscard]] bool has_push_hook(const std::filesystem::path& directory);

}  // namespace tenure::git
