#include "flow/executor.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <tuple>
#include <utility>

#include "store/common/told_together.hpp"
#include "store/threads.hpp"

namespace tenure::flow {
namespace {

// About what it costs to wake a thread.
constexpr std::chrono::microseconds short_job{20};
// A job that takes longer counts as this: one among short ones may have been preempted, two of the
// last few make the usual time long.
constexpr std::chrono::microseconds longest_counted{100};
constexpr std::chrono::milliseconds look_every{1};
// Jobs that keep a thread busy while the rest of a batch is called back.
constexpr std::size_t many = 32;
// Jobs of a batch that others may join.
constexpr std::size_t several = 4;

// Of the calling thread: its pool, and whether its job ends soon.
thread_local ThreadPool* serving = nullptr;
thread_local bool is_ending = false;

}  // namespace

void ThreadPool::ending() noexcept { is_ending = true; }

// What the callbacks of a batch have posted.
struct ThreadPool::Gathered {
  const ThreadPool* pool = nullptr;
  std::vector<std::function<void()>> jobs;
  std::vector<std::function<void()>> along;
  std::shared_ptr<ThreadPool> otherwise;
};

ThreadPool::Gathered& ThreadPool::gathered() {
  static thread_local std::deque<Gathered> all;  // References to its elements stay valid.
  auto at = std::ranges::find(all, this, &Gathered::pool);
  if (at == all.end()) at = std::ranges::find(all, nullptr, &Gathered::pool);
  if (at == all.end()) at = all.emplace(all.end());
  if (at->pool == nullptr) {
    at->pool = this;
    stores::ToldTogether::at_end(this, [self = shared_from_this()] {
      self->queue_gathered();
      self->gathered() = {};
    });
  }
  return *at;
}

// NOLINTBEGIN(misc-no-recursion): it posts to another pool, which gathers nothing along.
void ThreadPool::queue_gathered() {
  Gathered& mine = gathered();
  bool joins = false;
  if (!mine.jobs.empty()) {
    const base::Mutex::Scoped lock{mutex_};
    joins = mine.jobs.size() >= several && busy_ <= 1 && usual_ < short_job;
    if (joins) std::ranges::move(mine.along, std::front_inserter(jobs_));
    std::ranges::move(mine.jobs, std::back_inserter(jobs_));
    call_another();
  }
  mine.jobs.clear();
  if (!joins) {
    for (std::function<void()>& job : mine.along) mine.otherwise->post(std::move(job));
  }
  mine.along.clear();
}

void ThreadPool::post(std::function<void()> job) {
  if (stores::ToldTogether::here()) {
    Gathered& mine = gathered();
    mine.jobs.push_back(std::move(job));
    if (mine.jobs.size() >= many) queue_gathered();
    return;
  }
  const base::Mutex::Scoped lock{mutex_};
  jobs_.push_back(std::move(job));
  if (serving == this && is_ending && jobs_.size() == 1) return;
  call_another();
}

// NOLINTEND(misc-no-recursion)

void ThreadPool::post_along(std::function<void()> job,
                            const std::shared_ptr<ThreadPool>& otherwise) {
  if (!stores::ToldTogether::here()) {
    otherwise->post(std::move(job));
    return;
  }
  Gathered& mine = gathered();
  mine.along.push_back(std::move(job));
  mine.otherwise = otherwise;
}

bool ThreadPool::post_if_idle(const std::function<void()>& job) {
  const base::Mutex::Scoped lock{mutex_};
  if (busy_ > 0 || !jobs_.empty()) return false;
  jobs_.push_back(job);
  call_another();
  return true;
}

ThreadPool::Blocked::Blocked() {
  if (serving == nullptr) return;
  const base::Mutex::Scoped lock{serving->mutex_};
  --serving->busy_;
  if (!serving->jobs_.empty() && !serving->stopping_) serving->call_another();
}

ThreadPool::Blocked::~Blocked() {
  if (serving == nullptr) return;
  const base::Mutex::Scoped lock{serving->mutex_};
  ++serving->busy_;
}

void ThreadPool::call_another() {
  if (waking_ || (busy_ > 0 && guarded_ && usual_ < short_job)) return;
  if (idle_ > 0) {
    --idle_;
    called_ = true;
    work_.notify_one();
  } else if (guarded_) {
    guarded_ = false;
    guard_.notify_one();
  } else if (threads_.size() < limit_) {
    threads_.push_back(stores::quiet_thread([this] { serve(); }));
  } else {
    return;
  }
  waking_ = true;
}

void ThreadPool::stop() {
  std::vector<std::thread> threads;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    work_.notify_all();
    guard_.notify_all();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::sleep(base::Mutex::Scoped& lock) {
  if (!guarded_) {
    stand_guard(lock);
    if (!jobs_.empty() || stopping_) return;
  }
  ++idle_;
  while (!called_ && !stopping_) work_.wait(lock);
  if (called_) {
    called_ = false;
    waking_ = false;
  } else {
    --idle_;
  }
}

void ThreadPool::stand_guard(base::Mutex::Scoped& lock) {
  guarded_ = true;
  std::uint64_t seen = 0;
  do {
    seen = taken_;
    std::ignore = guard_.wait_for(lock, look_every);
    if (!guarded_) {  // It was called.
      waking_ = false;
      return;
    }
  } while (!stopping_ && taken_ != seen);
  guarded_ = false;
}

void ThreadPool::serve() {
  serving = this;
  base::Mutex::Scoped lock{mutex_};
  waking_ = false;
  // No optional: g++ 12 warns of one that is read uninitialised.
  constexpr auto none = Clock::time_point::min();
  Clock::time_point began = none;
  while (true) {
    is_ending = false;
    while (jobs_.empty()) {
      if (stopping_) return;
      sleep(lock);
      began = none;
    }
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++taken_;
    ++busy_;
    if (!jobs_.empty() && !stopping_) call_another();
    lock.unlock();
    if (began == none) began = Clock::now();
    job();
    job = nullptr;
    const Clock::time_point ended = Clock::now();
    lock.lock();
    --busy_;
    const Clock::duration time = std::min<Clock::duration>(ended - began, longest_counted);
    usual_ += (time - usual_) / 8;
    began = ended;
  }
}

}  // namespace tenure::flow
