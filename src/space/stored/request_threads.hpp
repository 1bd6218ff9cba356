// request_threads.hpp: a few threads, started when they are needed, that make requests for callers
// that must not wait for a server.
//
// Jobs of one lane run one after the other, in the order in which they came; those of different
// lanes run at the same time, as many as there are threads.
//
// Thread safety: all calls, except the destructor. It runs the remaining jobs, and must be called
// by one thread that does not run a job.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace tenure::stored {

class RequestThreads {
 public:
  using Lane = std::uint64_t;
  static constexpr std::size_t max_threads = 8;

  RequestThreads() = default;
  RequestThreads(const RequestThreads&) = delete;
  RequestThreads& operator=(const RequestThreads&) = delete;
  ~RequestThreads();

  // Throws std::system_error if no thread can be started; the job then never runs.
  void run(Lane lane, std::function<void()> job);
  // One for each thread of the program.
  [[nodiscard]] static Lane of_this_thread() noexcept;
  // One that no other job has.
  [[nodiscard]] static Lane own() noexcept;

 private:
  void work();

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  std::map<Lane, std::deque<std::function<void()>>> lanes_;  // A lane exists while it has jobs.
  std::deque<Lane> ready_;                                   // Lanes whose next job may begin.
  std::size_t idle_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tenure::stored
