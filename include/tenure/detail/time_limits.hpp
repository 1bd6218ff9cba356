// time_limits.hpp: when the wait of a coroutine has taken long enough.
//
// One thread counts the time down, and another one runs what is due: the coroutine may go on there.
// Both start with the first limit. A coroutine may keep the limits alive beyond their space.
//
// Thread safety: all calls. The last reference may be dropped anywhere, in a due call as well.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

namespace tenure::detail {

class TimeLimits {
 public:
  using Clock = std::chrono::steady_clock;

  TimeLimits() = default;
  TimeLimits(const TimeLimits&) = delete;
  TimeLimits& operator=(const TimeLimits&) = delete;
  virtual ~TimeLimits() = default;

  // Calls it once at that time, unless it is cancelled before. Returns its number. Throws
  // std::system_error where no thread can be started.
  virtual std::uint64_t call_at(Clock::time_point at, std::function<void()> call) = 0;
  // Does not wait for a call that has begun.
  virtual void cancel(std::uint64_t call) noexcept = 0;
};

// A stop token that stops at a time, or with another one.
class TimedStop {
 public:
  TimedStop(std::shared_ptr<TimeLimits> limits, TimeLimits::Clock::time_point at,
            std::stop_token stop)
      : limits_(std::move(limits)), on_stop_(std::move(stop), Forward{source_}) {
    call_ = limits_->call_at(at, [source = source_]() mutable { source.request_stop(); });
  }
  TimedStop(const TimedStop&) = delete;
  TimedStop& operator=(const TimedStop&) = delete;
  ~TimedStop() { limits_->cancel(call_); }

  [[nodiscard]] std::stop_token token() const noexcept { return source_.get_token(); }

 private:
  struct Forward {
    std::stop_source to;
    void operator()() const noexcept { std::stop_source{to}.request_stop(); }
  };
  std::stop_source source_;
  std::shared_ptr<TimeLimits> limits_;
  std::stop_callback<Forward> on_stop_;
  std::uint64_t call_ = 0;
};

}  // namespace tenure::detail
