// flow_task.hpp: Flow<T>, the coroutine type of workflows and of their parts, and its promise.
//
// The promise is chosen by the parameters (std::coroutine_traits), so a coroutine that takes no
// Context&, or takes a reference, a pointer or a view, does not compile: its frame outlives them.
// A frame awaits only operations of a Context and other Flows.
//
// No frame resumes another one: both go through the machine's queue, so that long chains need no
// stack, whatever the compiler makes of tail calls.
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <variant>

#include "tenure/detail/flow_machine.hpp"
#include "tenure/detail/flow_values.hpp"

namespace tenure {

class Context;
template <class T>
class Flow;

namespace detail {

template <class A>
inline constexpr bool is_flow_parameter =
    !std::is_reference_v<A> && !std::is_pointer_v<A> && !std::ranges::view<A> && HasCodec<A>;

// Who is told that a coroutine has ended which no other one awaits directly.
class EndListener {
 public:
  EndListener() = default;
  EndListener(const EndListener&) = delete;
  EndListener& operator=(const EndListener&) = delete;
  virtual void ended(std::size_t index) noexcept = 0;

 protected:
  ~EndListener() = default;
};

template <class First, class... Rest>
[[nodiscard]] Machine& machine_of(First& first, Rest&... rest) {
  if constexpr (std::is_base_of_v<Scope, std::remove_cvref_t<First>>) {
    return first.machine();
  } else {
    return machine_of(rest...);
  }
}

template <class T>
class FlowAwait;

// An operation that lives in the awaiting expression. g++ 12 would copy a reference that
// await_transform() returns.
template <class Op>
class OperationAwait {
 public:
  explicit OperationAwait(Op& op) noexcept : op_(&op) {}
  OperationAwait(const OperationAwait&) = delete;
  OperationAwait& operator=(const OperationAwait&) = delete;
  ~OperationAwait() = default;
  [[nodiscard]] bool await_ready() { return op_->await_ready(); }
  void await_suspend(std::coroutine_handle<> waiter) { op_->await_suspend(waiter); }
  decltype(auto) await_resume() { return op_->await_resume(); }

 private:
  Op* op_;
};

class FlowPromiseBase {
 public:
  explicit FlowPromiseBase(Machine& machine) noexcept : machine_(&machine) {}

  // NOLINTBEGIN(readability-convert-member-functions-to-static): the language calls them.
  struct Final {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      self.promise().notify_ended();
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] Final final_suspend() const noexcept { return {}; }
  // NOLINTEND(readability-convert-member-functions-to-static)
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  template <class Op>
    requires(std::derived_from<Op, AwaitableTag>)
  [[nodiscard]] OperationAwait<Op> await_transform(Op&& op) const noexcept {
    return OperationAwait<Op>{op};
  }
  template <class U>
  [[nodiscard]] FlowAwait<U> await_transform(Flow<U>&& flow) const {
    return FlowAwait<U>{std::move(flow)};
  }

  void notify_ended() noexcept {
    if (continuation_) {
      machine_->resume_later(continuation_);
    } else if (listener_ != nullptr) {
      listener_->ended(index_);
    }
  }
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }

 private:
  template <class T>
  friend class tenure::Flow;
  Machine* machine_;
  std::coroutine_handle<> continuation_;
  EndListener* listener_ = nullptr;
  std::size_t index_ = 0;
  std::exception_ptr error_;
};

template <class T>
class FlowPromise : public FlowPromiseBase {
 public:
  template <class... P>
  explicit FlowPromise(P&... parameters) noexcept : FlowPromiseBase(machine_of(parameters...)) {}
  [[nodiscard]] Flow<T> get_return_object() noexcept;
  template <class V = T>
    requires(std::convertible_to<V, T>)
  void return_value(V&& value) {
    value_.emplace(std::forward<V>(value));
  }
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): called once it has returned.
  [[nodiscard]] T take() { return *std::move(value_); }

 private:
  std::optional<T> value_;
};

template <>
class FlowPromise<void> : public FlowPromiseBase {
 public:
  template <class... P>
  explicit FlowPromise(P&... parameters) noexcept : FlowPromiseBase(machine_of(parameters...)) {}
  [[nodiscard]] Flow<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

// Owns a coroutine that has not been started, waits, or has ended.
template <class T = void>
class [[nodiscard]] Flow {
 public:
  using Promise = detail::FlowPromise<T>;
  using Value = T;

  Flow() = default;
  Flow(Flow&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Flow& operator=(Flow&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  ~Flow() {
    if (handle_) handle_.destroy();
  }

  // For the engine and for branches.
  void start(detail::EndListener& listener, std::size_t index) {
    handle_.promise().listener_ = &listener;
    handle_.promise().index_ = index;
    handle_.promise().machine_->resume_later(handle_);
  }
  void start_for(std::coroutine_handle<> continuation) {
    handle_.promise().continuation_ = continuation;
    handle_.promise().machine_->resume_later(handle_);
  }
  [[nodiscard]] const std::exception_ptr& error() const noexcept {
    return handle_.promise().error();
  }
  // The result; throws what the coroutine threw.
  T take() {
    if (error()) std::rethrow_exception(error());
    return handle_.promise().take();
  }

 private:
  friend Promise;
  explicit Flow(std::coroutine_handle<Promise> handle) noexcept : handle_(handle) {}
  std::coroutine_handle<Promise> handle_;
};

namespace detail {

template <class T>
Flow<T> FlowPromise<T>::get_return_object() noexcept {
  return Flow<T>{std::coroutine_handle<FlowPromise<T>>::from_promise(*this)};
}
inline Flow<void> FlowPromise<void>::get_return_object() noexcept {
  return Flow<void>{std::coroutine_handle<FlowPromise<void>>::from_promise(*this)};
}

// A part of a workflow that is another function: runs in the scope of its caller.
template <class T>
class FlowAwait {
 public:
  explicit FlowAwait(Flow<T>&& flow) noexcept : flow_(std::move(flow)) {}
  FlowAwait(const FlowAwait&) = delete;
  FlowAwait& operator=(const FlowAwait&) = delete;
  ~FlowAwait() = default;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) { flow_.start_for(waiter); }
  T await_resume() { return flow_.take(); }

 private:
  Flow<T> flow_;
};

}  // namespace detail
}  // namespace tenure

template <class T, class... A>
struct std::coroutine_traits<tenure::Flow<T>, tenure::Context&, A...> {
  static_assert((tenure::detail::is_flow_parameter<A> && ...),
                "parameters of a workflow are values with a codec: its frame outlives what "
                "references, pointers and views refer to");
  using promise_type = tenure::detail::FlowPromise<T>;
};

// Lambdas: their object comes first. all(), race(), shielded() and with_lock() keep it.
template <class T, class L, class... A>
  requires(std::is_class_v<std::remove_cvref_t<L>> &&
           !std::same_as<std::remove_cvref_t<L>, tenure::Context>)
struct std::coroutine_traits<tenure::Flow<T>, L, tenure::Context&, A...> {
  static_assert((tenure::detail::is_flow_parameter<A> && ...),
                "parameters of a workflow are values with a codec: its frame outlives what "
                "references, pointers and views refer to");
  using promise_type = tenure::detail::FlowPromise<T>;
};
