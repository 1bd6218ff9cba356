// await.hpp: waiting for a lock in a coroutine of any type, without Asio.
//
//   tenure::Hold hold = co_await space.async_lock(book(3));
//
// A coroutine that had to wait is resumed by whoever gave the lock back, at the end of that call:
// in the thread's own queue, so that a chain of hand-offs needs no stack. With resume_on(executor)
// it is resumed through executor.execute(function) instead, which must not call the function
// itself. One that did not have to wait goes on at once. On a server every coroutine waits, and is
// resumed by a thread of the space: co_await does not block the thread that it is on. Requests of
// one thread keep their order.
//
// A coroutine may be destroyed while it waits, on any thread: the request leaves the queue, as
// after a stop. If the lock was granted but the coroutine not resumed yet, the lock is given back,
// and the function that an executor still has does nothing. As for every coroutine, destroying it
// must not race with its being resumed. So destroy it on the thread that would resume it (that of
// the executor, of one thread), or on any thread when nobody gives the lock back at the same time,
// nor closes the space, evicts the request or requests the stop.
//
// Without a coroutine, then(f) calls f(error, result) instead, where the coroutine would go on:
//
//   space.async_try_lock_for(book(3), 10s).then([](std::exception_ptr error,
//                                                  std::optional<tenure::Hold> hold) { … });
//
// g++ 12 does not compile braces inside of a co_await: give several claims a name first.
//
// The same object is an Asio operation where tenure/asio.hpp is included, so an asio::awaitable may
// co_await it too.
#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "tenure/claim.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/coroutine_wait.hpp"
#include "tenure/detail/time_limits.hpp"
#include "tenure/hold.hpp"

namespace tenure {

// Resumes a coroutine, once; nothing, if it was destroyed meanwhile. Copies are the same.
class ResumeHandle {
 public:
  explicit ResumeHandle(std::shared_ptr<detail::CoroutineWait> wait) noexcept
      : wait_(std::move(wait)) {}
  void operator()() const { wait_->resume(); }

 private:
  std::shared_ptr<detail::CoroutineWait> wait_;
};

template <class E>
concept ResumesCoroutines =
    requires(E& executor, ResumeHandle resume) { executor.execute(resume); };

// Where to resume; by default in the queue of the thread that gave the lock back.
template <class Executor = void>
struct ResumeOn {
  Executor executor;
  void resume(std::shared_ptr<detail::CoroutineWait> due) noexcept {
    executor.execute(ResumeHandle{std::move(due)});
  }
};
template <>
struct ResumeOn<void> {
  static void resume(std::shared_ptr<detail::CoroutineWait> due) noexcept {
    detail::resume_soon(std::move(due));
  }
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
class WaitOn final : public CoroutineWait {
 public:
  WaitOn(Backend* backend, std::coroutine_handle<> coroutine, ResumeOn<Executor> on)
      : CoroutineWait(backend, coroutine), on_(std::move(on)) {
    runs_code = std::is_void_v<Executor>;
  }

 private:
  void schedule(std::shared_ptr<CoroutineWait> self) noexcept override {
    on_.resume(std::move(self));
  }
  [[no_unique_address]] ResumeOn<Executor> on_;
};

// What ends a wait beside its grant.
struct WaitBound {
  std::stop_token stop;
  std::optional<TimeLimits::Clock::time_point> until;
  bool only_try = false;
};

// Result: Hold, or std::optional<Hold> where the wait is bounded.
template <class Executor, class Result>
class Awaiter {
 public:
  Awaiter(Backend* backend, OwnerRef owner, Request request, ResumeOn<Executor> on,
          WaitBound bound = {})
      : backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)),
        bound_(std::move(bound)) {}
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;
  ~Awaiter() {
    if (wait_ != nullptr) wait_->destroy();
  }

