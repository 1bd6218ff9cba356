// manual_clock_test.hpp: a clock that a test moves.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "tenure/pipeline.hpp"

namespace tenure::pipeline {

class ManualClock final : public PipelineClock {
 public:
  [[nodiscard]] std::chrono::nanoseconds now() override {
    const std::scoped_lock lock{mutex_};
    return now_;
  }
  void arm(std::chrono::nanoseconds at, std::function<void()> wake) override {
    const std::scoped_lock lock{mutex_};
    at_ = at;
    wake_ = std::move(wake);
    changed_.notify_all();
  }
  void disarm() override {
    std::unique_lock lock{mutex_};
    wake_ = nullptr;
    changed_.wait(lock, [&] { return !calling_; });
    wake_ = nullptr;  // The call may have armed it again.
  }

  // Waits until something is due in the future, moves to that time and lets it happen. False: the
  // limit, of real time, came first.
  bool advance(std::chrono::milliseconds limit = std::chrono::seconds{30}) {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, limit, [&] { return wake_ != nullptr; })) return false;
    now_ = std::max(now_, at_);
    const std::function<void()> wake = std::exchange(wake_, nullptr);
    calling_ = true;
    lock.unlock();
    wake();
    lock.lock();
    calling_ = false;
    changed_.notify_all();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::nanoseconds now_{0};
  std::chrono::nanoseconds at_{0};
  std::function<void()> wake_;
  bool calling_ = false;
};

}  // namespace tenure::pipeline
