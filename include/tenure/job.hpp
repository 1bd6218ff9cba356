// job.hpp: what a task of a Pipeline is told (TaskContext), and what a task that is a coroutine
// returns (Job).
//
//   tenure::Job publish(tenure::TaskContext context) {
//     auto hold = co_await space.async_lock(registry);
//     ...
//   }
//
// A job holds its slot of the pipeline until it ends, but no thread while it is suspended. It is
// resumed by whatever it awaits, on that one's thread. Its parameters are values: what they refer
// to must outlive the run.
//
// A job must end: one that is never resumed keeps run() from returning, cancelled or not. Await
// with context.stop() where that is possible.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <stop_token>
#include <utility>

#include "tenure/ticket.hpp"

namespace tenure {

// A task of one pipeline.
struct TaskId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(const TaskId&, const TaskId&) = default;
};

// One attempt of a task.
class TaskContext {
 public:
  TaskContext(TaskId task, unsigned attempt, Token token, std::stop_token stop) noexcept
      : task_(task), attempt_(attempt), token_(token), stop_(std::move(stop)) {}

  [[nodiscard]] TaskId task() const noexcept { return task_; }
  [[nodiscard]] unsigned attempt() const noexcept { return attempt_; }  // 0 is the first one.
  // The fencing token of the task's claims; Token{} where it has none.
  [[nodiscard]] Token token() const noexcept { return token_; }
  // Stops when the attempt should end: timeout, cancel, remove, or claims that were lost.
  [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }
  [[nodiscard]] bool stop_requested() const noexcept { return stop_.stop_requested(); }

 private:
  TaskId task_;
  unsigned attempt_;
  Token token_;
  std::stop_token stop_;
};

namespace detail {

// Who is told that a suspended job has ended; on the thread that resumed it last.
class JobListener {
 public:
  JobListener() = default;
  JobListener(const JobListener&) = delete;
  JobListener& operator=(const JobListener&) = delete;
  virtual void job_ended(TaskId task, std::exception_ptr error) noexcept = 0;

 protected:
  ~JobListener() = default;
};

}  // namespace detail

class [[nodiscard]] Job {
 public:
  class promise_type;  // NOLINT(readability-identifier-naming): the standard's name.
  using Handle = std::coroutine_handle<promise_type>;

  // The last awaiter of a job. Whichever comes second, the end of the job or the return of the
  // first resume, finishes the task.
  struct FinalAwaiter {
    // NOLINTBEGIN(readability-convert-member-functions-to-static): compilers call them on objects.
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(Handle handle) const noexcept;
    void await_resume() const noexcept {}
    // NOLINTEND(readability-convert-member-functions-to-static)
  };

  class promise_type {  // NOLINT(readability-identifier-naming)
   public:
    Job get_return_object() noexcept { return Job{Handle::from_promise(*this)}; }
    [[nodiscard]] static std::suspend_always initial_suspend() noexcept { return {}; }
    [[nodiscard]] static FinalAwaiter final_suspend() noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error_ = std::current_exception(); }

   private:
    friend class Job;
    enum class Phase : std::uint8_t { begun, suspended, ended };
    std::exception_ptr error_;
    detail::JobListener* listener_ = nullptr;
    TaskId task_;
    std::atomic<Phase> phase_{Phase::begun};
  };

  Job() noexcept = default;
  Job(Job&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Job& operator=(Job&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() { reset(); }

  // Runs it to its end or its first suspension. True: it has ended, and `error` is what it threw.
  // False: the listener will be told, or was already. The frame is then the job's own.
  bool begin(detail::JobListener& listener, TaskId task, std::exception_ptr& error);

 private:
  explicit Job(Handle handle) noexcept : handle_(handle) {}
  void reset() noexcept {
    if (handle_ != nullptr) std::exchange(handle_, nullptr).destroy();
  }
  Handle handle_;
};

// NOLINTNEXTLINE(readability-convert-member-functions-to-static)
inline void Job::FinalAwaiter::await_suspend(Handle handle) const noexcept {
  promise_type& promise = handle.promise();
  using Phase = promise_type::Phase;
  // acq_rel: the one that finishes sees all that the job wrote.
  if (promise.phase_.exchange(Phase::ended, std::memory_order_acq_rel) != Phase::suspended) return;
  detail::JobListener* const listener = promise.listener_;
  const TaskId task = promise.task_;
  std::exception_ptr error = std::move(promise.error_);
  handle.destroy();  // And with it this awaiter: locals only from here on.
  listener->job_ended(task, std::move(error));
}

inline bool Job::begin(detail::JobListener& listener, TaskId task, std::exception_ptr& error) {
  const Handle handle = std::exchange(handle_, nullptr);
  promise_type& promise = handle.promise();
  promise.listener_ = &listener;
  promise.task_ = task;
  handle.resume();
  using Phase = promise_type::Phase;
  if (promise.phase_.exchange(Phase::suspended, std::memory_order_acq_rel) != Phase::ended) {
    return false;
  }
  error = std::move(promise.error_);
  handle.destroy();
  return true;
}

}  // namespace tenure
