// How those who wait are told: threads that sleep, and coroutines that are due.
#include <chrono>
#include <ctime>

#include "base/futex.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/error.hpp"

namespace tenure::detail {

void throw_outcome(WaitOutcome outcome) {
  switch (outcome) {
    case WaitOutcome::granted: return;
    case WaitOutcome::closed: throw Closed("the space was closed while this request waited");
    case WaitOutcome::evicted: throw Evicted("an operator evicted this request while it waited");
    case WaitOutcome::lost:
      throw SessionLost(
          "the store ended the session of this process while this request waited: "
          "open the space again");
  }
}

void SyncWaiter::finish(Word word) noexcept {
  // The waiter may be gone right after the store.
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

namespace {

// Of this thread. `tail` is meaningful while `head` is set.
struct ResumeQueue {
  Resumable* head;
  Resumable* tail;
  int scopes;
};
thread_local constinit ResumeQueue due{};

}  // namespace

void resume_soon(Resumable& coroutine) noexcept {
  const ResumeScope scope;
  coroutine.next = nullptr;
  (due.head == nullptr ? due.head : due.tail->next) = &coroutine;
  due.tail = &coroutine;
}

ResumeScope::ResumeScope() noexcept { ++due.scopes; }

ResumeScope::~ResumeScope() {
  if (due.scopes == 1) {
    while (due.head != nullptr) {
      const Resumable& next = *due.head;
      due.head = next.next;
      next.handle.resume();  // Its frame, and `next` with it, may be gone after this.
    }
  }
  --due.scopes;
}

}  // namespace tenure::detail
