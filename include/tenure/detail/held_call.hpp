// held_call.hpp: a function that is called while a lock is held: with(), async_with(),
// async_try_with_for().
#pragma once

#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include "tenure/hold.hpp"

namespace tenure::detail {

template <class F>
decltype(auto) call_holding(F&& f, const Hold& hold) {
  if constexpr (std::invocable<F, const Hold&>) {
    return std::invoke(std::forward<F>(f), hold);
  } else {
    return std::invoke(std::forward<F>(f));
  }
}
template <class F>
using HeldResult = decltype(call_holding(std::declval<F>(), std::declval<const Hold&>()));

// By value: the hold goes when f has returned.
template <class F>
auto call_if_held(F&& f, const std::optional<Hold> hold) {
  using Result = HeldResult<F>;
  if constexpr (std::is_void_v<Result>) {
    if (hold.has_value()) call_holding(std::forward<F>(f), *hold);
    return hold.has_value();
  } else {
    std::optional<std::decay_t<Result>> result;
    if (hold.has_value()) result.emplace(call_holding(std::forward<F>(f), *hold));
    return result;
  }
}

template <class T>
concept Awaitable = requires(T&& value) {
  std::forward<T>(value).operator co_await();
} || requires(T&& value) { operator co_await(std::forward<T>(value)); } || requires(T&& value) {
  { value.await_ready() } -> std::convertible_to<bool>;
};
template <Awaitable T>
decltype(auto) awaiter_of(T&& value) {
  if constexpr (requires { std::forward<T>(value).operator co_await(); }) {
    return std::forward<T>(value).operator co_await();
  } else if constexpr (requires { operator co_await(std::forward<T>(value)); }) {
    return operator co_await(std::forward<T>(value));
  } else {
    return std::forward<T>(value);
  }
}
// What f gives in the end: its result or, of an awaitable, what that gives.
template <class T>
struct Awaited {
  using Type = T;
};
template <Awaitable T>
struct Awaited<T> {
  using Type = std::remove_cvref_t<decltype(awaiter_of(std::declval<T>()).await_resume())>;
};

template <class T>
struct MaybeCalled {
  using Type = std::optional<T>;
};
template <>
struct MaybeCalled<void> {
  using Type = bool;
};

// A coroutine that begins when it is awaited, in the expression that makes it.
template <class T>
class [[nodiscard]] HeldCall {
 public:
  struct promise_type;  // NOLINT(readability-identifier-naming): the standard's name.
  using Handle = std::coroutine_handle<promise_type>;

  explicit HeldCall(Handle call) noexcept : call_(call) {}
  HeldCall(HeldCall&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  HeldCall& operator=(HeldCall&&) = delete;
  HeldCall(const HeldCall&) = delete;
  HeldCall& operator=(const HeldCall&) = delete;
  ~HeldCall() {
    if (call_) call_.destroy();
  }

  [[nodiscard]] static bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    call_.promise().caller = caller;
    return call_;
  }
  T await_resume() {
    promise_type& promise = call_.promise();
    if (promise.error != nullptr) std::rethrow_exception(std::move(promise.error));
    if constexpr (!std::is_void_v<T>) return std::move(*promise.value);
  }

 private:
  Handle call_;
};

template <class T>
struct HeldValue {
  std::optional<T> value;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};
template <>
struct HeldValue<void> {
  void return_void() const noexcept {}
};

template <class T>
struct HeldCall<T>::promise_type : HeldValue<T> {
  struct Return {
    [[nodiscard]] static bool await_ready() noexcept { return false; }
    static std::coroutine_handle<> await_suspend(Handle call) noexcept {
      return call.promise().caller;
    }
    void await_resume() const noexcept {}
  };
  std::coroutine_handle<> caller;
  std::exception_ptr error;

  HeldCall get_return_object() { return HeldCall{Handle::from_promise(*this)}; }
  [[nodiscard]] static std::suspend_always initial_suspend() noexcept { return {}; }
  [[nodiscard]] static Return final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

// The lock may be given up. An optional of the result; where there is none, whether f was called.
template <class Lock, class F, class Result = typename Awaited<HeldResult<F&>>::Type>
HeldCall<typename MaybeCalled<Result>::Type> try_hold_and_call(Lock lock, F f) {
  const std::optional<Hold> hold = co_await std::move(lock);
  if constexpr (std::is_void_v<Result>) {
    if (hold.has_value()) {
      if constexpr (Awaitable<HeldResult<F&>>) {
        co_await call_holding(f, *hold);
      } else {
        call_holding(f, *hold);
      }
    }
    co_return hold.has_value();
  } else {
    std::optional<Result> result;
    if (hold.has_value()) {
      if constexpr (Awaitable<HeldResult<F&>>) {
        result.emplace(co_await call_holding(f, *hold));
      } else {
        result.emplace(call_holding(f, *hold));
      }
    }
    co_return result;
  }
}

template <class Lock, class F>
HeldCall<typename Awaited<HeldResult<F&>>::Type> hold_and_call(Lock lock, F f) {
  const Hold hold = co_await std::move(lock);
  if constexpr (Awaitable<HeldResult<F&>>) {
    co_return co_await call_holding(f, hold);
  } else {
    co_return call_holding(f, hold);
  }
}

}  // namespace tenure::detail
