// runner.hpp: one thread, started when it is first needed, that runs jobs in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace tenure::space {

// Thread safety: all calls. The destructor runs the remaining jobs; if a job calls it, the thread
// runs them after the destructor has returned.
class Runner {
 public:
  // Returns the thread that runs the body, or throws.
  using Start = std::thread (*)(std::function<void()> body);

  explicit Runner(Start start = new_thread) noexcept : start_(start) {}
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  // Throws std::system_error if no thread can be started; the job then never runs.
  void run(std::function<void()> job);
  // For a forked child, in which the thread does not exist.
  void forget() noexcept;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> jobs;  // Guarded by mutex,
    bool ending = false;                     // and this.
  };
  static void work(const std::shared_ptr<State>& state);
  static std::thread new_thread(std::function<void()> body);

  const Start start_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace tenure::space
