// thread_group.hpp: threads that each do one job, and are waited for together.
//
//   running --- its job returns ---> finished --- the next run(), or wait ---> joined
//      '------- wait_for() ran out of time ---> left alone: it shares nothing with the group
//
// Jobs may be the program's own code and may take their time: they delay no other job. A job may
// destroy its group; the group then leaves that one thread alone.
//
// Thread safety: all calls; the destructor is for one thread alone.
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

  // The job must not throw. No signal of the program is delivered to its thread. Throws
  // std::system_error if no thread can be started; the job then never runs.
  void run(std::function<void()> job);
  // Until all jobs are done, but for one that calls this.
  void wait() { wait_for(std::chrono::nanoseconds::max()); }
  // The same, for at most that long. False: some are left.
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
