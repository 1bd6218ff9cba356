#include "flow/executor.hpp"

#include <utility>

#include "store/threads.hpp"

namespace tenure::flow {
namespace {

// Of the calling thread: the pool whose job ends soon.
thread_local const ThreadPool* serving = nullptr;
thread_local bool is_ending = false;

}  // namespace

void ThreadPool::ending() noexcept { is_ending = true; }

void ThreadPool::post(std::function<void()> job) {
  const base::Mutex::Scoped lock{mutex_};
  jobs_.push_back(std::move(job));
  if (serving == this && is_ending && jobs_.size() == 1) return;
  if (idle_ > waking_) {
    if (waking_ == 0) {
      ++waking_;
      work_.notify_one();
    }
  } else if (waking_ == 0 && threads_.size() < limit_) {
    threads_.push_back(stores::quiet_thread([this] { serve(); }));
  }
}

void ThreadPool::stop() {
  std::vector<std::thread> threads;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    work_.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::serve() {
  serving = this;
  base::Mutex::Scoped lock{mutex_};
  while (true) {
    is_ending = false;
    while (jobs_.empty()) {
      if (stopping_) return;
      ++idle_;
      work_.wait(lock);
      --idle_;
      if (waking_ > 0) --waking_;
    }
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (!jobs_.empty() && !stopping_) {
      if (idle_ > waking_) {
        ++waking_;
        work_.notify_one();
      } else if (idle_ == 0 && threads_.size() < limit_) {
        threads_.push_back(stores::quiet_thread([this] { serve(); }));
      }
    }
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
}

}  // namespace tenure::flow
