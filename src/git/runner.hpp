// runner.hpp: one transaction at a time, under a hold that the caller has: attempts, pushes, and
// what follows a push.
//
//   fetch the head ─► reset the worktree ─► transform ─► commit ─► rehearse the copy ─► push
//        ▲                                                                                │
//        └────── pause, at most max_attempts times ◄────── the branch has moved ◄─────────┤
//                                                                                         ▼
//                                                       the working copy follows ◄── accepted
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "base/backoff.hpp"
#include "git/program.hpp"
#include "git/remote.hpp"
#include "git/settings.hpp"
#include "git/slot.hpp"
#include "git/working_copy.hpp"
#include "git/worktree.hpp"
#include "process/guardian.hpp"
#include "tenure/git.hpp"
#include "tenure/hold.hpp"

namespace tenure::git {

struct Destination {
  std::string remote;
  std::string branch;
  std::filesystem::path working_copy;
};

// What is locked in the space. Throws BadRequest for a remote or branch that git does not accept.
[[nodiscard]] Path lock_path_of(const Destination& destination);

class TransactionRunner {
 public:
  // Commands keep `session` open, so that the hold outlives them; -1: nothing. Throws BadRequest
  // for names and options that make no sense.
  TransactionRunner(Destination destination, Options options, process::Guardian guardian,
                    int session);

  Outcome transaction(const Hold& hold, const Transform& transform, const std::stop_token& stop);
  Outcome checkpoint(const Hold& hold, const std::string& message, const std::stop_token& stop);
  std::string preview(const Hold& hold, const Transform& transform, const std::stop_token& stop);

  // What a command that runs in the worktree must keep open until it has ended.
  [[nodiscard]] const std::vector<int>& shared_descriptors() const noexcept { return shared_; }

 private:
  struct Call {
    const Hold& hold;
    const std::stop_token& stop;
    std::string message;
    std::uint32_t attempt = 0;
  };
  // What one attempt works with.
  struct Round {
    Call& call;
    Worktree worktree;
    std::optional<WorkingCopy> copy;
    git_oid base{};    // The head of the remote branch,
    git_oid had{};     // and the tree that the files of the working copy have.
    git_oid commit{};  // What is to be pushed.
  };
  using Change = std::function<git_oid(Round&)>;  // Returns the tree of the commit to make.

  [[nodiscard]] Slot take_slot(const Call& call);
  void begin(Round& round);
  git_oid transformed(Round& round, const Transform& transform);
  Outcome run(Call& call, const Change& change);
  std::optional<Outcome> attempt(Call& call, const Slot& slot, const Change& change);
  // Null: the branch has moved.
  std::optional<Outcome> push(Round& round);
  [[nodiscard]] bool was_pushed(Round& round);
  [[nodiscard]] Outcome finish(Round& round, bool committed);
  void note_head(Round& round, bool committed);
  void await_locks(const WorkingCopy& copy) const;
  [[noreturn]] void give_up(const Call& call) const;
  void pause(const Call& call);
  void clone_if_missing(const std::stop_token& stop);
  [[nodiscard]] Round new_round(Call& call, const Slot& slot);

  const Destination destination_;
  const Options options_;
  const RemoteBranch remote_;
  const int session_;
  std::vector<int> shared_;
  GitProgram program_;
  UserSettings settings_;
  bool has_settings_ = false;  // They are read with the first call.
  std::mt19937_64 random_{std::random_device{}()};
  base::Backoff backoff_;
  bool met_lock_file_ = false;  // The last push did.
  bool maintains_ = false;      // The last push may be followed by a clean-up.
};

}  // namespace tenure::git
