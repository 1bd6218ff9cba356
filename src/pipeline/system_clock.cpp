#include "pipeline/system_clock.hpp"

#include <algorithm>
#include <utility>

namespace tenure::pipeline {

SystemClock::~SystemClock() {
  {
    const base::Mutex::Scoped lock{mutex_};
    ending_ = true;
    changed_.notify_all();
  }
  thread_.wait();
}

void SystemClock::arm(std::chrono::nanoseconds at, std::function<void()> wake) {
  const base::Mutex::Scoped lock{mutex_};
  at_ = at;
  wake_ = std::move(wake);
  if (!started_) {
    thread_.run([this] { wait(); });
    started_ = true;
  }
  changed_.notify_all();
}

void SystemClock::disarm() {
  base::Mutex::Scoped lock{mutex_};
  wake_ = nullptr;
  while (calling_) changed_.wait(lock);
  wake_ = nullptr;  // The call may have armed it again.
}

void SystemClock::wait() {
  constexpr std::chrono::hours longest{24};
  base::Mutex::Scoped lock{mutex_};
  while (!ending_) {
    if (wake_ == nullptr) {
      changed_.wait(lock);
      continue;
    }
    const std::chrono::nanoseconds left = at_ - now();
    if (left.count() > 0) {
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, longest));
      continue;
    }
    const std::function<void()> wake = std::exchange(wake_, nullptr);
    calling_ = true;
    lock.unlock();
    wake();
    lock.lock();
    calling_ = false;
    changed_.notify_all();
  }
}

}  // namespace tenure::pipeline