  [[nodiscard]] bool await_ready() {
    if (bound_.stop.stop_requested()) return true;
    const std::span<const Claim> claims = request_.claims();
    if (claims.size() == 1) grant_ = backend_->request_free(claims.front(), owner_);
    return grant_.ticket != nullptr;
  }
  // Once it is queued another thread may resume the coroutine: nothing is touched after that.
  bool await_suspend(std::coroutine_handle<> coroutine) {
    wait_ = std::make_shared<WaitOn<Executor>>(backend_, coroutine, std::move(on_));
    if (bound_.until.has_value()) {
      limit_ = std::make_unique<TimedStop>(backend_->time_limits(), *bound_.until, bound_.stop);
      bound_.stop = limit_->token();
    }
    const Ask ask{.claims = request_.claims(), .owner = owner_};
    try {
      return bound_.only_try ? CoroutineWait::start_try(wait_, ask)
                             : CoroutineWait::start(wait_, ask, bound_.stop);
    } catch (...) {
      wait_ = nullptr;
      throw;
    }
  }
  Result await_resume() {
    if (wait_ != nullptr) {
      limit_.reset();
      const std::shared_ptr<CoroutineWait> wait = std::move(wait_);
      if (!wait->finish()) return Result{};
      grant_ = wait->grant;
    }
    if (grant_.ticket == nullptr) return Result{};  // It was stopped before it began.
    return HoldAccess::make(backend_, grant_);
  }

 private:
  Backend* backend_;
  OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
  WaitBound bound_;
  Grant grant_;
  std::unique_ptr<TimedStop> limit_;
  std::shared_ptr<CoroutineWait> wait_;
};

// A coroutine that nobody waits for.
struct Callback {
  struct promise_type {  // NOLINT(readability-identifier-naming): the standard's name.
    [[nodiscard]] static Callback get_return_object() noexcept { return {}; }
    [[nodiscard]] static std::suspend_never initial_suspend() noexcept { return {}; }
    [[nodiscard]] static std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] static void unhandled_exception() noexcept { std::terminate(); }
  };
};
template <class Lock, class F>
Callback call_back(Lock lock, F f) {
  using Result = typename Lock::Result;
  std::exception_ptr error;
  Result result{};
  try {
    result = co_await std::move(lock);
  } catch (...) {
    error = std::current_exception();
  }
  std::invoke(f, std::move(error), std::move(result));
}

}  // namespace detail

// What async_lock returns: to be awaited, or given to a callback, in the expression that makes it.
template <class Executor = void>
class [[nodiscard]] AsyncLock {
 public:
  using Result = Hold;

  AsyncLock(const std::shared_ptr<detail::Backend>& backend, detail::OwnerRef owner,
            Request request, ResumeOn<Executor> on)
      : backend_(&backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)) {}

  detail::Awaiter<Executor, Hold> operator co_await() && {
    return {backend_->get(), std::move(owner_), std::move(request_), std::move(on_)};
  }
  // Calls f(std::exception_ptr, Hold) when the wait has ended: inside of this call if it need not
  // wait. f must not throw.
  template <std::invocable<std::exception_ptr, Hold> F>
  void then(F f) && {
    detail::call_back(std::move(*this), std::move(f));
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

// The same of a wait that may end without a hold: by a stop, by its time, or because it only tried.
template <class Executor = void>
class [[nodiscard]] BoundedLock {
 public:
  using Result = std::optional<Hold>;

  BoundedLock(detail::Backend* backend, detail::OwnerRef owner, Request request,
              ResumeOn<Executor> on, detail::WaitBound bound)
      : backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)),
        bound_(std::move(bound)) {}

  detail::Awaiter<Executor, std::optional<Hold>> operator co_await() && {
    return {backend_, owner_, std::move(request_), std::move(on_), std::move(bound_)};
  }
  // As AsyncLock::then(), with f(std::exception_ptr, std::optional<Hold>).
  template <std::invocable<std::exception_ptr, std::optional<Hold>> F>
  void then(F f) && {
    detail::call_back(std::move(*this), std::move(f));
  }

 private:
  detail::Backend* backend_;
  detail::OwnerRef owner_;
  Request request_;
  [[no_unique_address]] ResumeOn<Executor> on_;
  detail::WaitBound bound_;
};

}  // namespace tenure
