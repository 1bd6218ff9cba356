// thread_group.hpp: threads that each run one job, and are waited for together.
//
//   running --- its job returns ---> finished --- the next run(), or wait ---> joined
//      '------- wait_for() ran out of time ---> given up: it shares nothing with the group
//
// Jobs may be code of the program and may take long: they do not delay other jobs. A job may
// destroy its group; the group then detaches that one thread.
//
// Thread safety: all calls; only one thread may destroy the group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"

namespace tenure::base {

class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { wait(); }

  // The job must not throw. Its thread receives no signals of the program. Throws std::system_error
  // if no thread can be started; the job then never runs.
  void run(std::function<void()> job);
  // Waits until all jobs are done, except the one that calls this.
  void wait() { wait_for(std::chrono::nanoseconds::max()); }
  // The same with a time limit. False: some jobs are still running.
  bool wait_for(std::chrono::nanoseconds limit);

 private:
  struct State {
    Mutex mutex;
    std::condition_variable_any changed;
    std::map<std::thread::id, std::thread> running TENURE_GUARDED_BY(mutex);
    std::vector<std::thread> finished TENURE_GUARDED_BY(mutex);
  };
  static void join_finished(State& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tenure::base
