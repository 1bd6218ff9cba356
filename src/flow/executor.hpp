// executor.hpp: threads that run jobs: steps, and what else the engine has to do.
//
// A job that is posted wakes one thread; a thread that takes a job and sees another one wakes the
// next. So a batch of jobs that one thread gets done wakes no other. A thread that is about to end
// its job takes the next one itself.
//
// Thread safety: all of it; stop() once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/flow.hpp"

namespace tenure::flow {

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::size_t threads) : limit_(threads) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() override { stop(); }

  void post(std::function<void()> job) override;
  // What follows in the job that calls this does not block: one job that it posts to its own pool
  // may wait until it ends.
  static void ending() noexcept;
  // Runs what was posted and ends the threads.
  void stop();

 private:
  void serve();

  const std::size_t limit_;
  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::deque<std::function<void()>> jobs_ TENURE_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ TENURE_GUARDED_BY(mutex_);
  std::size_t idle_ TENURE_GUARDED_BY(mutex_) = 0;
  std::size_t waking_ TENURE_GUARDED_BY(mutex_) = 0;  // Told to wake, not yet running.
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
};

}  // namespace tenure::flow
