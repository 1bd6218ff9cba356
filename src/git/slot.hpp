// slot.hpp: a temporary worktree that is kept for the next transaction, and belongs to one process
// at a time.
//
//   DIRECTORY/KEY/0/lock     flock: the process that works here; its git processes share it
//                  /ready    the worktree below was completed
//                  /busy     a transaction runs, or was killed
//                  /tree/    the worktree; tree/.git names its administrative directory
//                  /home.git own repository, where no local one was given
//   DIRECTORY/KEY/1/...      another one, for a process that does not share the lock in the space
//
// KEY stands for a remote, a branch and a local repository. The worktree is a linked worktree of
// the local repository (git worktree), or of home.git. Its detached HEAD is the last head of the
// remote branch that this slot saw, so garbage collection keeps that commit.
//
// While the flock is held, every lock file of git's in the administrative directory, and in
// home.git, is stale: nobody else works there. They are removed.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "git/library.hpp"
#include "process/descriptor.hpp"

namespace tenure::git {

struct SlotPlan {
  std::filesystem::path directory;  // Of all slots.
  std::string key;
  std::optional<std::filesystem::path> local_repository;  // Its common directory.
  std::optional<std::filesystem::path> objects;  // Of a remote on this machine: never copied.
};

class Slot {
 public:
  static constexpr int max_slots = 64;

  // The first slot that is free, made where it is missing or damaged. Throws GitError.
  [[nodiscard]] static Slot take(const SlotPlan& plan);
  Slot(Slot&&) noexcept = default;
  Slot& operator=(Slot&&) = delete;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot();

  [[nodiscard]] std::filesystem::path tree() const { return directory_ / "tree"; }
  // HEAD, index and FETCH_HEAD of the worktree.
  [[nodiscard]] const std::filesystem::path& git_directory() const noexcept { return admin_; }
  [[nodiscard]] const std::filesystem::path& common_directory() const noexcept { return common_; }
  [[nodiscard]] bool has_own_repository() const noexcept { return own_; }
  [[nodiscard]] int descriptor() const noexcept { return lock_.get(); }

  // The repository of the worktree. `settings`: what libgit2 is to know of git's configuration.
  [[nodiscard]] Repo open(const std::string& settings) const;
  // The last head that was seen here.
  [[nodiscard]] static std::optional<git_oid> seen(git_repository* repository);
  static void set_seen(git_repository* repository, const git_oid& head);

  // After a transform: it may have removed tree/.git, or killed a git that left lock files.
  void restore() const;
  // Removes the worktree; the next take() makes it anew.
  void discard() const;

 private:
  Slot(std::filesystem::path directory, const SlotPlan& plan, int number, process::Descriptor lock);
  void prepare(const SlotPlan& plan);
  void build(const SlotPlan& plan);
  void remove_stale_locks() const;

  std::filesystem::path directory_;
  std::filesystem::path common_;
  std::filesystem::path admin_;
  bool own_;
  process::Descriptor lock_;
};

// $XDG_CACHE_HOME/tenure/git, or ~/.cache/tenure/git. Throws GitError where there is neither.
[[nodiscard]] std::filesystem::path default_slot_directory();

}  // namespace tenure::git
