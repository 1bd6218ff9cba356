// step.hpp: how a step of a workflow runs: attempts, time limits, heartbeat, cancellation.
//
//   const Step step{.name = "charge", .retry = {.max_attempts = 5}, .attempt_timeout = 10s};
//   auto receipt = co_await ctx.run(step, charge, order);
//
// A step is an ordinary function, on a thread of the engine's. It runs again after a crash unless
// its result was stored; afterwards never.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tenure/store.hpp"

namespace tenure {

struct RetryPolicy {
  std::uint32_t max_attempts = 1;
  // The pause after attempt n is random, up to the smaller of base * 2^(n-1) and cap.
  std::chrono::nanoseconds base = std::chrono::milliseconds{100};
  std::chrono::nanoseconds cap = std::chrono::minutes{1};
  // Types and codes (ErrorInfo) of errors that are not retried.
  // NOLINTNEXTLINE(readability-redundant-member-init): designated ones may leave it out.
  std::vector<std::string> never_for{};
};

// Zero: no limit. An attempt that is over its limit counts as failed with type "timeout"; its
// function sees StepContext::stop_token(), and what it returns later is ignored.
struct Step {
  std::string name;
  // NOLINTBEGIN(readability-redundant-member-init)
  RetryPolicy retry{};
  std::chrono::nanoseconds attempt_timeout{};
  std::chrono::nanoseconds timeout{};    // Of all attempts together, from the first await on.
  std::chrono::nanoseconds heartbeat{};  // The longest time between two heartbeats.
  // NOLINTEND(readability-redundant-member-init)
  // Its start is stored too, which costs a sync: after a crash in between the step is not run again
  // but fails with type "interrupted".
  bool at_most_once = false;
};

// What a step may ask for: a function whose first parameter is a StepContext& gets one.
class StepContext {
 public:
  // NOLINTNEXTLINE(bugprone-easily-swappable-parameters): only the engine makes one.
  StepContext(std::string workflow, std::uint32_t attempt, std::uint64_t reign,
              std::stop_token stop, std::function<void()> beat)
      : workflow_(std::move(workflow)),
        attempt_(attempt),
        reign_(reign),
        stop_(std::move(stop)),
        beat_(std::move(beat)) {}

  [[nodiscard]] const std::string& workflow() const noexcept { return workflow_; }
  [[nodiscard]] std::uint32_t attempt() const noexcept { return attempt_; }  // From 1.
  // Grows with each engine that takes the workflow over: together with a lock's token it fences off
  // a step of an engine that was superseded without noticing.
  [[nodiscard]] std::uint64_t reign() const noexcept { return reign_; }
  // Stops when the workflow is cancelled, the attempt's time is over or the engine ends.
  [[nodiscard]] const std::stop_token& stop_token() const noexcept { return stop_; }
  [[nodiscard]] bool cancelled() const noexcept { return stop_.stop_requested(); }
  void heartbeat() {
    if (beat_) beat_();
  }

 private:
  std::string workflow_;
  std::uint32_t attempt_;
  std::uint64_t reign_;
  std::stop_token stop_;
  std::function<void()> beat_;
};

}  // namespace tenure
