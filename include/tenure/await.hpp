// await.hpp: waiting for a lock in a coroutine of any type, without Asio.
//
//   tenure::Hold hold = co_await space.async_lock(book(3));
//
// A coroutine that had to wait is resumed by whoever gave the lock back, at the end of that call:
// in the thread's own queue, so that a chain of hand-offs needs no stack. With resume_on(executor)
// it is resumed through executor.execute(function) instead, which must not call the function
// itself. One that did not have to wait goes on at once.
//
// g++ 12 does not compile braces inside of a co_await: give several claims a name first.
//
// The same object is an Asio operation where tenure/asio.hpp is included, so an asio::awaitable may
// co_await it too.
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "tenure/detail/backend.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/hold.hpp"
#include "tenure/request.hpp"

namespace tenure {

struct ResumeHandle {
  std::coroutine_handle<> handle;
  void operator()() const { handle.resume(); }
};

template <class E>
concept ResumesCoroutines =
    requires(E& executor, ResumeHandle resume) { executor.execute(resume); };

// Where to resume; by default in the queue of the thread that gave the lock back.
template <class Executor = void>
struct ResumeOn {
  Executor executor;
  void resume(detail::Resumable& due) noexcept { executor.execute(ResumeHandle{due.handle}); }
};
template <>
struct ResumeOn<void> {
  static void resume(detail::Resumable& due) noexcept { detail::resume_soon(due); }
};
template <ResumesCoroutines Executor>
[[nodiscard]] ResumeOn<Executor> resume_on(Executor executor) {
  return {std::move(executor)};
}

namespace detail {

template <class T>
inline constexpr bool is_resume_on = false;
template <class Executor>
inline constexpr bool is_resume_on<ResumeOn<Executor>> = true;

template <class Executor>
class Awaiter : protected Waiter, protected Resumable {
 public:
  Awaiter(Backend* backend, OwnerRef owner, Request request, ResumeOn<Executor> on)
      : Waiter(&on_done),
        backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)) {
    runs_code = std::is_void_v<Executor>;
  }
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;
  ~Awaiter() = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  // Once it is queued another thread may resume the coroutine: nothing is touched after that.
  bool await_suspend(std::coroutine_handle<> coroutine) {
    handle = coroutine;
    return !backend_->request({request_.claims(), owner_}, *this);
  }
  Hold await_resume() {
    throw_unless_granted(outcome_);
    return HoldAccess::make(backend_, grant);
  }

 private:
  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
    auto& self = static_cast<Awaiter&>(waiter);
    self.outcome_ = outcome;
    self.on_.resume(self);
  }

  Backend* backend_;
  OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
  WaitOutcome outcome_ = WaitOutcome::granted;
};

// The coroutine is resumed by the later of two: the end of await_suspend, and the end of the wait.
// So the frame stays while the stop callback is being set up.
template <class Executor>
class StoppableAwaiter : protected Waiter, protected Resumable {
 public:
  StoppableAwaiter(Backend* backend, OwnerRef owner, Request request, ResumeOn<Executor> on,
                   std::stop_token stop)
      : Waiter(&on_done),
        backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)),
        stop_(std::move(stop)) {
    runs_code = std::is_void_v<Executor>;
  }
  StoppableAwaiter(const StoppableAwaiter&) = delete;
  StoppableAwaiter& operator=(const StoppableAwaiter&) = delete;
  ~StoppableAwaiter() = default;

  [[nodiscard]] bool await_ready() noexcept {
    stopped_ = stop_.stop_requested();
    return stopped_;
  }
  bool await_suspend(std::coroutine_handle<> coroutine) {
    handle = coroutine;
    if (backend_->request({request_.claims(), owner_}, *this)) return false;
    callback_.emplace(stop_, OnStop{this});
    return parts_.fetch_or(suspended, std::memory_order_acq_rel) != ended;
  }
  std::optional<Hold> await_resume() {
    callback_.reset();
    if (stopped_) return std::nullopt;
    throw_unless_granted(outcome_);
    return HoldAccess::make(backend_, grant);
  }

 private:
  enum Part : std::uint8_t { suspended = 1, ended = 2 };
  struct OnStop {
    StoppableAwaiter* self;
    void operator()() const noexcept {
      const ResumeScope scope;
      if (!cancel(self->backend_, *self)) return;
      self->stopped_ = true;
      self->end();
    }
  };
  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
    auto& self = static_cast<StoppableAwaiter&>(waiter);
    self.outcome_ = outcome;
    self.end();
  }
  void end() noexcept {
    if (parts_.fetch_or(ended, std::memory_order_acq_rel) == suspended) on_.resume(*this);
  }

  Backend* backend_;
  OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
  std::stop_token stop_;
  std::optional<std::stop_callback<OnStop>> callback_;
  std::atomic<std::uint8_t> parts_ = 0;
  WaitOutcome outcome_ = WaitOutcome::granted;
  bool stopped_ = false;
};

}  // namespace detail

// What async_lock returns: to be awaited in the expression that makes it.
template <class Executor = void>
class [[nodiscard]] AsyncLock {
 public:
  AsyncLock(const std::shared_ptr<detail::Backend>& backend, detail::OwnerRef owner,
            Request request, ResumeOn<Executor> on)
      : backend_(&backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)) {}

  detail::Awaiter<Executor> operator co_await() && {
    return {backend_->get(), std::move(owner_), std::move(request_), std::move(on_)};
  }
  // As an Asio operation, which has an executor already; defined in tenure/asio.hpp. No pointers:
  // an awaitable asks whether this may be called with one to its frame, which is no token.
  template <class CompletionToken>
    requires(std::is_void_v<Executor> && !std::is_pointer_v<CompletionToken>)
  auto operator()(CompletionToken&& token) &&;

 private:
  const std::shared_ptr<detail::Backend>* backend_;  // The Locker's: an operation shares it.
  detail::OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
};

template <class Executor = void>
class [[nodiscard]] StoppableLock {
 public:
  StoppableLock(detail::Backend* backend, detail::OwnerRef owner, Request request,
                ResumeOn<Executor> on, std::stop_token stop)
      : backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)),
        stop_(std::move(stop)) {}

  detail::StoppableAwaiter<Executor> operator co_await() && {
    return {backend_, owner_, std::move(request_), std::move(on_), std::move(stop_)};
  }

 private:
  detail::Backend* backend_;
  detail::OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
  std::stop_token stop_;
};

}  // namespace tenure
