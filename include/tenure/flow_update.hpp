// flow_update.hpp: updates of running workflows, as callers see them. Handlers: Context::on_update.
//
//   int left = engine.update<int>("order-7", "reserve", 3);      // Waits for the handler's result.
//
//   auto update = engine.send_update({.id = "r-1"}, "order-7", "reserve", 3);
//   update.wait_accepted();                                       // Throws UpdateRejected.
//   int left = update.result<int>();
//
//   state     | what has happened
//   ----------+-------------------------------------------------------------------------------
//   sent      | it is in the store; no engine has looked at it
//   rejected  | the validator threw, or there is no such handler. The workflow's log has no trace
//   accepted  | it is in the workflow's log, and its handler has begun
//   completed | the handler has returned
//   failed    | the handler threw, or the workflow ended before it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenure/detail/flow_values.hpp"
#include "tenure/flow_error.hpp"

namespace tenure {

namespace flow {
class Core;
}

enum class UpdateState : std::uint8_t { sent, rejected, accepted, completed, failed };
[[nodiscard]] std::string_view text_of(UpdateState state) noexcept;

struct UpdateOptions {
  // An update with an id that the workflow was sent before is not sent again: the call returns the
  // first one. Empty: a new id.
  std::string id{};  // NOLINT(readability-redundant-member-init)
};

// The validator threw this, or the workflow has no handler of this name or for these arguments.
class UpdateRejected : public Error {
 public:
  UpdateRejected(const std::string& workflow, const std::string& update, ErrorInfo info)
      : Error("workflow '" + workflow + "' rejected update '" + update + "': " + info.message),
        info_(std::move(info)) {}
  [[nodiscard]] const ErrorInfo& info() const noexcept { return info_; }

 private:
  ErrorInfo info_;
};

// The handler threw this.
class UpdateFailed : public Error {
 public:
  UpdateFailed(const std::string& workflow, const std::string& update, ErrorInfo info)
      : Error("update '" + update + "' of workflow '" + workflow + "' failed: " + info.message),
        info_(std::move(info)) {}
  [[nodiscard]] const ErrorInfo& info() const noexcept { return info_; }

 private:
  ErrorInfo info_;
};

// An update that was sent. A value: copies are the same one. Thread safety: all calls.
class Update {
 public:
  Update(std::shared_ptr<flow::Core> core, std::string workflow, std::string id)
      : core_(std::move(core)), workflow_(std::move(workflow)), id_(std::move(id)) {}
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  // As stored now; does not wait. Throws NoSuchWorkflow.
  [[nodiscard]] UpdateState state() const;
  // Waits until it is accepted. Throws UpdateRejected, WorkflowEnded, Closed.
  void wait_accepted() const;
  // Waits for the handler's result. Throws UpdateRejected, UpdateFailed, WorkflowEnded, Closed.
  template <class R = void>
  R result() const {  // NOLINT(modernize-use-nodiscard): some only wait.
    const std::string text = wait();
    if constexpr (!std::is_void_v<R>) return detail::decode_result<R>(text);
  }

 private:
  [[nodiscard]] std::string wait() const;
  std::shared_ptr<flow::Core> core_;
  std::string workflow_;
  std::string id_;
};

}  // namespace tenure
