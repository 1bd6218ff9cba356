#include "git/repository.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "git/library.hpp"
#include "git/words.hpp"

namespace tenure::git {
namespace {

// The locks that this thread holds in its transactions: another transaction on the same branch,
// from inside a transform, would wait for itself.
thread_local std::vector<const Path*> held_here;

class HeldHere {
 public:
  explicit HeldHere(const Path& path) {
    if (std::ranges::any_of(held_here, [&path](const Path* held) { return *held == path; })) {
      throw Deadlock("a transform started another transaction on '" + path.text() +
                     "', which would wait for its own end: make both changes in one transaction");
    }
    held_here.push_back(&path);
  }
  HeldHere(const HeldHere&) = delete;
  HeldHere& operator=(const HeldHere&) = delete;
  ~HeldHere() { held_here.pop_back(); }
};

}  // namespace

RepositoryState::RepositoryState(Destination destination, const Space& space, Options options,
                                 process::Guardian guardian)
    : lock_path_(lock_path_of(destination)),
      locker_(space),
      runner_(std::move(destination), std::move(options), std::move(guardian), space.descriptor()) {
  start_library();
}

Hold RepositoryState::lock(const std::stop_token& stop) const {
  if (!stop.stop_possible()) return locker_.lock(lock_path_);
  std::optional<Hold> hold = locker_.lock(lock_path_, stop);
  if (!hold) throw GitError(Problem::stopped, "the wait for the lock was stopped");
  return *std::move(hold);
}

Outcome RepositoryState::transaction(const Transform& transform, const std::stop_token& stop) {
  const HeldHere here{lock_path_};
  const Hold hold = lock(stop);
  const base::Mutex::Scoped scoped{mutex_};
  return runner_.transaction(hold, transform, stop);
}

Outcome RepositoryState::checkpoint(const std::string& message, const std::stop_token& stop) {
  const HeldHere here{lock_path_};
  const Hold hold = lock(stop);
  const base::Mutex::Scoped scoped{mutex_};
  return runner_.checkpoint(hold, message, stop);
}

std::string RepositoryState::preview(const Transform& transform, const std::stop_token& stop) {
  const HeldHere here{lock_path_};
  const Hold hold = lock(stop);
  const base::Mutex::Scoped scoped{mutex_};
  return runner_.preview(hold, transform, stop);
}

Repository::Repository(std::string remote, std::string branch, std::filesystem::path working_copy,
                       const Space& space, Options options)
    : Repository(std::make_unique<RepositoryState>(
          Destination{.remote = std::move(remote),
                      .branch = std::move(branch),
                      .working_copy = std::move(working_copy)},
          space, std::move(options), process::Guardian::start(git_guardian))) {}

Repository::Repository(std::unique_ptr<RepositoryState> state) noexcept
    : state_(std::move(state)) {}
Repository::Repository(Repository&& other) noexcept = default;
Repository& Repository::operator=(Repository&& other) noexcept = default;
Repository::~Repository() = default;

// The public calls take the token by value, as those of the standard library and Locker do.
// NOLINTBEGIN(performance-unnecessary-value-param)
Outcome Repository::transaction(const Transform& transform, std::stop_token stop) {
  return state_->transaction(transform, stop);
}
Outcome Repository::checkpoint(const std::string& message, std::stop_token stop) {
  return state_->checkpoint(message, stop);
}
std::string Repository::preview(const Transform& transform, std::stop_token stop) {
  return state_->preview(transform, stop);
}
// NOLINTEND(performance-unnecessary-value-param)
const Path& Repository::lock_path() const noexcept { return state_->lock_path(); }

}  // namespace tenure::git
