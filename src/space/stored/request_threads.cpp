#include "space/stored/request_threads.hpp"

#include <atomic>
#include <system_error>
#include <utility>

#include "store/threads.hpp"

namespace tenure::stored {

RequestThreads::Lane RequestThreads::own() noexcept {
  static std::atomic<Lane> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

RequestThreads::Lane RequestThreads::of_this_thread() noexcept {
  thread_local const Lane lane = own();
  return lane;
}

RequestThreads::~RequestThreads() {
  {
    const std::scoped_lock lock{mutex_};
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RequestThreads::run(Lane lane, std::function<void()> job) {
  {
    const std::scoped_lock lock{mutex_};
    if (ready_.size() >= idle_ && threads_.size() < max_threads && !lanes_.contains(lane)) {
      try {
        threads_.push_back(stores::quiet_thread([this] { work(); }));
      } catch (const std::system_error&) {
        if (threads_.empty()) throw;
      }
    }
    const auto [at, is_new] = lanes_.try_emplace(lane);
    at->second.push_back(std::move(job));
    if (!is_new) return;
    ready_.push_back(lane);
  }
  changed_.notify_one();
}

void RequestThreads::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !ready_.empty(); });
    --idle_;
    if (ready_.empty()) return;
    const auto lane = lanes_.find(ready_.front());
    ready_.pop_front();
    std::function<void()> job = std::move(lane->second.front());
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    lane->second.pop_front();
    if (lane->second.empty()) {
      lanes_.erase(lane);
    } else {
      ready_.push_back(lane->first);
    }
  }
}

}  // namespace tenure::stored
