// flow_operations.hpp: what a workflow awaits: steps, timers, signals, conditions and slots.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/detail/flow_machine.hpp"
#include "tenure/detail/flow_values.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/state.hpp"
#include "tenure/step.hpp"

namespace tenure::detail {

// --- steps

// A step's function with its own copy of the arguments: independent of the workflow's frames.
class StepCall {
 public:
  StepCall() = default;
  StepCall(const StepCall&) = delete;
  StepCall& operator=(const StepCall&) = delete;
  virtual ~StepCall() = default;
  // The result, encoded. Throws what the function throws. May be called once per attempt.
  [[nodiscard]] virtual std::string invoke(StepContext& context) const = 0;
  [[nodiscard]] virtual std::string arguments() const = 0;
  // Whether the function takes a StepContext.
  [[nodiscard]] virtual bool wants_context() const noexcept = 0;
};

template <class F, class... A>
class BoundStep final : public StepCall {
 public:
  BoundStep(F function, std::tuple<A...> arguments)
      : function_(function), arguments_(std::move(arguments)) {}
  [[nodiscard]] std::string invoke(StepContext& context) const override {
    return std::apply(
        [&](const A&... arguments) {
          const auto call = [&]() -> decltype(auto) {
            if constexpr (std::is_invocable_v<const F&, StepContext&, A...>) {
              return function_(context, A(arguments)...);
            } else {
              return function_(A(arguments)...);
            }
          };
          if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return std::string{"null"};
          } else {
            return encode_result(call());
          }
        },
        arguments_);
  }
  [[nodiscard]] std::string arguments() const override {
    return std::apply([](const A&... arguments) { return encode_arguments(arguments...); },
                      arguments_);
  }
  [[nodiscard]] bool wants_context() const noexcept override {
    return std::is_invocable_v<const F&, StepContext&, A...>;
  }

 private:
  F function_;
  std::tuple<A...> arguments_;
};

class StepBase : public Operation {
 public:
  StepBase(Scope& scope, Step&& options);
  [[nodiscard]] const Step& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }  // The next one.
  [[nodiscard]] Instant first() const noexcept { return first_; }
  [[nodiscard]] bool begun() const noexcept { return begun_; }
  [[nodiscard]] virtual std::shared_ptr<const StepCall> make_call() const = 0;

 protected:
  void begin() override;
  bool take(const LogEntry& entry) override;
  virtual void take_value(std::string_view text) = 0;
  void throw_if_failed() const;

 private:
  Step options_;
  std::uint32_t attempt_ = 1;
  Instant first_;
  bool begun_ = false;
  std::optional<ErrorInfo> error_;
};

template <class R, class F, class... A>
class [[nodiscard]] StepAwait final : public StepBase {
 public:
  StepAwait(Scope& scope, Step&& options, F function, A... arguments)
      : StepBase(scope, std::move(options)),
        function_(function),
        arguments_(std::move(arguments)...) {}
  R await_resume() {
    throw_if_cancelled();
    throw_if_failed();
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it ended with a value.
    if constexpr (!std::is_void_v<R>) return *std::move(result_);
  }
  [[nodiscard]] std::shared_ptr<const StepCall> make_call() const override {
    return std::make_shared<BoundStep<F, A...>>(function_, arguments_);
  }

 protected:
  void begin() override {
    StepBase::begin();
    Hasher hasher;  // NOLINT(misc-const-correctness): where there are arguments.
    std::apply([&](const A&... arguments) { (hasher.add_value(arguments), ...); }, arguments_);
    hash_ = hasher.value();
  }
  void take_value(std::string_view text) override {
    result_.emplace(decode_result<Regular<R>>(text));
  }

 private:
  F function_;
  std::tuple<A...> arguments_;
  std::optional<Regular<R>> result_;
};

// --- timers

[[nodiscard]] std::uint64_t hash_of(std::chrono::nanoseconds time) noexcept;
// Throws BadRequest for more than a hundred years; a negative one is zero.
[[nodiscard]] std::chrono::nanoseconds checked_pause(std::chrono::nanoseconds time);

class [[nodiscard]] TimerAwait final : public Operation {
 public:
  TimerAwait(Scope& scope, std::chrono::nanoseconds time);
  TimerAwait(Scope& scope, Instant until);
  void await_resume() const { throw_if_cancelled(); }

 protected:
  void begin() override;
  bool take(const LogEntry& /*entry*/) override { return true; }

 private:
  std::optional<std::chrono::nanoseconds> time_;
  Instant until_;
};

// --- signals

class SignalBase : public Operation {
 public:
  SignalBase(Scope& scope, std::string&& name, std::optional<std::chrono::nanoseconds> timeout);
  [[nodiscard]] bool await_ready();

