// worktree.hpp: files and commits in the temporary worktree, by libgit2, or by git where only git
// can: filter drivers (git-lfs), signatures and commit hooks.
//
// Thread safety: none.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "git/library.hpp"
#include "git/program.hpp"
#include "git/settings.hpp"
#include "git/slot.hpp"

namespace tenure::git {

struct CommitPlan {
  git_oid tree{};
  git_oid parent{};
  std::string message;
  std::optional<Identity> author;  // Null: as git finds it.
};

class Worktree {
 public:
  Worktree(const Slot& slot, GitProgram& program, UserSettings& settings,
           const std::stop_token& stop);

  [[nodiscard]] git_repository* repository() const noexcept { return repository_.get(); }
  [[nodiscard]] const Slot& slot() const noexcept { return slot_; }

  // The files of the commit and nothing else: ignored files and empty directories go, too.
  void reset_to(const git_oid& commit) const;
  // The tree of all files that are there and not ignored.
  [[nodiscard]] git_oid stage() const;
  // As stage(), for a tree that was not made from the files here.
  void load(const git_oid& tree) const;
  // Returns the new commit. No ref points to it.
  [[nodiscard]] git_oid commit(const CommitPlan& plan);

  // Whether files of the commit go through a filter driver of git's configuration.
  [[nodiscard]] bool uses_filters(const git_oid& commit) const;
  // Whether only git can push as it is configured: a pre-push hook, signed pushes, push options.
  [[nodiscard]] bool pushes_by_git() const;
  [[nodiscard]] std::string patch(const git_oid& from_commit, const git_oid& to_tree) const;
  [[nodiscard]] bool is_ancestor(const git_oid& old, const git_oid& head) const;

 private:
  [[nodiscard]] bool by_git() const;  // Whether git must make the commit.
  [[nodiscard]] std::filesystem::path hooks() const;
  [[nodiscard]] git_oid commit_by_git(const CommitPlan& plan) const;
  void read_identities(const CommitPlan& plan);
  // NOLINTNEXTLINE(modernize-use-nodiscard): most calls of git print nothing.
  std::string git(std::vector<std::string> arguments, std::string input = {},
                  std::vector<std::string> environment = {}) const;

  const Slot& slot_;
  GitProgram& program_;
  UserSettings& settings_;
  const std::stop_token& stop_;
  Repo repository_;
};

}  // namespace tenure::git
