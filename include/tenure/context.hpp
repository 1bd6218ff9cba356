// context.hpp: what a workflow can do. A workflow is a coroutine that survives its process:
//
//   tenure::Flow<Receipt> transfer(tenure::Context& ctx, Order order) {
//     auto receipt = co_await ctx.run("charge", charge, order);  // Its result is stored.
//     co_await ctx.sleep(24h);                                   // Costs nothing while it waits.
//     co_return receipt;
//   }
//
// Results of operations are stored before the next step starts. After a crash the coroutine runs
// again from its start, is fed with what was stored, and goes on where it was. Between its awaits
// it must therefore do the same each time: take time, randomness and everything from outside
// through `ctx`.
//
// await these            | returns
// -----------------------+----------------------------------------------------------------
// run(name, f, args…)    | what f returns; throws what f threw, or StepFailed
// sleep, sleep_until     | after that time: days and years cost a row of the store each
// wait_signal<T>(name)   | the next signal of that name; signals wait until they are asked for
// wait_until(predicate)  | when the predicate holds: asked after each thing that happened
// all(f, g, …)           | the results of all, as a tuple or a vector
// race(f, g, …)          | the first result, as a variant; the others are cancelled and awaited
// shielded(f)            | what f returns; cancelling the workflow does not reach it
// lock(claims)           | a FlowHold: FIFO with ordinary processes, kept across crashes
// with_lock(claims, f)   | what f returns; the lock is released after it
// child<R>(type, args…)  | what that workflow returns; throws ChildFailed
// start_child, result    | the same in two parts
// continue_as_new(args…) | never: the next run begins with an empty log
// state.workflow<T>(key) | a slot: its calls are operations to await
// another Flow           | what it returns: a workflow may have several functions
//
// Every await throws Cancelled once the workflow, or its branch, is cancelled.
//
// Thread safety: none; a workflow's code runs on one thread at a time, not always the same.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/detail/await_shapes.hpp"
#include "tenure/detail/flow_branches.hpp"
#include "tenure/detail/flow_children.hpp"
#include "tenure/detail/flow_operations.hpp"
#include "tenure/detail/flow_task.hpp"
#include "tenure/detail/flow_updates.hpp"
#include "tenure/flow_child.hpp"
#include "tenure/state.hpp"
#include "tenure/uuid.hpp"

namespace tenure {

// A slot (state.hpp) as a workflow uses it: each call is to be awaited, and takes effect in the
// transaction that stores its result.
template <class T>
class FlowSlot {
 public:
  using Awaited = void;  // Its calls are awaited.
  FlowSlot(detail::Scope& scope, SlotAddress address, std::optional<T> initial)
      : scope_(&scope), address_(std::move(address)), initial_(std::move(initial)) {}

  [[nodiscard]] const SlotAddress& address() const noexcept { return address_; }
  // f(std::optional<T>) returns a Transition<T, R>; R needs a codec. f may be called several times.
  template <class F>
  [[nodiscard]] auto transact(F&& f) const {
    detail::check_awaited_closures<F>();
    return await(std::forward<F>(f));
  }
  [[nodiscard]] auto get() const {
    return await([](std::optional<T> old) {
      return Transition<T, std::optional<T>>{{}, {}, std::move(old)};
    });
  }
  template <class V = T>
  [[nodiscard]] auto set(V&& value) const {
    detail::check_awaited_values<V>();
    return await([value = T(std::forward<V>(value))](const std::optional<T>& /*old*/) {
      using Made = Transition<T, std::monostate>;
      return Made{Made::Kind::put, value, {}};
    });
  }
  // f(std::optional<T>) returns the new value; so does the call.
  template <class F>
  [[nodiscard]] auto update(F&& f) const {
    detail::check_awaited_closures<F>();
    return await([f = std::forward<F>(f)](std::optional<T> old) {
      using Made = Transition<T, T>;
      T value = f(std::move(old));
      return Made{Made::Kind::put, value, value};
    });
  }
  // False: there was no value.
  [[nodiscard]] auto remove() const {
    return await([](const std::optional<T>& old) {
      using Made = Transition<T, bool>;
      return Made{old ? Made::Kind::remove : Made::Kind::keep, {}, old.has_value()};
    });
  }
  template <class E = std::optional<T>, class D = T>
  [[nodiscard]] auto compare_and_swap(E&& expected, D&& desired) const {
    detail::check_awaited_values<E, D>();
    return await([expected = std::optional<T>(std::forward<E>(expected)),
                  desired = T(std::forward<D>(desired))](const std::optional<T>& old) {
      using Made = Transition<T, bool>;
      if (old != expected) return Made{Made::Kind::keep, {}, false};
      return Made{Made::Kind::put, desired, true};
    });
  }
  [[nodiscard]] auto increment(T by = T{1}) const
    requires std::is_arithmetic_v<T>
  {
    return update([by](std::optional<T> old) { return static_cast<T>(old.value_or(T{}) + by); });
  }

