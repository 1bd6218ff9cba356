#include "space/timers.hpp"

#include <algorithm>
#include <chrono>

#include "store/threads.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::space {
namespace {

// The longest wait: condition variables stand still while the machine sleeps, deadlines do not.
constexpr std::chrono::nanoseconds longest_nap = std::chrono::milliseconds{250};

}  // namespace

Timers::~Timers() {
  std::thread thread;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    thread = std::move(thread_);
    changed_.notify_one();
  }
  if (thread.joinable()) thread.join();
}

void Timers::set(std::uint64_t id, Instant at, Call call) {
  Call old;  // Goes when the mutex is free.
  const base::Mutex::Scoped lock{mutex_};
  if (!thread_.joinable() && !stopping_) {
    thread_ = stores::quiet_thread([this] { serve(); });
  }
  Timer& timer = timers_[id];
  order_.erase({timer.at, id});
  order_.emplace(at, id);
  timer.at = at;
  old = std::exchange(timer.call, std::move(call));
  if (order_.begin()->second == id) changed_.notify_one();
}

void Timers::cancel(std::uint64_t id) noexcept {
  Call old;
  const base::Mutex::Scoped lock{mutex_};
  const auto at = timers_.find(id);
  if (at == timers_.end()) return;
  order_.erase({at->second.at, id});
  old = std::move(at->second.call);
  timers_.erase(at);
}

void Timers::wake() noexcept {
  const base::Mutex::Scoped lock{mutex_};
  changed_.notify_one();
}

void Timers::run_first() {
  const auto first = timers_.find(order_.begin()->second);
  order_.erase(order_.begin());
  Call call = std::move(first->second.call);
  timers_.erase(first);
  mutex_.unlock();
  call();
  call = nullptr;
  mutex_.lock();
}

void Timers::serve() {
  const base::Mutex::Scoped lock{mutex_};
  while (!stopping_) {
    if (order_.empty()) {
      changed_.wait(mutex_);
      continue;
    }
    const std::chrono::nanoseconds left = detail::saturating_sub(order_.begin()->first, clock_());
    if (left.count() > 0) {
      changed_.wait_for(mutex_, std::min(left, longest_nap));
    } else {
      run_first();
    }
  }
}

}  // namespace tenure::space
