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
// g++ 12 does not compile braces inside of a co_await: give several claims a name first.
//
// The same object is an Asio operation where tenure/asio.hpp is included, so an asio::awaitable may
// co_await it too.
#pragma once

#include <concepts>
#include <coroutine>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "tenure/detail/backend.hpp"
#include "tenure/detail/coroutine_wait.hpp"
#include "tenure/hold.hpp"
#include "tenure/request.hpp"

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

// Result: Hold, or std::optional<Hold> where the wait can be stopped.
template <class Executor, class Result>
class Awaiter {
 public:
  Awaiter(Backend* backend, OwnerRef owner, Request request, ResumeOn<Executor> on,
          std::stop_token stop = {})
      : backend_(backend),
        owner_(std::move(owner)),
        request_(std::move(request)),
        on_(std::move(on)),
        stop_(std::move(stop)) {}
  Awaiter(const Awaiter&) = delete;
  Awaiter& operator=(const Awaiter&) = delete;
  ~Awaiter() {
    if (wait_ != nullptr) wait_->destroy();
  }

  [[nodiscard]] bool await_ready() {
    if (stop_.stop_requested()) return true;
    const std::span<const Claim> claims = request_.claims();
    if (claims.size() == 1) grant_ = backend_->request_free(claims.front(), owner_);
    return grant_.ticket != nullptr;
  }
  // Once it is queued another thread may resume the coroutine: nothing is touched after that.
  bool await_suspend(std::coroutine_handle<> coroutine) {
    wait_ = std::make_shared<WaitOn<Executor>>(backend_, coroutine, std::move(on_));
    try {
      return CoroutineWait::start(wait_, {.claims = request_.claims(), .owner = owner_}, stop_);
    } catch (...) {
      wait_ = nullptr;
      throw;
    }
  }
  Result await_resume() {
    if (wait_ != nullptr) {
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
  std::stop_token stop_;
  Grant grant_;
  std::shared_ptr<CoroutineWait> wait_;
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

  detail::Awaiter<Executor, Hold> operator co_await() && {
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

  detail::Awaiter<Executor, std::optional<Hold>> operator co_await() && {
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
