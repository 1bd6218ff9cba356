// locker.hpp: the lock API, as one owner: what a Space and space.as(owner) have in common.
//
//   call                           | waits            | returns
//   -------------------------------+------------------+--------------------------------------
//   lock(r)                        | until granted    | Hold
//   try_lock(r)                    | never            | optional<Hold>; a failed try is invisible
//   try_lock_for/until(r, time)    | that long        | optional<Hold>
//   lock(r, stop) and the others   | … or until stop  | optional<Hold>
//   with(r, f)                     | until granted    | f(hold), released after it
//   with(r, f, stop)               | … or until stop  | optional of that; bool where f returns void
//   try_with_for(r, time, f)       | that long        | the same
//   async_lock(r)                  | as a coroutine   | Hold, by co_await
//   async_lock(r, stop)            | … or until stop  | optional<Hold>, by co_await
//   async_try_lock(r)              | never            | the same
//   async_try_lock_for(r, time)    | that long        | the same
//   async_with(r, f)               | as a coroutine   | f(hold), by co_await
//   async_with(r, f, stop)         | … or until stop  | optional of that, or bool, by co_await
//   async_try_with_for(r, time, f) | that long        | the same
//   … , resume_on(ex))             | the same         | resumed through ex.execute(function)
//   … .then(f)                     | the same         | f(error, result) is called; see await.hpp
//   async_lock(r, token)           | any Asio token   | see tenure/asio.hpp
//   lead(r, f)                     | until granted    | f(stop) runs while this process leads
//   available(r)                   | never            | whether try_lock(r) would get it now
//
// A request r is a path, a name or a string (exclusive), a claim, or several claims in braces,
// granted together or not at all. A string is a path as on the command line: see path.hpp. A
// request that returns without a hold leaves nothing behind.
//
// A time or a stop bounds the whole call, also while a server is silent: what was sent is then
// resolved and removed in the background. A time that is zero or past is one try, as try_lock(),
// but a server that has not answered it within `one_try_limit` is not waited for any longer.
//
// All throw BadRequest for a request that can't be met by anybody, LimitMismatch where contenders
// disagree on a limit, Deadlock when the owner would wait for itself, Closed when the space is
// destroyed meanwhile, Evicted when an operator removed the waiting request, SessionLost when the
// store has given this process up, AnchorLost when the key of an anchored request is not there,
// GuardFailed when a guard of with_txn() does not hold, and StoreError when the store can't be
// reached or written.
//
// Thread safety: const calls may run at once, on any threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "tenure/await.hpp"
#include "tenure/claim.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/detail/held_call.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/detail/sync_waiter.hpp"
#include "tenure/hold.hpp"

namespace tenure {

class Mutex;

class Locker {
 public:
  static constexpr std::chrono::seconds one_try_limit{1};

  [[nodiscard]] Hold lock(const Request& request) const {
    const detail::Grant grant = if_free(request);
    if (grant.ticket == nullptr) [[unlikely]]
      return wait(request);
    return detail::HoldAccess::make(backend_.get(), grant);
  }
  [[nodiscard]] std::optional<Hold> lock(const Request& request, std::stop_token stop) const {
    return wait(request, {}, std::move(stop));
  }

  [[nodiscard]] std::optional<Hold> try_lock(const Request& request) const {
    const detail::Grant grant = if_free(request);
    if (grant.ticket == nullptr) [[unlikely]]
      return try_once(request);
    return detail::HoldAccess::make(backend_.get(), grant);
  }

  // Any length of time: one beyond what clocks can tell is for ever.
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Hold> try_lock_for(const Request& request,
                                                 std::chrono::duration<Rep, Period> time,
                                                 std::stop_token stop = {}) const {
    const std::chrono::nanoseconds limit = detail::to_nanoseconds(time);
    if (limit > max_wait) return wait(request, {}, std::move(stop));
    return try_lock_until(request, detail::saturating_add(std::chrono::steady_clock::now(), limit),
                          std::move(stop));
  }
  // Of a clock that can be set, the time is looked at again whenever it would be reached.
  template <class Clock, class Duration>
  [[nodiscard]] std::optional<Hold> try_lock_until(const Request& request,
                                                   std::chrono::time_point<Clock, Duration> time,
                                                   std::stop_token stop = {}) const {
    const auto left = [](const void* until) -> std::chrono::nanoseconds {
      const auto& end = *static_cast<const std::chrono::time_point<Clock, Duration>*>(until);
      const std::chrono::nanoseconds rest =
          detail::saturating_sub(detail::to_nanoseconds(end.time_since_epoch()),
                                 detail::to_nanoseconds(Clock::now().time_since_epoch()));
      return std::min<std::chrono::nanoseconds>(rest, max_wait);
    };
    return wait(request, {.left = left, .context = &time}, std::move(stop));
  }

