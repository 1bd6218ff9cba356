// flow_children.hpp: what a workflow awaits of other workflows that it starts.
//
//   operation     | ends by                                   | when its scope is cancelled
//   --------------+-------------------------------------------+-----------------------------------
//   child         | an entry: the child has ended, or refused | the child is cancelled too, and
//                 |                                           | awaited; abandoned: ends at once
//   start_child   | an entry: started or refused              | stays, until its entry
//   result        | the entry that says that the child ended  | ends at once
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenure/detail/flow_machine.hpp"
#include "tenure/detail/flow_values.hpp"
#include "tenure/flow_child.hpp"

namespace tenure::detail {

class ChildBase : public Operation {
 public:
  // `awaited`: until the child ends; else until it is started.
  ChildBase(Scope& scope, ChildOptions options, std::string type, std::string input, bool awaited);
  [[nodiscard]] const ChildOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& input() const noexcept { return input_; }
  [[nodiscard]] const std::string& child_id() const noexcept { return child_id_; }
  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] bool awaited() const noexcept { return awaited_; }
  [[nodiscard]] std::optional<Instant> deadline() const;

 protected:
  void begin() override;
  bool take(const LogEntry& entry) override;
  [[nodiscard]] bool ends_at_once() const noexcept override {
    return awaited_ && options_.on_parent_close == ParentClose::abandon;
  }
  virtual void take_value(std::string_view /*text*/) {}
  void throw_if_failed() const;

 private:
  ChildOptions options_;
  std::string input_;
  bool awaited_;
  bool started_ = false;
  Instant first_;
  std::string child_id_;
  std::optional<ChildEnd> failed_;
};

template <class R>
class [[nodiscard]] ChildAwait final : public ChildBase {
 public:
  ChildAwait(Scope& scope, ChildOptions options, std::string type, std::string input)
      : ChildBase(scope, std::move(options), std::move(type), std::move(input), true) {}
  R await_resume() {
    throw_if_cancelled();
    throw_if_failed();
    if constexpr (!std::is_void_v<R>) return *std::move(result_);
  }

 protected:
  void take_value(std::string_view text) override {
    result_.emplace(decode_result<Regular<R>>(text));
  }

 private:
  std::optional<Regular<R>> result_;
};

class [[nodiscard]] StartChildAwait final : public ChildBase {
 public:
  StartChildAwait(Scope& scope, ChildOptions options, std::string type, std::string input)
      : ChildBase(scope, std::move(options), std::move(type), std::move(input), false) {}
  // NOLINTNEXTLINE(modernize-use-nodiscard): a workflow may leave its child alone.
  Child await_resume() const {
    throw_if_cancelled();
    throw_if_failed();
    return {key(), child_id()};
  }
};

class ChildResultBase : public Operation {
 public:
  ChildResultBase(Scope& scope, const Child& child);
  [[nodiscard]] const OpKey& child() const noexcept { return child_; }
  [[nodiscard]] bool await_ready();

 protected:
  bool take(const LogEntry& entry) override;
  virtual void take_value(std::string_view text) = 0;
  void throw_if_failed() const;

 private:
  void take_end(const ChildEnd& end);
  OpKey child_;
  std::optional<ChildEnd> failed_;
};

template <class R>
class [[nodiscard]] ChildResultAwait final : public ChildResultBase {
 public:
  using ChildResultBase::ChildResultBase;
  R await_resume() {
    throw_if_cancelled();
    throw_if_failed();
    if constexpr (!std::is_void_v<R>) return *std::move(result_);
  }

 protected:
  void take_value(std::string_view text) override {
    result_.emplace(decode_result<Regular<R>>(text));
  }

 private:
  std::optional<Regular<R>> result_;
};

}  // namespace tenure::detail
