// executor.hpp: threads that run jobs: steps, and what else the engine has to do.
//
// A wake-up costs more than a short job. So while jobs are short, one thread runs them one after
// the other. The others sleep, except for a guard, which looks once per millisecond whether a job
// keeps that thread, and then runs the next one itself. While jobs are long, each one that waits
// wakes a thread. A thread that is about to end its job takes the next one itself.
//
// Jobs that callbacks of one batch of the store post are gathered: they reach the queue, and wake a
// thread, when there are several, or when the last callback has returned.
//
// Invariant: while a job waits and not every thread has one, a thread is being woken, the guard is
// awake, or a thread that calls back will see to it.
//
// Thread safety: all of it; stop() once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/flow.hpp"

namespace tenure::flow {

class ThreadPool final : public Executor, public std::enable_shared_from_this<ThreadPool> {
 public:
  explicit ThreadPool(std::size_t threads) : limit_(threads) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() override { stop(); }

  void post(std::function<void()> job) override;
  // A short job of a callback. Where the batch also posts several jobs here, and jobs are short, it
  // runs with them, before them. Else it is posted to the other pool.
  void post_along(std::function<void()> job, const std::shared_ptr<ThreadPool>& otherwise);
  // Takes the job only if no thread has one.
  [[nodiscard]] bool post_if_idle(const std::function<void()>& job);
  // What follows in the job that calls this does not block: one job that it posts to its own pool
  // may wait until it ends.
  static void ending() noexcept;
  // While one lives, the job of its thread, if that is a pool's, waits for the disk or a server: it
  // does not count as one that runs, and another thread takes those that wait.
  class Blocked {
   public:
    Blocked();
    Blocked(const Blocked&) = delete;
    Blocked& operator=(const Blocked&) = delete;
    ~Blocked();
  };
  // Runs what was posted and ends the threads.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Gathered;
  // Those of the calling thread.
  [[nodiscard]] Gathered& gathered();
  void queue_gathered();
  void serve();
  // Until it is called, or a job waits for too long.
  void sleep(base::Mutex::Scoped& lock) TENURE_REQUIRES(mutex_);
  void stand_guard(base::Mutex::Scoped& lock) TENURE_REQUIRES(mutex_);
  // A job waits: wakes a thread, or makes one, unless that can wait.
  void call_another() TENURE_REQUIRES(mutex_);

  const std::size_t limit_;
  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable_any guard_;
  std::deque<std::function<void()>> jobs_ TENURE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ TENURE_GUARDED_BY(mutex_);
  std::size_t idle_ TENURE_GUARDED_BY(mutex_) = 0;  // Asleep and not called; without the guard.
  std::size_t busy_ TENURE_GUARDED_BY(mutex_) = 0;  // Have a job, and are not Blocked.
  bool waking_ TENURE_GUARDED_BY(mutex_) = false;  // One was called, or made, and does not run yet.
  bool called_ TENURE_GUARDED_BY(mutex_) = false;  // It is one of those that were idle.
  bool guarded_ TENURE_GUARDED_BY(mutex_) = false;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::uint64_t taken_ TENURE_GUARDED_BY(mutex_) = 0;  // Jobs, ever.
  Clock::duration usual_ TENURE_GUARDED_BY(mutex_){};  // Time of a job, lately.
};

}  // namespace tenure::flow
