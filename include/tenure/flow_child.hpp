// flow_child.hpp: workflows that a workflow starts.
//
//   const int price = co_await ctx.child<int>("quote", item);        // Starts it and waits for it.
//
//   const tenure::Child child = co_await ctx.start_child("ship", order);   // Only starts it.
//   const Receipt receipt = co_await ctx.result<Receipt>(child);
//
// A child is a workflow like any other, with its own record, log and owner. Its id follows from the
// place in the parent that started it, so that it is started once, whatever crashes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tenure/detail/flow_machine.hpp"
#include "tenure/flow_error.hpp"

namespace tenure {

struct ChildOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string id{};  // Empty: "PARENT/SCOPE.SEQUENCE".
  // What happens to the child when its parent ends before it.
  ParentClose on_parent_close = ParentClose::cancel;
  std::chrono::nanoseconds timeout{};  // Zero: none. It is cancelled then, and ends timed-out.
  std::map<std::string, std::string> tags{};
  // NOLINTEND(readability-redundant-member-init)
};

// A child that was started. A value.
class Child {
 public:
  Child(detail::OpKey key, std::string id) : key_(key), id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] const detail::OpKey& key() const noexcept { return key_; }

 private:
  detail::OpKey key_;
  std::string id_;
};

// The child ended without a value, or was not started: info().type is then "already-started",
// "concurrency-limit" or "bad-request".
class ChildFailed : public WorkflowFailed {
 public:
  using WorkflowFailed::WorkflowFailed;
};

}  // namespace tenure
