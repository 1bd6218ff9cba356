// simulation_test.hpp: a Runner without processes: virtual time, durations and outcomes that the
// test chooses.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "pipeline/loop.hpp"

namespace tenure::pipeline {

class SimulatedRunner final : public Runner {
 public:
  using Time = std::chrono::nanoseconds;
  struct Attempt {
    Time takes{1};
    Report::Kind outcome = Report::Kind::done;
  };
  struct Seen {
    unsigned starts = 0;
    unsigned ends = 0;
    bool runs = false;
    bool claims = false;
    TaskEnd end = TaskEnd::cancelled;
    Time first_start{-1};
    Time ended_at{-1};
  };

  // What each attempt does, what happens meanwhile, and whether claims are granted at once.
  std::function<Attempt(Index, unsigned)> attempt = [](Index, unsigned) { return Attempt{}; };
  std::function<void()> meanwhile;
  std::function<std::optional<Time>(Index)> claim_takes = [](Index) { return std::nullopt; };
  std::function<void(Index)> on_start = [](Index) {};

  [[nodiscard]] const Seen& seen(Index task) { return at(task); }
  [[nodiscard]] unsigned running() const noexcept { return running_; }
  [[nodiscard]] unsigned most() const noexcept { return most_; }

  [[nodiscard]] Time now() override { return now_; }
  bool claim(Index task) override {
    EXPECT_FALSE(at(task).claims);
    at(task).claims = true;
    const std::optional<Time> takes = claim_takes(task);
    if (!takes) return true;
    events_.push_back({.at = now_ + *takes, .report = {task, Report::Kind::claimed}});
    return false;
  }
  void unclaim(Index task) override {
    at(task).claims = false;
    std::erase_if(events_, [&](const Event& event) {
      return event.report.task == task && event.report.kind == Report::Kind::claimed;
    });
  }
  void start(Index task, unsigned number) override {
    Seen& own = at(task);
    EXPECT_TRUE(own.claims) << "task " << task << " started without its claims";
    EXPECT_FALSE(own.runs);
    EXPECT_EQ(own.ends, 0U);
    EXPECT_EQ(own.starts++, number);
    own.runs = true;
    if (own.first_start.count() < 0) own.first_start = now_;
    most_ = std::max(most_, ++running_);
    on_start(task);
    const Attempt plan = attempt(task, number);
    events_.push_back({.at = now_ + plan.takes, .report = {task, plan.outcome}});
  }
  // It takes a moment to end.
  void stop(Index task, StopReason /*reason*/) override {
    EXPECT_TRUE(at(task).runs);
    for (Event& event : events_) {
      if (event.report.task != task) continue;
      event.at = std::min(event.at, now_ + Time{1});
      event.report.kind = Report::Kind::failed;
    }
  }
  void ended(Index task, TaskEnd end) override {
    Seen& own = at(task);
    EXPECT_EQ(own.ends++, 0U) << "task " << task << " ended twice";
    own.end = end;
    own.ended_at = now_;
  }
  [[nodiscard]] std::optional<Report> wait(std::optional<Time> until) override {
    if (meanwhile) meanwhile();
    const auto next = std::ranges::min_element(events_, {}, &Event::at);
    if (next == events_.end() || (until && *until < next->at)) {
      if (until) now_ = std::max(now_, *until);
      return std::nullopt;
    }
    now_ = std::max(now_, next->at);
    const Report report = next->report;
    events_.erase(next);
    if (report.kind != Report::Kind::claimed) {
      Seen& own = at(report.task);
      if (own.runs) --running_;
      own.runs = false;
      own.claims = false;
    }
    return report;
  }

 private:
  struct Event {
    Time at{};
    Report report;
  };
  Seen& at(Index task) {
    if (task >= seen_.size()) seen_.resize(task + 1);
    return seen_[task];
  }

  Time now_{0};
  std::vector<Event> events_;
  std::vector<Seen> seen_;
  unsigned running_ = 0;
  unsigned most_ = 0;
};

}  // namespace tenure::pipeline