 private:
  template <class F, class Own = std::remove_cvref_t<F>>
  [[nodiscard]] auto await(F&& f) const {
    using R = decltype(std::invoke_result_t<Own&, std::optional<T>>::result);
    return detail::SlotAwait<T, R, Own>{*scope_, address_, initial_, std::forward<F>(f)};
  }

  detail::Scope* scope_;
  SlotAddress address_;
  std::optional<T> initial_;
};

// A lock that a workflow holds: a value, without a release in its destructor.
class FlowHold {
 public:
  FlowHold(detail::OpKey key, Token token) noexcept : key_(key), token_(token) {}
  // The fencing token. With StepContext::reign() it fences off steps of a superseded engine, too.
  [[nodiscard]] Token token() const noexcept { return token_; }
  [[nodiscard]] const detail::OpKey& key() const noexcept { return key_; }

 private:
  detail::OpKey key_;
  Token token_;
};

template <>
struct Codec<FlowHold> {
  static constexpr bool is_json = true;
  [[nodiscard]] static std::string encode(const FlowHold& hold) {
    return nlohmann::json{hold.key().scope, hold.key().sequence, hold.token().value}.dump();
  }
  [[nodiscard]] static FlowHold decode(std::string_view text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {{.scope = json.at(0).get<std::uint32_t>(), .sequence = json.at(1).get<std::uint32_t>()},
            {json.at(2).get<std::uint64_t>()}};
  }
};

class [[nodiscard]] LockAwait final : public detail::LockBase {
 public:
  LockAwait(detail::Scope& scope, std::vector<Claim> claims) : LockBase(scope, std::move(claims)) {}
  // NOLINTNEXTLINE(modernize-use-nodiscard): a workflow may hold the lock until it ends.
  FlowHold await_resume() const { return {key(), granted()}; }
};

class [[nodiscard]] ReleaseAwait final : public detail::AwaitableTag {
 public:
  ReleaseAwait(detail::Scope& scope, const FlowHold& hold) noexcept
      : scope_(&scope), key_(hold.key()) {}
  [[nodiscard]] bool await_ready() const {
    scope_->machine().release(key_);
    return true;
  }
  void await_suspend(std::coroutine_handle<> /*waiter*/) const noexcept {}
  void await_resume() const noexcept {}

 private:
  detail::Scope* scope_;
  detail::OpKey key_;
};

class [[nodiscard]] ContinueAwait final : public detail::AwaitableTag {
 public:
  ContinueAwait(detail::Scope& scope, std::string input)
      : scope_(&scope), input_(std::move(input)) {}
  ContinueAwait(const ContinueAwait&) = delete;
  ContinueAwait& operator=(const ContinueAwait&) = delete;
  ~ContinueAwait() = default;
  [[nodiscard]] bool await_ready() const noexcept { return scope_->is_cancelled(); }
  void await_suspend(std::coroutine_handle<> /*waiter*/) {
    scope_->machine().finished(
        {.kind = detail::Finish::Kind::continued, .value = std::move(input_)});
  }
  // Only where it is cancelled.
  [[noreturn]] void await_resume() const { throw Cancelled{}; }  // NOLINT: the language calls it.

 private:
  detail::Scope* scope_;
  std::string input_;
};

// A handler of queries: there as long as this object. Keep it in a variable of the coroutine.
class [[nodiscard]] QueryHandler {
 public:
  QueryHandler(detail::Machine& machine, std::string name, detail::Machine::Answer answer)
      : machine_(&machine), name_(std::move(name)) {
    machine_->add_query(name_, std::move(answer));
  }
  QueryHandler(const QueryHandler&) = delete;
  QueryHandler& operator=(const QueryHandler&) = delete;
  ~QueryHandler() { machine_->remove_query(name_); }

