// sync_waiter.hpp: a thread that waits for its turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>

#include "tenure/detail/backend.hpp"

namespace tenure::detail {

// Time that is left, by whichever clock the caller has.
struct TimeLeft {
  std::chrono::nanoseconds (*left)(const void* context);
  const void* context;
  [[nodiscard]] std::chrono::nanoseconds operator()() const { return left(context); }
};

// Throws what a wait that ended in `outcome` tells its caller.
void throw_outcome(const Waiter& waiter, WaitOutcome outcome);
inline void throw_unless_granted(const Waiter& waiter, WaitOutcome outcome) {
  if (outcome != WaitOutcome::granted) [[unlikely]]
    throw_outcome(waiter, outcome);
}

class SyncWaiter final : public Waiter {
 public:
  SyncWaiter() noexcept : Waiter(&on_done) {}

  void wait() noexcept;                                   // Until done or cancelled.
  void wait_for(std::chrono::nanoseconds time) noexcept;  // Or that long, or for no reason.
  [[nodiscard]] bool finished() const noexcept {
    return word_.load(std::memory_order_acquire) != waiting;
  }
  // The caller took the request back.
  void set_cancelled() noexcept { finish(cancelled); }
  [[nodiscard]] bool was_cancelled() const noexcept {
    return word_.load(std::memory_order_acquire) == cancelled;
  }
  [[nodiscard]] bool was_taken() const noexcept { return outcome_ == WaitOutcome::taken; }
  void throw_unless_granted() const { detail::throw_unless_granted(*this, outcome_); }

 private:
  // NOLINTNEXTLINE(performance-enum-size): the kernel sleeps on 32 bits.
  enum Word : std::uint32_t { waiting, ended, cancelled };
  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept;
  void finish(Word word) noexcept;

  WaitOutcome outcome_ = WaitOutcome::granted;
  std::atomic<std::uint32_t> word_ = waiting;
};

// Makes the request, and waits for it on the calling thread; `left` may have no clock. Null: the
// time was over, a stop was requested, or a try found it taken.
[[nodiscard]] std::optional<Grant> wait_for_grant(Backend& backend, const Ask& ask, TimeLeft left,
                                                  std::stop_token stop);

}  // namespace tenure::detail
