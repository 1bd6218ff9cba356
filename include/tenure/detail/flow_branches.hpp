// flow_branches.hpp: several coroutines of one workflow at once, each in a scope of its own.
//
//   all     | waits for all; when one throws, the others are cancelled and awaited first
//   race    | the first one to end decides; the others are cancelled and awaited first
//   shielded| one; cancelling the workflow does not reach it
//
// The closures live in the awaiter, so what they capture of the waiting frame stays valid.
#pragma once

#include <coroutine>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tenure/detail/flow_task.hpp"

namespace tenure::detail {

template <class F>
using BranchFlow = std::invoke_result_t<F&, Context&>;
template <class F>
using BranchValue = typename BranchFlow<F>::Value;

// `C` is Context, which is complete only where this is instantiated.
template <class F, class C = Context>
class Branch {
 public:
  explicit Branch(F body) : body_(std::move(body)) {}
  void start(Scope& parent, bool shielded, EndListener& listener, std::size_t index) {
    context_.emplace(parent, shielded);
    flow_ = std::invoke(body_, *context_);
    flow_.start(listener, index);
  }
  void cancel() { context_->cancel(); }
  [[nodiscard]] bool failed() const noexcept { return flow_.error() != nullptr; }
  Regular<BranchValue<F>> take() {
    if constexpr (std::is_void_v<BranchValue<F>>) {
      flow_.take();
      return {};
    } else {
      return flow_.take();
    }
  }

 private:
  F body_;
  std::optional<C> context_;
  BranchFlow<F> flow_;  // Last: its frames go first.
};

class Join : public AwaitableTag, public EndListener {
 public:
  explicit Join(Scope& scope) noexcept : scope_(&scope) {}
  [[nodiscard]] bool await_ready() noexcept {
    cancelled_ = !shielded() && scope_->is_cancelled();
    return cancelled_;
  }
  void ended(std::size_t index) noexcept override {
    branch_ended(index);
    if (--left_ == 0) scope_->machine().resume_later(waiter_);
  }

 protected:
  ~Join() = default;
  [[nodiscard]] virtual bool shielded() const noexcept { return false; }
  virtual void branch_ended(std::size_t index) = 0;
  void wait_for(std::size_t branches, std::coroutine_handle<> waiter) noexcept {
    left_ = branches;
    waiter_ = waiter;
    if (left_ == 0) scope_->machine().resume_later(waiter_);
  }
  void throw_if_cancelled() const {
    if (cancelled_) throw Cancelled{};
  }
  Scope* scope_;

 private:
  std::size_t left_ = 0;
  bool cancelled_ = false;
  std::coroutine_handle<> waiter_;
};

template <class... F>
class BranchTuple {
 public:
  explicit BranchTuple(F... bodies) : branches_(std::move(bodies)...) {}
  // Calls f(branch, index) for each.
  template <class Call>
  void each(Call call) {
    std::size_t index = 0;
    std::apply([&](Branch<F>&... branch) { (call(branch, index++), ...); }, branches_);
  }
  template <std::size_t I>
  auto& get() {
    return std::get<I>(branches_);
  }

 private:
  std::tuple<Branch<F>...> branches_;
};

template <class... F>
class [[nodiscard]] AllAwait final : public Join {
 public:
  explicit AllAwait(Scope& scope, F... bodies) : Join(scope), branches_(std::move(bodies)...) {}
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_for(sizeof...(F), waiter);
    branches_.each(
        [this](auto& branch, std::size_t index) { branch.start(*scope_, false, *this, index); });
  }
  std::tuple<Regular<BranchValue<F>>...> await_resume() {
    throw_if_cancelled();
    if (failed_) {
      branches_.each([this](auto& branch, std::size_t index) {
        if (index == *failed_) static_cast<void>(branch.take());
      });
    }
    return [this]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Regular<BranchValue<F>>...>{branches_.template get<I>().take()...};
    }(std::index_sequence_for<F...>{});
  }

 protected:
  void branch_ended(std::size_t ended) override {
    branches_.each([&](auto& branch, std::size_t index) {
      if (index == ended && branch.failed() && !failed_) failed_ = ended;
    });
    if (failed_ != ended) return;
    branches_.each([&](auto& branch, std::size_t index) {
      if (index != ended) branch.cancel();
    });
  }

 private:
  BranchTuple<F...> branches_;
  std::optional<std::size_t> failed_;
};

// As many as there are.
template <class F>
class [[nodiscard]] AllOfAwait final : public Join {
 public:
  AllOfAwait(Scope& scope, std::vector<F> bodies) : Join(scope) {
    for (F& body : bodies) branches_.emplace_back(std::move(body));
  }
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_for(branches_.size(), waiter);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      branches_[i].start(*scope_, false, *this, i);
    }
  }
  std::vector<Regular<BranchValue<F>>> await_resume() {
    throw_if_cancelled();
    if (failed_) static_cast<void>(branches_[*failed_].take());
    std::vector<Regular<BranchValue<F>>> values;
    values.reserve(branches_.size());
    for (auto& branch : branches_) values.push_back(branch.take());
    return values;
  }

 protected:
  void branch_ended(std::size_t ended) override {
    if (failed_ || !branches_[ended].failed()) return;
    failed_ = ended;
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      if (i != ended) branches_[i].cancel();
    }
  }

 private:
  std::deque<Branch<F>> branches_;
  std::optional<std::size_t> failed_;
};

template <class... F>
class [[nodiscard]] RaceAwait final : public Join {
 public:
  using Result = std::variant<Regular<BranchValue<F>>...>;
  explicit RaceAwait(Scope& scope, F... bodies) : Join(scope), branches_(std::move(bodies)...) {}
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_for(sizeof...(F), waiter);
    branches_.each(
        [this](auto& branch, std::size_t index) { branch.start(*scope_, false, *this, index); });
  }
  // index() says which one won.
  Result await_resume() {
    throw_if_cancelled();
    std::optional<Result> result;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)((I == *winner_ &&
              (result.emplace(std::in_place_index<I>, branches_.template get<I>().take()), true)) ||
             ...);
    }(std::index_sequence_for<F...>{});
    return *std::move(result);
  }

 protected:
  void branch_ended(std::size_t ended) override {
    if (winner_) return;
    winner_ = ended;
    branches_.each([&](auto& branch, std::size_t index) {
      if (index != ended) branch.cancel();
    });
  }

 private:
  BranchTuple<F...> branches_;
  std::optional<std::size_t> winner_;
};

// One, in a scope of its own.
template <class F, bool Shield>
class [[nodiscard]] ScopedAwait final : public Join {
 public:
  ScopedAwait(Scope& scope, F body) : Join(scope), branch_(std::move(body)) {}
  void await_suspend(std::coroutine_handle<> waiter) {
    wait_for(1, waiter);
    branch_.start(*scope_, Shield, *this, 0);
  }
  BranchValue<F> await_resume() {
    throw_if_cancelled();
    if constexpr (std::is_void_v<BranchValue<F>>) {
      static_cast<void>(branch_.take());
    } else {
      return branch_.take();
    }
  }

 protected:
  [[nodiscard]] bool shielded() const noexcept override { return Shield; }
  void branch_ended(std::size_t /*index*/) override {}

 private:
  Branch<F> branch_;
};

}  // namespace tenure::detail
