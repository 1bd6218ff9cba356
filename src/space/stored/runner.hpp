// runner.hpp: one thread, started when it is first needed, that runs what must not run elsewhere.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace tenure::stored {

// Thread safety: all calls. The destructor runs what is left, unless it is called by a job itself:
// then the thread goes on alone and does that.
class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  void run(std::function<void()> job);
  // In a forked child: there is no thread any more.
  void forget() noexcept;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;  // Guarded by mutex,
    bool ending = false;                     // and this.
  };
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace tenure::stored