 private:
  detail::Machine* machine_;
  std::string name_;
};

// Slots by workflow type, shared by all its runs, and by execution: this run and its children.
class FlowSlots {
 public:
  explicit FlowSlots(detail::Scope& scope) noexcept : scope_(&scope) {}
  template <class T>
  [[nodiscard]] FlowSlot<T> workflow(std::string_view key, std::optional<T> initial = {}) const {
    return {*scope_, slot::workflow(scope_->machine().identity().type, key), std::move(initial)};
  }
  template <class T>
  [[nodiscard]] FlowSlot<T> execution(std::string_view key, std::optional<T> initial = {}) const {
    return {*scope_, slot::execution(scope_->machine().tree(), key), std::move(initial)};
  }

 private:
  detail::Scope* scope_;
};

class Context : public detail::Scope {
 public:
  explicit Context(detail::Machine& machine) noexcept : Scope(machine), state(*this) {}
  Context(detail::Scope& parent, bool shielded) : Scope(parent, shielded), state(*this) {}

  [[nodiscard]] const std::string& id() const noexcept { return machine().identity().id; }
  [[nodiscard]] const std::string& type() const noexcept { return machine().identity().type; }
  [[nodiscard]] bool cancelled() const noexcept { return is_cancelled(); }

  // The time at which the last result was stored, and numbers of a generator whose seed was stored
  // with the start: the same in every replay.
  [[nodiscard]] Instant now() const noexcept { return machine().now(); }
  [[nodiscard]] std::uint64_t random() noexcept { return next_random(); }
  [[nodiscard]] double uniform() noexcept {  // In [0, 1).
    return static_cast<double>(next_random() >> 11U) * 0x1.0p-53;
  }
  [[nodiscard]] Uuid uuid() noexcept;  // Version 4.

  // `f` is a function or a lambda without captures: what it needs are its arguments, which are
  // copied. Its first parameter may be a StepContext&.
  template <std::same_as<Step> S = Step, class F, class... A>
  [[nodiscard]] auto run(S&& step, F f, A&&... arguments) {
    detail::check_awaited_values<S>();
    return run_step(std::forward<S>(step), f, std::forward<A>(arguments)...);
  }
  template <class F, class... A>
  [[nodiscard]] auto run(const Step& step, F f, A&&... arguments) {
    return run_step(step, f, std::forward<A>(arguments)...);
  }
  template <class F, class... A>
  [[nodiscard]] auto run(std::string_view name, F f, A&&... arguments) {
    return run_step(Step{.name = std::string{name}}, f, std::forward<A>(arguments)...);
  }

  // Up to a hundred years; more is a BadRequest.
  [[nodiscard]] auto sleep(std::chrono::nanoseconds time) {
    return detail::TimerAwait{*this, time};
  }
  [[nodiscard]] auto sleep_until(Instant time) { return detail::TimerAwait{*this, time}; }

  template <class T>
  [[nodiscard]] auto wait_signal(std::string_view name) {
    return detail::SignalAwait<T, T>{*this, std::string{name}, std::nullopt};
  }
  // Nothing: the time was over first.
  template <class T>
  [[nodiscard]] auto wait_signal(std::string_view name, std::chrono::nanoseconds timeout) {
    return detail::SignalAwait<T, std::optional<T>>{*this, std::string{name}, timeout};
  }

  // The predicate may look at variables of the coroutine that waits, and changes nothing.
  template <class P>
    requires(std::predicate<std::remove_cvref_t<P>&>)
  [[nodiscard]] auto wait_until(P&& predicate) {
    detail::check_awaited_closures<P>();
    using Await = detail::ConditionAwait<std::remove_cvref_t<P>>;
    return Await{*this, std::forward<P>(predicate), std::nullopt};
  }
  // False: the time was over first.
  template <class P>
    requires(std::predicate<std::remove_cvref_t<P>&>)
  [[nodiscard]] auto wait_until(P&& predicate, std::chrono::nanoseconds timeout) {
    detail::check_awaited_closures<P>();
    using Await = detail::ConditionAwait<std::remove_cvref_t<P>>;
    return Await{*this, std::forward<P>(predicate), timeout};
  }

  // Branches are lambdas of the form [&](Context& ctx) -> Flow<T> that use their own `ctx`.
  template <class... F>
    requires(std::invocable<std::remove_cvref_t<F>&, Context&> && ...)
  [[nodiscard]] auto all(F&&... branches) {
    detail::check_awaited_closures<F...>();
    return detail::AllAwait<std::remove_cvref_t<F>...>{*this, std::forward<F>(branches)...};
  }
  template <std::invocable<Context&> F>
  [[nodiscard]] auto all(std::vector<F> branches) {
    return detail::AllOfAwait<F>{*this, std::move(branches)};
  }
  template <class... F>
    requires(sizeof...(F) > 0 && (std::invocable<std::remove_cvref_t<F>&, Context&> && ...))
  [[nodiscard]] auto race(F&&... branches) {
    detail::check_awaited_closures<F...>();
    return detail::RaceAwait<std::remove_cvref_t<F>...>{*this, std::forward<F>(branches)...};
  }
  template <class F>
    requires(std::invocable<std::remove_cvref_t<F>&, Context&>)
  [[nodiscard]] auto shielded(F&& body) {
    detail::check_awaited_closures<F>();
    return detail::ScopedAwait<std::remove_cvref_t<F>, true>{*this, std::forward<F>(body)};
  }

