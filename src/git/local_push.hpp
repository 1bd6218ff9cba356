// local_push.hpp: a push to a repository of this machine. libgit2 speaks the protocol and makes the
// pack; git's receive-pack, started here, stores it, runs the remote's hooks and moves the branch.
// `git push` would start twice as many processes for the same.
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "git/library.hpp"
#include "git/program.hpp"

namespace tenure::git {

struct LocalPush {
  std::filesystem::path remote;
  std::string ref;
  git_oid from{};         // What the ref must be,
  git_oid to{};           // and what it becomes.
  bool maintain = false;  // Let the remote clean up, if it wants to; in the foreground.
};

// As if `git push --porcelain` had answered. Throws GitError where git cannot be run, or was
// stopped.
[[nodiscard]] GitAnswer push_here(const LocalPush& push, git_repository* repository,
                                  GitProgram& program, const std::filesystem::path& directory,
                                  const std::stop_token& stop);

}  // namespace tenure::git
