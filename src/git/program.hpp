// program.hpp: the git program, one call at a time, under a guardian.
//
// Every call ends with everything that it started: no daemon of git's outlives it. A call that is
// stopped, or takes longer than its time, is killed with everything below it. git gets no terminal,
// so it never waits for an answer from a person; its messages are untranslated.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "git/git_process.hpp"
#include "process/guardian.hpp"

namespace tenure::git {

struct GitAnswer {
  int status = 0;  // A signal counts as 128 + its number.
  std::string output;
  std::string errors;
  [[nodiscard]] bool ok() const noexcept { return status == 0; }
};

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
struct GitCall {
  std::vector<std::string> arguments;
  std::filesystem::path directory{};
  std::string input{};
  std::vector<std::string> environment{};  // NAME=value sets, NAME alone removes.
};
// NOLINTEND(readability-redundant-member-init)

class GitProgram {
 public:
  GitProgram(process::Guardian guardian, std::chrono::nanoseconds timeout)
      : guardian_(std::move(guardian)), timeout_(timeout) {}

  // Descriptors that stay open until the last process of every later call has gone.
  void keep_open(std::vector<int> descriptors) { descriptors_ = std::move(descriptors); }

  // Throws GitError where git cannot be started, or was stopped, or took too long.
  [[nodiscard]] GitAnswer run(const GitCall& call, const std::stop_token& stop);
  // The same for a call that must succeed: throws GitError with git's words, and what they are
  // about. Returns the output.
  std::string expect(const GitCall& call, const std::stop_token& stop);
  // The same for a call that reads and writes while it runs. The conversation must not throw.
  [[nodiscard]] GitAnswer talk(const GitCall& call, const std::stop_token& stop,
                               const std::function<void(GitProcess&)>& conversation);

 private:
  [[nodiscard]] process::Command command_of(const GitCall& call) const;
  void check(const GitProcess::Result& result, const std::string& name) const;

  process::Guardian guardian_;
  std::chrono::nanoseconds timeout_;
  std::vector<int> descriptors_;
};

// Variables that bind git to a repository, as git's hooks have them set: NAME alone, to remove
// them. For git, and for commands that run in a worktree of ours.
[[nodiscard]] std::vector<std::string> without_repository_variables();

}  // namespace tenure::git
