// git.hpp: a git repository as a small shared database: several processes and hosts change one
// branch, and no change is lost.
//
//   tenure::Space space = tenure::open("sqlite:ops.db");
//   tenure::git::Repository store{"ssh://git@host/state.git", "main", "/srv/state", space};
//   store.transaction([](tenure::git::Transaction& change) {
//     write(change.directory() / "version", "7");
//   });
//
// A transaction holds the lock of the branch in the space, brings a temporary worktree to the head
// of the remote branch, calls the transform there, commits what changed and pushes it:
//
//   the push                                 | what happens
//   -----------------------------------------+----------------------------------------------------
//   is accepted                              | the working copy follows, and the call returns
//   is rejected because the branch has moved | the transform runs again, on the new head, after a
//                                            | random delay; at most max_attempts times
//   has no answer                            | the branch is read: our commit is in it, or it is
//                                            | not, or the call throws unknown_outcome
//   fails otherwise                          | the call throws, with git's own words
//
// Invariants
//  1. The remote branch changes by one commit, whose parent is the head that the transform saw; or
//     not at all. No change, no commit.
//  2. The transform sees exactly the files of that head. An exception of the transform leaves the
//     remote and the working copy as they were, and reaches the caller.
//  3. The lock makes retries rare. Without it, or beside writers who do not take it, no change is
//     lost either: the push succeeds only if the head has not moved.
//
// git itself does what needs the network, credentials, hooks or signatures, so that the user's
// configuration counts; libgit2 does the rest. docs/git.md says which part does what.
//
// Thread safety: const and non-const calls, from any thread, at once; they wait for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/path.hpp"
#include "tenure/space.hpp"
#include "tenure/ticket.hpp"

namespace tenure::git {

enum class Problem : std::uint8_t {
  branch_moved,       // Other writers pushed first, every time: retry later.
  history_rewritten,  // The branch no longer contains a commit that it contained.
  branch_missing,
  repository_empty,
  working_copy,     // It cannot follow: uncommitted changes, commits of its own, another branch.
  disk_full,        // Here or at the remote.
  refused,          // The remote does not accept the push: no permission, read-only, a hook.
  rejected_here,    // A hook or the signing program of this machine did not accept the commit.
  locked,           // A lock file of another git is in the way.
  lock_lost,        // The hold in the space was evicted or its session ended. Nothing was pushed.
  unknown_outcome,  // The push had no answer, and the remote cannot be read.
  stopped,          // By the caller's stop_token. Nothing was pushed.
  failed,           // Anything else; the message has git's own words.
};

class GitError : public Error {
 public:
  GitError(Problem problem, const std::string& message, std::uint32_t attempts = 0)
      : Error(message), problem_(problem), attempts_(attempts) {}
  [[nodiscard]] Problem problem() const noexcept { return problem_; }
  // How often the transform was called.
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }

 private:
  Problem problem_;
  std::uint32_t attempts_;
};

struct Identity {
  std::string name;
  std::string email;
};

// NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
struct Options {
  std::string message = "Update";
  Identity author{};          // Empty: as git finds it, in the environment and configuration.
  std::string push_remote{};  // Empty: the remote.
  std::uint32_t max_attempts = 20;
  // The delay before attempt n is random, up to the smaller of base * 2^n and cap.
  std::chrono::nanoseconds base = std::chrono::milliseconds{20};
  std::chrono::nanoseconds cap = std::chrono::seconds{2};
  std::chrono::nanoseconds git_timeout = std::chrono::minutes{10};  // Of one call of git.
  bool accept_rewritten_history = false;
  // A repository of this machine whose objects, configuration and hooks are used. Empty: that of
  // the working copy; without one, a small repository beside the temporary worktree.
  std::filesystem::path local_repository{};
  // Where temporary worktrees are kept. Empty: $XDG_CACHE_HOME/tenure/git or ~/.cache/tenure/git.
  std::filesystem::path directory{};
  std::function<void(std::chrono::nanoseconds)> sleep = nullptr;  // Null: until then, or a stop.
  std::function<double()> random = nullptr;                       // In [0, 1). Null: a generator.
};
// NOLINTEND(readability-redundant-member-init)

class TransactionRunner;
class RepositoryState;

// What a transform gets.
class Transaction {
 public:
  // The worktree: a directory with the files of the head, and nothing else.
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }
  [[nodiscard]] const std::string& head() const noexcept { return head_; }
  [[nodiscard]] Token token() const noexcept { return token_; }
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }  // From 1.
  void set_message(std::string message) { message_ = std::move(message); }

 private:
  friend class TransactionRunner;
  std::filesystem::path directory_;
  std::string head_;
  Token token_;
  std::uint32_t attempt_ = 0;
  std::string message_;
};
using Transform = std::function<void(Transaction&)>;

struct Outcome {
  std::string commit;  // Empty: no change, no commit.
  std::string head;    // Of the branch, as far as this call knows.
  std::uint32_t attempts = 0;
  Token token;
  // Why the working copy does not have the head, where it was changed during the push; else empty.
  std::string working_copy_note;
};

class Repository {
 public:
  // `remote` is a URL or a path, as git takes them. An empty `working_copy` means none; one that
  // does not exist is cloned at the first call. Connects to nothing. Starts one small process.
  Repository(std::string remote, std::string branch, std::filesystem::path working_copy,
             const Space& space, Options options = {});
  explicit Repository(std::unique_ptr<RepositoryState> state) noexcept;
  Repository(Repository&& other) noexcept;
  Repository& operator=(Repository&& other) noexcept;
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;
  ~Repository();

  // Throw GitError, what the transform throws, and what Locker::lock() throws.
  Outcome transaction(const Transform& transform, std::stop_token stop = {});
  // Commits what the working copy holds on top of the remote branch, and pushes that. Where the
  // branch has moved, changes are merged; lines that both changed are a `working_copy` problem.
  Outcome checkpoint(const std::string& message, std::stop_token stop = {});
  // The changes that the transform makes, as a patch. Pushes nothing.
  [[nodiscard]] std::string preview(const Transform& transform, std::stop_token stop = {});

  // What is locked in the space: tenure.git/REMOTE/BRANCH.
  [[nodiscard]] const Path& lock_path() const noexcept;

 private:
  std::unique_ptr<RepositoryState> state_;
};

// The remote and the branch that the repository around a directory pushes to.
struct Upstream {
  std::string remote;
  std::string push_remote;  // Empty: the remote.
  std::string branch;
  std::filesystem::path repository;
};
// `branch` empty: the one that is checked out there. Throws GitError.
[[nodiscard]] Upstream find_upstream(const std::filesystem::path& directory,
                                     const std::string& branch = {});

}  // namespace tenure::git
