// system_clock.hpp: the machine's monotonic clock, with a thread that waits; it is started by the
// first arm().
//
// Thread safety: all calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "tenure/pipeline.hpp"

namespace tenure::pipeline {

class SystemClock final : public PipelineClock {
 public:
  SystemClock() = default;
  SystemClock(const SystemClock&) = delete;
  SystemClock& operator=(const SystemClock&) = delete;
  ~SystemClock() override;

  [[nodiscard]] std::chrono::nanoseconds now() override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
  void arm(std::chrono::nanoseconds at, std::function<void()> wake) override;
  void disarm() override;

 private:
  void wait();

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::function<void()> wake_ TENURE_GUARDED_BY(mutex_);  // Null: not armed.
  std::chrono::nanoseconds at_ TENURE_GUARDED_BY(mutex_){};
  bool calling_ TENURE_GUARDED_BY(mutex_) = false;
  bool started_ TENURE_GUARDED_BY(mutex_) = false;
  bool ending_ TENURE_GUARDED_BY(mutex_) = false;
  base::ThreadGroup thread_;
};

}  // namespace tenure::pipeline