  // Claims as those of a space, in the same queue as the requests of ordinary processes. The ticket
  // is kept across crashes, and released with the workflow's end at the latest. Throws Deadlock,
  // LimitMismatch, Evicted.
  [[nodiscard]] auto lock(const Request& request) {
    const std::span<const Claim> claims = request.claims();
    return LockAwait{*this, {claims.begin(), claims.end()}};
  }
  // In the same transaction as what the workflow does next.
  [[nodiscard]] auto release(const FlowHold& hold) { return ReleaseAwait{*this, hold}; }
  // body(Context&, FlowHold) returns a Flow<T>; the lock is released when that has ended, however.
  template <class F>
  [[nodiscard]] auto with_lock(const Request& request, F&& body) {
    detail::check_awaited_closures<F>();
    using Locked = LockedBody<std::remove_cvref_t<F>>;
    const std::span<const Claim> claims = request.claims();
    Locked locked{{claims.begin(), claims.end()}, std::forward<F>(body)};
    return detail::ScopedAwait<Locked, false>{*this, std::move(locked)};
  }

  // Starts another workflow, and waits for its end. Throws ChildFailed.
  template <class R = void, class... A>
  [[nodiscard]] auto child(std::string_view type, A&&... arguments) {
    return make_child<detail::ChildAwait<R>>({}, type, std::forward<A>(arguments)...);
  }
  template <class R = void, std::same_as<ChildOptions> S = ChildOptions, class... A>
  [[nodiscard]] auto child(S&& options, std::string_view type, A&&... arguments) {
    detail::check_awaited_values<S>();
    return make_child<detail::ChildAwait<R>>(std::forward<S>(options), type,
                                             std::forward<A>(arguments)...);
  }
  template <class R = void, class... A>
  [[nodiscard]] auto child(const ChildOptions& options, std::string_view type, A&&... arguments) {
    return make_child<detail::ChildAwait<R>>(options, type, std::forward<A>(arguments)...);
  }
  // Returns a Child when that is started. Throws ChildFailed where it cannot be.
  template <class... A>
  [[nodiscard]] auto start_child(std::string_view type, A&&... arguments) {
    return make_child<detail::StartChildAwait>({}, type, std::forward<A>(arguments)...);
  }
  template <std::same_as<ChildOptions> S = ChildOptions, class... A>
  [[nodiscard]] auto start_child(S&& options, std::string_view type, A&&... arguments) {
    detail::check_awaited_values<S>();
    return make_child<detail::StartChildAwait>(std::forward<S>(options), type,
                                               std::forward<A>(arguments)...);
  }
  template <class... A>
  [[nodiscard]] auto start_child(const ChildOptions& options, std::string_view type,
                                 A&&... arguments) {
    return make_child<detail::StartChildAwait>(options, type, std::forward<A>(arguments)...);
  }
  template <class R = void>
  [[nodiscard]] auto result(const Child& child) {
    return detail::ChildResultAwait<R>{*this, child};
  }

  // Ends this run and starts the next one with these arguments, in one transaction: the workflow
  // keeps its id, its log begins anew. Signals that nobody took, and its place and deadline, go
  // along; locks are released, children are treated as at an end. Never returns.
  template <class... A>
  [[nodiscard]] auto continue_as_new(A&&... arguments) {
    static_assert((detail::HasCodec<Stored<A>> && ...), "an argument has no codec");
    detail::check_awaited_values<A...>();
    return ContinueAwait{*this, detail::encode_arguments(Stored<A>(std::forward<A>(arguments))...)};
  }
  // How many entries the log of this run has: a reason to continue as new.
  [[nodiscard]] std::uint32_t history_length() const noexcept { return machine().entries(); }

  // Changes a program whose workflows run: true where this place is reached for the first time by
  // a program that asks, false where the workflow's log was written without. Stored in the log.
  [[nodiscard]] bool patched(std::string_view id) { return machine().patched(std::string{id}); }

