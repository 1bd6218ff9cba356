// How waiters are notified: threads that sleep, and coroutines.
#include <chrono>
#include <ctime>
#include <exception>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/futex.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/coroutine_wait.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/error.hpp"
#include "tenure/hold.hpp"

namespace tenure::detail {

void Backend::throw_not_anchored() {
  throw BadRequest(
      "no ticket of a local space outlives its process: use a space over a store, and "
      "space.anchored(key)");
}

void Backend::throw_no_store() {
  throw BadRequest("a local space has no store for guards and writes: open a space over a store");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): spaces over a store keep them.
void Backend::release_with_then(const Grant& grant, TxnPart part, Released done) noexcept {
  try {
    done(nullptr, release_with(grant, part));
  } catch (...) {
    done(std::current_exception(), false);
  }
}

void throw_outcome(const Waiter& waiter, WaitOutcome outcome) {
  switch (outcome) {
    case WaitOutcome::granted:
    case WaitOutcome::taken: return;
    case WaitOutcome::closed: throw Closed("the space was closed while this request waited");
    case WaitOutcome::evicted: throw Evicted("an operator evicted this request while it waited");
    case WaitOutcome::lost:
      throw SessionLost(
          "the store ended the session of this process while this request waited: "
          "open the space again");
    case WaitOutcome::failed: std::rethrow_exception(waiter.error);
  }
}

void SyncWaiter::finish(Word word) noexcept {
  // The waiter may be destroyed right after the store to word_.
  std::atomic<std::uint32_t>* const address = &word_;
  word_.store(word, std::memory_order_release);
  base::futex_wake(address, 1);
}

void SyncWaiter::on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
  auto& self = static_cast<SyncWaiter&>(waiter);
  self.outcome_ = outcome;
  self.finish(ended);
}

void SyncWaiter::wait() noexcept {
  while (!finished()) base::futex_wait(&word_, waiting);
}

void SyncWaiter::wait_for(std::chrono::nanoseconds time) noexcept {
  const std::chrono::nanoseconds until =
      saturating_add(std::chrono::steady_clock::now().time_since_epoch(), time);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(until);
  const timespec deadline{.tv_sec = static_cast<time_t>(seconds.count()),
                          .tv_nsec = static_cast<long>((until - seconds).count())};
  base::futex_wait(&word_, waiting, &deadline);
}

// ---- Coroutines ----

// By value: the awaiter and its reference may be destroyed as soon as the request is queued.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
bool CoroutineWait::start(std::shared_ptr<CoroutineWait> self, const Ask& ask,
                          std::stop_token stop) {
  CoroutineWait& wait = *self;
  wait.self_ = self;
  try {
    if (wait.backend_->request(ask, wait)) {
      wait.self_ = nullptr;
      return false;
    }
  } catch (...) {
    wait.self_ = nullptr;
    throw;
  }
  if (stop.stop_possible()) wait.on_stop_.emplace(std::move(stop), OnStop{&wait});
  return (wait.state_.fetch_or(suspended, std::memory_order_acq_rel) & ended) == 0;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): as above.
bool CoroutineWait::start_try(std::shared_ptr<CoroutineWait> self, const Ask& ask) {
  CoroutineWait& wait = *self;
  wait.self_ = self;
  try {
    if (!wait.backend_->try_in_background(ask, wait)) {
      wait.self_ = nullptr;
      if (!wait.backend_->try_request(ask, wait.grant)) wait.outcome_ = WaitOutcome::taken;
      return false;
    }
  } catch (...) {
    wait.self_ = nullptr;
    throw;
  }
  return (wait.state_.fetch_or(suspended, std::memory_order_acq_rel) & ended) == 0;
}

void CoroutineWait::resume() {
  const auto before = state_.fetch_or(resumed, std::memory_order_acq_rel);
  if ((before & (resumed | destroyed)) == 0) coroutine_.resume();
}

bool CoroutineWait::finish() {
  on_stop_.reset();
  if (stopped_ || outcome_ == WaitOutcome::taken) return false;
  throw_unless_granted(*this, outcome_);
  return true;
}

void CoroutineWait::destroy() noexcept {
  const ResumeScope scope;
  const auto before = state_.fetch_or(destroyed, std::memory_order_acq_rel);
  on_stop_.reset();
  if ((before & ended) != 0) {
    give_back();
  } else if (cancel(backend_, *this)) {
    self_ = nullptr;
  }
}

void CoroutineWait::on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
  auto& self = static_cast<CoroutineWait&>(waiter);
  self.outcome_ = outcome;
  self.end();
}

void CoroutineWait::OnStop::operator()() const noexcept {
  const ResumeScope scope;
  if (!cancel(wait->backend_, *wait)) return;
  wait->stopped_ = true;
  wait->end();
}

void CoroutineWait::end() noexcept {
  std::shared_ptr<CoroutineWait> self = std::move(self_);
  const auto before = state_.fetch_or(ended, std::memory_order_acq_rel);
  if ((before & destroyed) != 0) {
    give_back();
  } else if ((before & suspended) != 0) {
    schedule(std::move(self));
  }
}

void CoroutineWait::give_back() const noexcept {
  if (stopped_ || outcome_ != WaitOutcome::granted) return;
  const Hold undelivered = HoldAccess::make(backend_, grant);
}

namespace {

// One per thread. `tail` is valid while `head` is set.
struct ResumeQueue {
  CoroutineWait* head;
  CoroutineWait* tail;
  int scopes;
};
thread_local constinit ResumeQueue due{};

}  // namespace

void resume_soon(std::shared_ptr<CoroutineWait> wait) noexcept {
  const ResumeScope scope;
  CoroutineWait* const last = wait.get();
  last->next_due_ = nullptr;
  last->self_ = std::move(wait);
  (due.head == nullptr ? due.head : due.tail->next_due_) = last;
  due.tail = last;
}

ResumeScope::ResumeScope() noexcept { ++due.scopes; }

ResumeScope::~ResumeScope() {
  if (due.scopes == 1) {
    while (due.head != nullptr) {
      const std::shared_ptr<CoroutineWait> next = std::move(due.head->self_);
      due.head = next->next_due_;
      next->resume();
    }
  }
  --due.scopes;
}

}  // namespace tenure::detail
