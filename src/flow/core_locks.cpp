// Locks of workflows: tickets of the lock space, each anchored on a key of its own. The workflow's
// transactions put and remove that key; without it the ticket is gone.
#include <coroutine>
#include <exception>

#include "flow/core.hpp"

namespace tenure::flow {

// Runs by itself. The engine knows it, and ends what still waits when the engine ends.
struct Core::LockCall {
  // Resumes in a job of the engine's, which runs the turn.
  struct OnEngine {
    std::shared_ptr<Core> core;
    void execute(ResumeHandle resume) const {
      core->post_turn([resume = std::move(resume)]() mutable { resume(); });
    }
  };

  // NOLINTNEXTLINE(readability-identifier-naming): the language's name.
  struct promise_type {
    promise_type(Core& /*this*/, const std::shared_ptr<Core>& core, const std::string& /*id*/,
                 const OpKey& /*key*/, const Owner& /*owner*/, const std::vector<Claim>& /*claims*/)
        : core_(core.get()) {
      const base::Mutex::Scoped lock{core_->mutex_};
      core_->lock_calls_.insert(address());
    }
    promise_type(const promise_type&) = delete;
    promise_type& operator=(const promise_type&) = delete;
    ~promise_type() {
      const base::Mutex::Scoped lock{core_->mutex_};
      core_->lock_calls_.erase(address());
    }
    // NOLINTBEGIN(readability-convert-member-functions-to-static): the language calls them.
    LockCall get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
    // NOLINTEND(readability-convert-member-functions-to-static)

   private:
    void* address() noexcept {
      return std::coroutine_handle<promise_type>::from_promise(*this).address();
    }
    Core* core_;  // The frame's parameters keep it.
  };
};

namespace {

Event failed(const OpKey& key, std::string type, const std::exception& error) {
  const ErrorInfo info{.type = std::move(type), .code = {}, .message = error.what()};
  return {Event::Lock{.key = key, .granted = false, .value = info.text()}};
}

}  // namespace

void Core::end_lock_calls() {
  std::set<void*> left;
  {
    const base::Mutex::Scoped lock{mutex_};
    left = lock_calls_;
  }
  for (void* const frame : left) std::coroutine_handle<>::from_address(frame).destroy();
}

void Core::ask_lock(const std::string& id, const OpKey& key, Owner owner,
                    std::vector<Claim> claims) {
  post([self = shared_from_this(), id, key, owner = std::move(owner), claims = std::move(claims)] {
    self->wait_for_lock(self, id, key, owner, claims);
  });
}

// Not the space itself: waiting frames must not keep it open.
std::optional<Locker> Core::locker(const std::string& id, const OpKey& key,
                                   const Owner& owner) const {
  const std::shared_ptr<const Space> space = partitions_->space();
  if (!space) return std::nullopt;
  return space->as(owner)
      .anchored(keys::anchor(partition_of(id), id, key))
      .request_id(lock_request);
}

// A repeated request, after a crash, gets the ticket that the first one appended.
// NOLINTNEXTLINE(readability-convert-member-functions-to-static): its promise takes `this`.
Core::LockCall Core::wait_for_lock(std::shared_ptr<Core> self, std::string id, OpKey key,
                                   Owner owner, std::vector<Claim> claims) {
  std::optional<Event> event;
  bool again = false;
  try {
    const std::optional<Locker> locker = self->locker(id, key, owner);
    if (!locker) co_return;
    // A variable: g++ 12 destroys an aggregate in an expression with co_await twice.
    const LockCall::OnEngine on_engine{self};
    Hold hold = co_await locker->async_lock(claims, resume_on(on_engine));
    event.emplace(Event{
        Event::Lock{.key = key, .granted = true, .value = std::to_string(hold.detach().value)}});
  } catch (const Deadlock& error) {
    event = failed(key, "deadlock", error);
  } catch (const LimitMismatch& error) {
    event = failed(key, "limit-mismatch", error);
  } catch (const Evicted& error) {
    event = failed(key, "evicted", error);
  } catch (const BadRequest& error) {
    event = failed(key, "bad-request", error);
  } catch (const StoreError&) {
    again = true;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): see below.
    // The anchor is gone: the workflow was cancelled or has ended. Or the space is closed.
  }
  if (again) {
    self->post_at(
        self->store_->latest_now() + std::chrono::milliseconds{100},
        [self, id, key, owner, claims] { self->wait_for_lock(self, id, key, owner, claims); });
  } else if (event && !self->stopping()) {
    self->offer(id, *std::move(event), true);  // In a job of its own.
  }
}

}  // namespace tenure::flow