  // Whether try_lock() would get it at this moment; it may be otherwise when the answer is read. So
  // !available(path) means that somebody holds the path, or something above or below it, or waits.
  [[nodiscard]] bool available(const Request& request) const {
    return backend_->available(ask(request));
  }

  // Calls f(hold), or f() if it takes none, while the request is held.
  template <class F>
  decltype(auto) with(const Request& request, F&& f) const {
    const Hold hold = lock(request);
    return detail::call_holding(std::forward<F>(f), hold);
  }
  // The same, if the request is granted before the stop, or in time. Returns an optional of f's
  // result that is empty if f was not called; where f returns nothing, whether it was called.
  template <class F>
  auto with(const Request& request, F&& f, std::stop_token stop) const {
    return detail::call_if_held(std::forward<F>(f), lock(request, std::move(stop)));
  }
  template <class Rep, class Period, class F>
  auto try_with_for(const Request& request, std::chrono::duration<Rep, Period> time, F&& f,
                    std::stop_token stop = {}) const {
    return detail::call_if_held(std::forward<F>(f), try_lock_for(request, time, std::move(stop)));
  }

  // Leadership: waits until the request is granted, and calls body(stop_token, hold), or
  // body(stop_token), on this thread. The token stops when the leader must stop: its hold is about
  // to be lost, somebody asks for it (Space::ask_to_leave), or `stop` is requested. The next leader
  // follows when the body has returned or, if the hold was lost, as after every lost hold. True:
  // the body returned while it led. False: it was told to stop, or `stop` came before its turn.
  template <class Body>
  bool lead(const Request& request, Body&& body, std::stop_token stop = {}) const {
    const std::optional<Hold> hold = lock(request, stop);
    if (!hold.has_value()) return false;
    std::stop_source end;
    const auto tell = [&end]() noexcept { end.request_stop(); };
    const std::stop_callback on_stop{std::move(stop), tell};
    const std::stop_callback on_lost{hold->lost(), tell};
    const std::stop_callback on_asked{hold->asked_to_leave(), tell};
    if constexpr (std::invocable<Body, std::stop_token, const Hold&>) {
      std::invoke(std::forward<Body>(body), end.get_token(), *hold);
    } else {
      std::invoke(std::forward<Body>(body), end.get_token());
    }
    return !end.stop_requested();
  }

  // co_await these in the expression that makes them, or call then(f) on them.
  [[nodiscard]] AsyncLock<> async_lock(Request request) const {
    return {backend_, owner_, std::move(request), {}};
  }
  template <class Executor>
  [[nodiscard]] AsyncLock<Executor> async_lock(Request request, ResumeOn<Executor> on) const {
    return {backend_, owner_, std::move(request), std::move(on)};
  }
  template <class Executor = void>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved.
  [[nodiscard]] BoundedLock<Executor> async_lock(Request request, std::stop_token stop,
                                                 ResumeOn<Executor> on = {}) const {
    return bounded(std::move(request), {.stop = std::move(stop), .until = {}}, std::move(on));
  }
  template <class Executor = void>
  [[nodiscard]] BoundedLock<Executor> async_try_lock(Request request,
                                                     ResumeOn<Executor> on = {}) const {
    return bounded(std::move(request), {.stop = {}, .until = {}, .only_try = true}, std::move(on));
  }
  template <class Rep, class Period, class Executor = void>
  [[nodiscard]] BoundedLock<Executor> async_try_lock_for(Request request,
                                                         std::chrono::duration<Rep, Period> time,
                                                         std::stop_token stop = {},
                                                         ResumeOn<Executor> on = {}) const {
    const std::chrono::nanoseconds limit = detail::to_nanoseconds(time);
    detail::WaitBound bound{.stop = std::move(stop), .until = {}};
    if (limit <= std::chrono::nanoseconds::zero()) {
      bound.only_try = true;
    } else if (limit <= max_wait) {
      bound.until = detail::saturating_add(std::chrono::steady_clock::now(), limit);
    }
    return bounded(std::move(request), std::move(bound), std::move(on));
  }
  // co_await it: f(hold), or f(), runs while the request is held, and is awaited if it can be.
  template <class F>
  auto async_with(Request request, F f) const;
  // The same, if the request is granted before the stop, or in time; gives what with() and
  // try_with_for() return.
  template <class F>
  auto async_with(Request request, F f, std::stop_token stop) const;
  template <class Rep, class Period, class F>
  auto async_try_with_for(Request request, std::chrono::duration<Rep, Period> time, F f,
                          std::stop_token stop = {}) const;

