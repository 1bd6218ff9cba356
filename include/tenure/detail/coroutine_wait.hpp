// coroutine_wait.hpp: a coroutine that waits for its turn, as the space and its executor know it.
//
// It is allocated apart from the coroutine's frame, because the coroutine may be destroyed while
// another thread ends the wait, or after an executor was told to resume it. Bits of its state:
//
//   bit       | set by                                | from then on
//   ----------+---------------------------------------+------------------------------------------
//   suspended | start(), before it returns true       | the end of the wait schedules the coroutine
//   ended     | who ends the wait; the outcome is set | the space has forgotten the wait
//   resumed   | resume(), before it resumes           | the frame belongs to the coroutine again
//   destroyed | the destructor of the awaiter         | resume() does nothing, and a grant is given
//             |                                       | back by the later of `ended` and this one
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "tenure/detail/backend.hpp"

namespace tenure::detail {

class CoroutineWait : public Waiter {
 public:
  CoroutineWait(const CoroutineWait&) = delete;
  CoroutineWait& operator=(const CoroutineWait&) = delete;

  // True: the coroutine waits, and may be resumed and gone already. False: it goes on at once.
  // Throws as Backend::request does; then nobody knows this object any more.
  static bool start(std::shared_ptr<CoroutineWait> self, const Ask& ask, std::stop_token stop);
  // The same for a request that is not queued: where the lock is taken, finish() returns false.
  static bool start_try(std::shared_ptr<CoroutineWait> self, const Ask& ask);
  // Once, on whichever thread the coroutine is to go on.
  void resume();
  // The coroutine has gone on: where its wait was stopped or only a try, false. Throws how it ended
  // otherwise.
  [[nodiscard]] bool finish();
  // The coroutine is being destroyed while it waits.
  void destroy() noexcept;

 protected:
  CoroutineWait(Backend* backend, std::coroutine_handle<> coroutine) noexcept
      : Waiter(&on_done), backend_(backend), coroutine_(coroutine) {
    caller = Caller::goes_on;
  }
  ~CoroutineWait() = default;

  // Has resume() called, but not inside of this call.
  virtual void schedule(std::shared_ptr<CoroutineWait> self) noexcept = 0;

 private:
  friend class ResumeScope;
  friend void resume_soon(std::shared_ptr<CoroutineWait> wait) noexcept;
  enum Bit : std::uint8_t { suspended = 1, ended = 2, resumed = 4, destroyed = 8 };
  struct OnStop {
    CoroutineWait* wait;
    void operator()() const noexcept;
  };
  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept;
  void end() noexcept;
  void give_back() const noexcept;

  Backend* const backend_;
  const std::coroutine_handle<> coroutine_;
  std::atomic<std::uint8_t> state_ = 0;
  WaitOutcome outcome_ = WaitOutcome::granted;
  bool stopped_ = false;
  std::shared_ptr<CoroutineWait> self_;  // While the space, or a thread's queue, knows of it.
  CoroutineWait* next_due_ = nullptr;
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

// Into the queue of this thread. Resuming happens there, never by recursion: a chain of hand-offs
// of any length needs one stack frame.
void resume_soon(std::shared_ptr<CoroutineWait> wait) noexcept;

}  // namespace tenure::detail
