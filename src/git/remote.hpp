// remote.hpp: the branch at the remote: what its head is, and moving it.
//
// A remote on this machine is read by libgit2, without a process and without copying objects. All
// others are fetched by git, the first time without history. Pushes to them are git's, which asks
// for credentials; local_push.hpp has the others. The hooks of both sides run in every case.
//
// Thread safety: none.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "git/program.hpp"
#include "git/words.hpp"
#include "git/worktree.hpp"

namespace tenure::git {

class RemoteBranch {
 public:
  RemoteBranch(std::string remote, std::string push_remote, std::string branch);

  [[nodiscard]] const std::string& remote() const noexcept { return remote_; }
  [[nodiscard]] const std::string& branch() const noexcept { return branch_; }
  // "branch 'main' of 'host:state.git'", for messages.
  [[nodiscard]] std::string text() const;

  // Where the objects of a remote on this machine are; nothing for another one.
  [[nodiscard]] std::optional<std::filesystem::path> objects() const;

  // The head. Its objects are then in the worktree's repository. Throws GitError where there is no
  // such branch, and for everything that goes wrong.
  [[nodiscard]] git_oid fetch(const Worktree& worktree, GitProgram& program,
                              const std::stop_token& stop) const;

  struct Push {
    PushVerdict verdict;
    std::string words;  // git's.
  };
  // Moves the head from `from` to `to`, or does nothing. `maintain`: a remote on this machine may
  // clean up after this one.
  [[nodiscard]] Push push(const Worktree& worktree, GitProgram& program, const git_oid& from,
                          const git_oid& to, bool maintain, const std::stop_token& stop) const;

  // The remote's lock file of the branch, described, if that is here and old enough to be stale.
  [[nodiscard]] std::optional<std::string> stale_lock() const;

 private:
  [[nodiscard]] std::optional<git_oid> read_here() const;
  [[noreturn]] void fail_missing(GitProgram& program, const Worktree& worktree,
                                 const std::stop_token& stop) const;
  [[nodiscard]] std::string without_secrets(std::string text) const;

  std::string remote_;
  std::string push_remote_;
  std::string branch_;
  std::optional<std::filesystem::path> path_;
};

}  // namespace tenure::git