  // Any Asio completion token; include <tenure/asio.hpp>, which defines it.
  template <class CompletionToken>
    requires(!std::convertible_to<CompletionToken, std::stop_token> &&
             !detail::is_resume_on<std::remove_cvref_t<CompletionToken>>)
  auto async_lock(Request request, CompletionToken&& token) const;  // NOLINT: may return void.

  // The same view on other terms.
  //   max_hold: a hold is lost so long after its grant, unless it is renewed. It must be greater
  //   than zero.
  //   label: for people who inspect the space: the command, the service.
  [[nodiscard]] Locker max_hold(std::chrono::nanoseconds time) const;
  [[nodiscard]] Locker label(std::string text) const;
  // The following need a store; `local:` throws BadRequest.
  //   anchored: tickets live as long as `key` is in the store, not as long as this process's
  //   session: they outlive the process, and keep their place in the queue while nobody runs.
  //   Space::find() and a repeated request with the same id get them back. The key must be there
  //   first (AnchorLost), has at most 512 bytes, and should be one that seldom changes: each change
  //   wakes those who wait for its tickets. A key that is removed and put again counts as the same
  //   anchor to tickets that nobody has removed in between.
  //   request_id: a repeated request with the same id and anchor is the same request. While its
  //   ticket stands, whoever repeats it gets that ticket, in its old place, however the first
  //   request ended. Throws BadRequest where the id was used with other claims.
  [[nodiscard]] Locker anchored(std::string key) const;
  [[nodiscard]] Locker request_id(std::uint64_t id) const;
  //   with_txn: the transaction that appends the ticket of a request checks these guards and makes
  //   these writes as well. Throws GuardFailed where a guard does not hold. try_lock() appends only
  //   what it grants, so it writes only if the lock was taken. The other calls may append a ticket
  //   that has to wait: the writes are made then, and stay when the wait ends without a hold. A
  //   repeated request that finds its ticket (request_id) writes nothing.
  [[nodiscard]] Locker with_txn(TxnPart part) const;

  // A lockable object for std::unique_lock, std::shared_lock, std::scoped_lock; see mutex.hpp.
  [[nodiscard]] Mutex mutex(Claim claim) const;

 protected:
  Locker(std::shared_ptr<detail::Backend> backend, detail::OwnerRef owner) noexcept
      : backend_(std::move(backend)), owner_(std::move(owner)) {}

  std::shared_ptr<detail::Backend> backend_;  // Null in a Space that was moved from.
  detail::OwnerRef owner_;

 private:
  friend class Mutex;
  friend class Space;

  [[nodiscard]] detail::Ask ask(const Request& request) const noexcept {
    return {.claims = request.claims(), .owner = owner_};
  }
  [[nodiscard]] detail::Grant if_free(const Request& request) const {
    const std::span<const Claim> claims = request.claims();
    if (claims.size() != 1) return {};
    return backend_->request_free(claims.front(), owner_);
  }
  template <class Executor>
  [[nodiscard]] BoundedLock<Executor> bounded(Request request, detail::WaitBound bound,
                                              ResumeOn<Executor> on) const {
    return {backend_.get(), owner_, std::move(request), std::move(on), std::move(bound)};
  }
  [[nodiscard]] Locker on_terms(const detail::Terms& terms) const {
    return {backend_, backend_->on_terms(owner_, terms)};
  }
  [[nodiscard]] Hold wait(const Request& request) const;
  [[nodiscard]] std::optional<Hold> try_once(const Request& request) const;
  // Without a `left`, for ever.
  [[nodiscard]] std::optional<Hold> wait(const Request& request, detail::TimeLeft left,
                                         std::stop_token stop) const;
  static constexpr std::chrono::hours max_wait{24 * 365 * 100};
};

template <class F>
auto Locker::async_with(Request request, F f) const {
  return detail::hold_and_call(async_lock(std::move(request)), std::move(f));
}
template <class F>
auto Locker::async_with(Request request, F f, std::stop_token stop) const {
  return detail::try_hold_and_call(async_lock(std::move(request), std::move(stop)), std::move(f));
}
template <class Rep, class Period, class F>
auto Locker::async_try_with_for(Request request, std::chrono::duration<Rep, Period> time, F f,
                                std::stop_token stop) const {
  return detail::try_hold_and_call(async_try_lock_for(std::move(request), time, std::move(stop)),
                                   std::move(f));
}

}  // namespace tenure
