// flow_updates.hpp: handlers of updates, inside a workflow.
//
// A handler is a function, which answers at once, or a coroutine in a scope of its own. It begins
// when the entry of its update is delivered, so a replay calls it at the same place.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tenure/detail/flow_machine.hpp"
#include "tenure/detail/flow_task.hpp"
#include "tenure/detail/flow_values.hpp"

namespace tenure::detail {

template <class... A>
using Validator = std::function<void(const std::decay_t<A>&...)>;

// Ends an update with what the call returns or throws.
template <class F>
void end_update(Machine& machine, const std::string& id, F call) {
  UpdateEnd end{.id = id, .ok = true, .value = {}};
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      call();
      end.value = "null";
    } else {
      end.value = encode_result(call());
    }
  } catch (const Cancelled&) {
    end.ok = false;
    end.value =
        ErrorInfo{.type = "cancelled", .code = {}, .message = "the workflow was cancelled"}.text();
  } catch (...) {
    end.ok = false;
    end.value = machine.errors().describe(std::current_exception()).text();
  }
  machine.update_ended(std::move(end));
}

template <class R, class... A>
class FunctionUpdate final : public UpdateRunner {
 public:
  FunctionUpdate(Machine& machine, std::function<R(A...)> f, Validator<A...> validator)
      : machine_(&machine), f_(std::move(f)), validator_(std::move(validator)) {}
  void validate(std::string_view arguments) override {
    const auto values = decode_arguments<std::decay_t<A>...>(arguments);
    if (validator_) std::apply(validator_, values);
  }
  void run(const std::string& id, std::string_view arguments) override {
    end_update(*machine_, id, [&]() -> R {
      return std::apply(f_, decode_arguments<std::decay_t<A>...>(arguments));
    });
  }

 private:
  Machine* machine_;
  std::function<R(A...)> f_;
  Validator<A...> validator_;
};

// `C` is Context, which is complete only where this is instantiated.
template <class C, class R, class... A>
class FlowUpdate final : public UpdateRunner, public EndListener {
 public:
  FlowUpdate(Scope& scope, std::function<Flow<R>(C&, A...)> f, Validator<A...> validator)
      : scope_(&scope), f_(std::move(f)), validator_(std::move(validator)) {}
  void validate(std::string_view arguments) override {
    const auto values = decode_arguments<std::decay_t<A>...>(arguments);
    if (validator_) std::apply(validator_, values);
  }
  void run(const std::string& id, std::string_view arguments) override {
    std::erase_if(running_, [](const auto& one) { return one.second->ended; });
    const std::size_t index = next_++;
    auto& made = *running_.emplace(index, std::make_unique<Running>(id, *scope_)).first->second;
    made.flow = std::apply(
        [&](auto&&... values) {
          return f_(made.context, std::forward<decltype(values)>(values)...);
        },
        decode_arguments<std::decay_t<A>...>(arguments));
    made.flow.start(*this, index);
  }
  void ended(std::size_t index) noexcept override {
    Running& one = *running_.at(index);
    one.ended = true;  // Its frame runs still: it is destroyed later.
    end_update(scope_->machine(), one.id, [&]() -> R { return one.flow.take(); });
  }

 private:
  struct Running {
    Running(std::string update, Scope& parent) : id(std::move(update)), context(parent, false) {}
    std::string id;
    bool ended = false;
    C context;
    Flow<R> flow;  // Last: its frames go first.
  };
  Scope* scope_;
  std::function<Flow<R>(C&, A...)> f_;
  Validator<A...> validator_;
  std::size_t next_ = 0;
  std::map<std::size_t, std::unique_ptr<Running>> running_;  // Last: the frames use f_.
};

}  // namespace tenure::detail

namespace tenure {

// A handler of updates: there as long as this object. Keep it in a variable of the coroutine. An
// update whose handler has not ended by then fails.
class [[nodiscard]] UpdateHandler {
 public:
  UpdateHandler(detail::Machine& machine, std::string name,
                std::unique_ptr<detail::UpdateRunner> runner)
      : machine_(&machine), name_(std::move(name)), runner_(std::move(runner)) {
    machine_->add_update(name_, *runner_);
  }
  UpdateHandler(const UpdateHandler&) = delete;
  UpdateHandler& operator=(const UpdateHandler&) = delete;
  ~UpdateHandler() { machine_->remove_update(name_); }

 private:
  detail::Machine* machine_;
  std::string name_;
  std::unique_ptr<detail::UpdateRunner> runner_;
};

}  // namespace tenure
