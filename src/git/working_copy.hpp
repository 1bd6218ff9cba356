// working_copy.hpp: a clone in which people and programs read the files, and may change them.
//
// It follows the remote branch by fast-forward only. What is not committed there is never
// overwritten: a file that both sides changed stops the transaction before its push.
//
// Thread safety: none.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "git/library.hpp"
#include "git/worktree.hpp"

namespace tenure::git {

class WorkingCopy {
 public:
  // Throws GitError where it is not a clone, or another branch is checked out.
  WorkingCopy(std::filesystem::path directory, std::string branch);

  [[nodiscard]] const git_oid& head() const noexcept { return head_; }

  // Throws GitError where a lock file of git's is in the way.
  void check_locks() const;
  [[nodiscard]] bool has_young_lock() const;
  // Lock files from just after a follow() began whose process was killed: they are that one's.
  void remove_own_locks() const;
  // Throws GitError where it has commits that `head` does not contain.
  void check_behind(const Worktree& worktree, const git_oid& head) const;
  // The tree of everything that is there and not ignored. Changes nothing in the working copy.
  [[nodiscard]] git_oid snapshot(GitProgram& program, const UserSettings& settings,
                                 const std::stop_token& stop) const;
  // `base` with the changes from our head to `tree`. Throws GitError for files that both changed.
  [[nodiscard]] git_oid merge(const git_oid& base, const git_oid& tree) const;

  // Whether follow() would overwrite nothing: throws GitError with the names of the files if not.
  // `had` is the tree that the files should have now.
  void rehearse(const git_oid& commit, const git_oid& had) const;
  // Brings files, index and branch to the commit. Throws GitError; files are then as before.
  void follow(const git_oid& commit, const git_oid& had);
  // Finishes a follow() whose process was killed, unless somebody has changed its files since.
  void finish_follow();
  [[nodiscard]] git_oid head_tree() const;

 private:
  void check_out(const git_oid& commit, const git_oid& had, unsigned int strategy) const;
  [[nodiscard]] bool is_left_by_follow(const git_diff_delta& delta) const;
  void move_branch(const git_oid& commit);
  [[nodiscard]] std::filesystem::path note() const;
  [[nodiscard]] std::vector<std::filesystem::path> lock_files() const;
  [[nodiscard]] std::string text() const { return "working copy '" + directory_.string() + "'"; }

  std::filesystem::path directory_;
  std::string branch_;
  Repo repository_;
  git_oid head_{};
};

}  // namespace tenure::git
