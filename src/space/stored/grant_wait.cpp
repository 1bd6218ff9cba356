#include "space/stored/grant_wait.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::stored {

StoredSpace& stored_space(const Space& space) {
  auto* const stored = dynamic_cast<StoredSpace*>(&detail::SpaceAccess::backend(space));
  if (stored == nullptr) {
    throw BadRequest(
        "a space in 'local:' or 'sharded:' has no store of its own: open a space over one store");
  }
  return *stored;
}

// Owns itself from start() until `done` was called or the wait was cancelled.
struct GrantWait::Inner : detail::Waiter {
  Inner(StoredSpace& in, GrantWait::Done call)
      : Waiter(&on_done), space(&in), done_call(std::move(call)) {
    caller = detail::Caller::goes_on;
  }

  // NOLINTNEXTLINE(bugprone-exception-escape): `call` must not throw; a mutex that fails is a bug.
  static void on_done(Waiter& waiter, detail::WaitOutcome outcome) noexcept {
    auto& self = static_cast<Inner&>(waiter);
    const std::shared_ptr<Inner> keep = std::move(self.own);
    // A granted ticket counts as a hold of the space, which would keep the space alive.
    if (outcome == detail::WaitOutcome::granted) self.space->detach(self.grant);
    GrantWait::Done call;
    {
      const std::scoped_lock lock{self.mutex};
      if (self.dropped) return;
      self.runs_on = std::this_thread::get_id();
      call = std::move(self.done_call);
    }
    call({.outcome = outcome, .error = self.error});
    const std::scoped_lock lock{self.mutex};
    self.runs_on = {};
    self.changed.notify_all();
  }

  StoredSpace* const space;
  std::shared_ptr<Inner> own;
  std::mutex mutex;  // Guards what follows.
  std::condition_variable changed;
  GrantWait::Done done_call;
  bool dropped = false;
  std::thread::id runs_on;  // The thread that `done` runs on.
};

GrantWait::GrantWait(std::shared_ptr<Inner> inner) noexcept : inner_(std::move(inner)) {}

std::unique_ptr<GrantWait> GrantWait::start(StoredSpace& space, Row row, Token number,
                                            std::optional<ConflictQuery::Found> found, Done done) {
  const auto inner = std::make_shared<Inner>(space, std::move(done));
  std::unique_ptr<GrantWait> wait{new GrantWait{inner}};
  inner->own = inner;
  try {
    if (!space.attach(std::move(row), number, std::move(found), *inner)) return wait;
  } catch (...) {
    inner->decided = true;  // Nobody waits: the destructor must not ask the space.
    inner->own.reset();
    throw;
  }
  inner->decided = true;
  inner->own.reset();
  space.detach(inner->grant);
  return nullptr;
}

GrantWait::~GrantWait() {
  if (detail::cancel(inner_->space, *inner_)) {
    inner_->own.reset();
    return;
  }
  std::unique_lock lock{inner_->mutex};
  inner_->dropped = true;
  if (inner_->runs_on == std::this_thread::get_id()) return;
  inner_->changed.wait(lock, [this] { return inner_->runs_on == std::thread::id{}; });
}

}  // namespace tenure::stored