  // Engine::query() calls f with its arguments. f may look at variables of the coroutine. What it
  // changes is lost: it is called in a replay that is then thrown away.
  template <class F>
  [[nodiscard]] QueryHandler on_query(std::string_view name, F f) {
    return answering(name, std::function{std::move(f)});
  }

  // Handles updates of this name (Engine::update) as long as the returned object lives. `handler`
  // is a function R(A…), which answers at once, or a coroutine Flow<R>(Context&, A…), which may
  // await; it may change the workflow's variables. `validator`, if any, is called with the same
  // arguments before: it changes nothing, and rejects the update by throwing.
  template <class F>
  [[nodiscard]] UpdateHandler on_update(std::string_view name, F handler) {
    return updating(name, std::function{std::move(handler)}, nullptr);
  }
  template <class F, class V>
  [[nodiscard]] UpdateHandler on_update(std::string_view name, F handler, V validator) {
    return updating(name, std::function{std::move(handler)}, std::move(validator));
  }

  FlowSlots state;

 private:
  template <class R, class V, class... A>
  UpdateHandler updating(std::string_view name, std::function<R(A...)> f, V validator) {
    using Runner = detail::FunctionUpdate<R, A...>;
    return UpdateHandler{machine(), std::string{name},
                         std::make_unique<Runner>(machine(), std::move(f), std::move(validator))};
  }
  template <class R, class V, class... A>
  UpdateHandler updating(std::string_view name, std::function<Flow<R>(Context&, A...)> f,
                         V validator) {
    using Runner = detail::FlowUpdate<Context, R, A...>;
    return UpdateHandler{machine(), std::string{name},
                         std::make_unique<Runner>(*this, std::move(f), std::move(validator))};
  }
  template <class R, class... A>
  QueryHandler answering(std::string_view name, std::function<R(A...)> f) {
    static_assert(!std::is_void_v<R>, "a query has an answer");
    return QueryHandler{
        machine(), std::string{name}, [f = std::move(f)](std::string_view arguments) {
          return detail::encode_result(
              std::apply(f, detail::decode_arguments<std::decay_t<A>...>(arguments)));
        }};
  }
  template <class Await, class... A>
  Await make_child(ChildOptions options, std::string_view type, A&&... arguments) {
    static_assert((detail::HasCodec<Stored<A>> && ...), "a child's argument has no codec");
    detail::check_awaited_values<A...>();
    return Await{*this, std::move(options), std::string{type},
                 detail::encode_arguments(Stored<A>(std::forward<A>(arguments))...)};
  }
  template <class F>
  struct LockedBody {
    std::vector<Claim> claims;
    F body;
    auto operator()(Context& ctx) -> std::invoke_result_t<F&, Context&, FlowHold>;
  };
  // Text is copied into a string.
  template <class A>
  using Stored =
      std::conditional_t<std::is_convertible_v<A, std::string_view>, std::string, std::decay_t<A>>;
  template <class F, class... A>
  auto run_step(Step step, F f, A&&... arguments) {
    static_assert(std::is_pointer_v<F> || std::is_empty_v<F>,
                  "a step captures nothing: pass what it needs as arguments");
    static_assert((detail::HasCodec<Stored<A>> && ...), "a step's argument has no codec");
    detail::check_awaited_values<A...>();
    using R = typename Invoked<F, A...>::type;
    return detail::StepAwait<R, F, Stored<A>...>{*this, std::move(step), f,
                                                 Stored<A>(std::forward<A>(arguments))...};
  }
  template <class F, class... A>
  struct Invoked : std::conditional_t<std::is_invocable_v<const F&, StepContext&, Stored<A>...>,
                                      std::invoke_result<const F&, StepContext&, Stored<A>...>,
                                      std::invoke_result<const F&, Stored<A>...>> {};
};

template <class F>
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): it outlives the body.
auto Context::LockedBody<F>::operator()(Context& ctx)
    -> std::invoke_result_t<F&, Context&, FlowHold> {
  const FlowHold hold = co_await ctx.lock(claims);
  auto inside = body(ctx, hold);
  using Value = typename decltype(inside)::Value;
  std::exception_ptr error;
  std::optional<detail::Regular<Value>> value;
  try {
    if constexpr (std::is_void_v<Value>) {
      co_await std::move(inside);
    } else {
      value.emplace(co_await std::move(inside));
    }
  } catch (...) {
    error = std::current_exception();
  }
  co_await ctx.release(hold);
  if (error) std::rethrow_exception(error);
  if constexpr (!std::is_void_v<Value>) co_return *std::move(value);
}

}  // namespace tenure