 protected:
  void begin() override;
  bool take(const LogEntry& entry) override;
  virtual void take_value(std::string_view text) = 0;
  void throw_if_bad() const {
    throw_if_cancelled();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // A payload of another type is an error of the sender's, for the workflow to handle.
  void try_take(std::string_view text) noexcept;
  std::optional<std::chrono::nanoseconds> timeout_;
  std::exception_ptr error_;
};

// R is T, or std::optional<T> where there is a timeout.
template <class T, class R>
class [[nodiscard]] SignalAwait final : public SignalBase {
 public:
  using SignalBase::SignalBase;
  R await_resume() {
    throw_if_bad();
    if constexpr (std::same_as<T, R>) {
      return *std::move(value_);
    } else {
      return std::move(value_);
    }
  }

 protected:
  void take_value(std::string_view text) override { value_.emplace(decode_result<T>(text)); }

 private:
  std::optional<T> value_;
};

// --- conditions

template <class P>
class [[nodiscard]] ConditionAwait final : public ConditionBase {
 public:
  ConditionAwait(Scope& scope, P predicate, std::optional<std::chrono::nanoseconds> timeout)
      : ConditionBase(scope, OpKind::condition, timeout ? "timeout" : ""),
        predicate_(std::move(predicate)),
        timeout_(timeout) {}
  [[nodiscard]] bool await_ready() { return ConditionBase::await_ready() || holds(); }
  // False: the time was over first.
  bool await_resume() {
    throw_if_cancelled();
    if (error_) std::rethrow_exception(error_);
    return held_;
  }
  [[nodiscard]] bool holds() override {
    try {
      held_ = predicate_();
    } catch (...) {
      error_ = std::current_exception();
    }
    return held_ || error_;
  }

 protected:
  void begin() override {
    if (!timeout_) return;
    due_ = saturating_add(machine().now(), checked_pause(*timeout_));
    hash_ = hash_of(*timeout_);
  }
  bool take(const LogEntry& /*entry*/) override { return true; }

 private:
  P predicate_;
  std::optional<std::chrono::nanoseconds> timeout_;
  bool held_ = false;
  std::exception_ptr error_;
};

// --- locks

class LockBase : public Operation {
 public:
  LockBase(Scope& scope, std::vector<Claim>&& claims);
  [[nodiscard]] const std::vector<Claim>& claims() const noexcept { return claims_; }

 protected:
  bool take(const LogEntry& entry) override;
  [[nodiscard]] Token granted() const;

 private:
  std::vector<Claim> claims_;
  Token token_;
  std::optional<ErrorInfo> error_;
};

// --- slots

struct SlotStep {
  StateSlot::Step step;
  std::string result;  // Encoded.
};

class SlotBase : public Operation {
 public:
  SlotBase(Scope& scope, SlotAddress&& address)
      : Operation(scope, OpKind::slot, address.text()), address_(std::move(address)) {}
  [[nodiscard]] const SlotAddress& address() const noexcept { return address_; }
  // What becomes of the slot. Pure: called again when somebody else changed the slot meanwhile.
  [[nodiscard]] virtual SlotStep transact(const std::optional<std::string>& bytes) = 0;

 protected:
  bool take(const LogEntry& entry) override;
  virtual void take_value(std::string_view text) = 0;
  void throw_if_failed() const;

 private:
  SlotAddress address_;
  std::optional<ErrorInfo> error_;
};

template <class T, class R, class F>
class [[nodiscard]] SlotAwait final : public SlotBase {
 public:
  SlotAwait(Scope& scope, SlotAddress address, std::optional<T> initial, F transition)
      : SlotBase(scope, std::move(address)),
        initial_(std::move(initial)),
        transition_(std::move(transition)) {}
  R await_resume() {
    throw_if_cancelled();
    throw_if_failed();
    return *std::move(result_);
  }
  [[nodiscard]] SlotStep transact(const std::optional<std::string>& bytes) override {
    using Kind = StateSlot::Step::Kind;
    std::optional<T> old = bytes ? std::optional<T>{Codec<T>::decode(*bytes)} : initial_;
    Transition<T, R> made = transition_(std::move(old));
    SlotStep step{.step = {}, .result = encode_result(made.result)};
    if (made.kind == Transition<T, R>::Kind::remove) step.step.kind = Kind::remove;
    if (made.kind == Transition<T, R>::Kind::put) {
      step.step = {.kind = Kind::put, .value = Codec<T>::encode(made.value.value())};
    }
    return step;
  }

 protected:
  void take_value(std::string_view text) override { result_.emplace(decode_result<R>(text)); }

 private:
  std::optional<T> initial_;
  F transition_;
  std::optional<R> result_;
};

}  // namespace tenure::detail
