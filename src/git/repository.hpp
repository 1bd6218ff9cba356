// repository.hpp: the inside of git::Repository: the lock in the space, and one runner.
//
// For programs that fork before they have threads: they start the guardian themselves, and make a
// Repository from a RepositoryState.
//
// Thread safety: all calls, from any thread, at once; they wait for each other.
#pragma once

#include <stop_token>
#include <string>

#include "base/mutex.hpp"
#include "git/runner.hpp"
#include "process/guardian.hpp"
#include "tenure/git.hpp"
#include "tenure/locker.hpp"

namespace tenure::git {

class RepositoryState {
 public:
  // Throws BadRequest for a name that git does not accept.
  RepositoryState(Destination destination, const Space& space, Options options,
                  process::Guardian guardian);

  Outcome transaction(const Transform& transform, const std::stop_token& stop);
  Outcome checkpoint(const std::string& message, const std::stop_token& stop);
  std::string preview(const Transform& transform, const std::stop_token& stop);
  [[nodiscard]] const Path& lock_path() const noexcept { return lock_path_; }

 private:
  [[nodiscard]] Hold lock(const std::stop_token& stop) const;

  const Path lock_path_;
  const Locker locker_;
  base::Mutex mutex_;  // For two spaces, or a `local:` one per thread.
  TransactionRunner runner_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::git
