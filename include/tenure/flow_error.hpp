// flow_error.hpp: what workflows and their callers catch.
//
// An error of a step is stored as type, code and message, and what a workflow catches is made from
// that, in the first run as in every replay. An exception class that the engine knows by name
// (Engine::error_type) comes back as itself, any other as StepFailed.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tenure/error.hpp"

namespace tenure {

// Thrown at every await of a workflow, or of a branch, that was cancelled. Not a std::exception, so
// that no handler for ordinary errors swallows it. Clean up in Context::shielded().
struct Cancelled {};

struct ErrorInfo {
  std::string type;  // The name that Engine::error_type() gave the class, or the class's own name.
  std::string code;  // Of a std::system_error: category and number; of others what code() returns.
  std::string message;
  friend bool operator==(const ErrorInfo&, const ErrorInfo&) = default;

  // {"type":…,"code":…,"message":…}
  [[nodiscard]] std::string text() const;
  // Throws where that is not what text() gives.
  [[nodiscard]] static ErrorInfo parse(std::string_view text);
};

// A step failed for good: it has no attempts left, or its error is one that is not retried.
class StepFailed : public Error {
 public:
  StepFailed(const std::string& step, ErrorInfo info)
      : Error("step '" + step + "' failed: " + info.message), info_(std::move(info)) {}
  [[nodiscard]] const ErrorInfo& info() const noexcept { return info_; }
  [[nodiscard]] bool timed_out() const noexcept { return info_.type == "timeout"; }

 private:
  ErrorInfo info_;
};

// The program asks for something else than the log of the workflow has at this place. The workflow
// stops; it goes on when a program that fits its log starts.
class ReplayMismatch : public Error {
 public:
  using Error::Error;
};

// The workflow type has as many runs that have not ended as its definition allows.
class ConcurrencyLimit : public Error {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
  ConcurrencyLimit(std::string type, std::string partition, std::uint32_t limit)
      : Error("workflow '" + type + "'" + (partition.empty() ? "" : " of '" + partition + "'") +
              ": all " + std::to_string(limit) +
              " places are taken; start it again when one of those runs has ended"),
        type_(std::move(type)),
        partition_(std::move(partition)),
        limit_(limit) {}
  [[nodiscard]] const std::string& type() const noexcept { return type_; }
  [[nodiscard]] const std::string& partition() const noexcept { return partition_; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

 private:
  std::string type_;
  std::string partition_;
  std::uint32_t limit_;
};

// As many starts of the type, or of the key, wait for a place as the limit allows.
class QueueFull : public Error {
 public:
  QueueFull(const std::string& type, const std::string& key, std::uint32_t limit)
      : Error("workflow '" + type + "'" + (key.empty() ? "" : " of '" + key + "'") + ": all " +
              std::to_string(limit) +
              " seats of the queue are taken; start it again when fewer wait"),
        limit_(limit) {}
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

 private:
  std::uint32_t limit_;
};

// As many workflows of the type, or of the key, were started as the limit allows per time.
class RateLimit : public Error {
 public:
  RateLimit(const std::string& type, const std::string& key, std::uint32_t limit,
            std::chrono::nanoseconds retry_after)
      : Error("workflow '" + type + "'" + (key.empty() ? "" : " of '" + key + "'") +
              ": the limit of " + std::to_string(limit) +
              " starts per time is reached; start it again in " +
              std::to_string(std::chrono::ceil<std::chrono::milliseconds>(retry_after).count()) +
              " ms"),
        limit_(limit),
        retry_after_(retry_after) {}
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::chrono::nanoseconds retry_after() const noexcept { return retry_after_; }

 private:
  std::uint32_t limit_;
  std::chrono::nanoseconds retry_after_;
};

// There is a workflow with this id already.
class AlreadyStarted : public Error {
 public:
  using Error::Error;
};

// There is no workflow with this id, or it has ended and takes no messages any more.
class NoSuchWorkflow : public Error {
 public:
  using Error::Error;
};
class WorkflowEnded : public Error {
 public:
  using Error::Error;
};

enum class FlowState : std::uint8_t {
  scheduled,
  running,
  completed,
  failed,
  cancelled,
  timed_out,
  queued,  // Waits for a place of its type's concurrency limit.
};
[[nodiscard]] std::string_view text_of(FlowState state) noexcept;
[[nodiscard]] constexpr bool is_terminal(FlowState state) noexcept {
  return state >= FlowState::completed && state <= FlowState::timed_out;
}

// What result() throws for a workflow that ended without a value.
class WorkflowFailed : public Error {
 public:
  WorkflowFailed(const std::string& id, FlowState state, ErrorInfo info)
      : Error("workflow '" + id + "' " + std::string{text_of(state)} +
              (info.message.empty() ? "" : ": " + info.message)),
        state_(state),
        info_(std::move(info)) {}
  [[nodiscard]] FlowState state() const noexcept { return state_; }
  [[nodiscard]] const ErrorInfo& info() const noexcept { return info_; }

 private:
  FlowState state_;
  ErrorInfo info_;
};

namespace detail {

// Exception classes by name. Thread safety: add() before the first use; the rest is const.
class ErrorTypes {
 public:
  template <class E>
  void add(const std::string& name) {
    types_[name] = {
        .is = [](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; },
        .code = [](const std::exception& e) -> std::string {
          if constexpr (requires(const E& error) { std::string{error.code()}; }) {
            return std::string{dynamic_cast<const E&>(e).code()};
          } else {
            return {};
          }
        },
        .raise = [](const ErrorInfo& info) { throw E(info.message); }};
  }
  [[nodiscard]] ErrorInfo describe(const std::exception_ptr& error) const;
  // Throws what the error is made into.
  [[noreturn]] void raise(const std::string& step, const ErrorInfo& info) const;

 private:
  struct Type {
    std::function<bool(const std::exception&)> is;
    std::function<std::string(const std::exception&)> code;
    std::function<void(const ErrorInfo&)> raise;
  };
  std::map<std::string, Type, std::less<>> types_;
};

}  // namespace detail
}  // namespace tenure
