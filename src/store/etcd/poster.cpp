#include "store/etcd/poster.hpp"

#include <exception>
#include <utility>

#include "store/threads.hpp"

namespace tenure::etcd {

void Poster::post(Txn txn, Store::Posted done) {
  const base::Mutex::Scoped lock{mutex_};
  if (!thread_.joinable()) {
    thread_ = stores::quiet_thread([self = shared_from_this()] { self->serve(); });
  }
  queue_.push_back({std::move(txn), std::move(done)});
  ++posted_;
  work_.notify_one();
}

void Poster::wait() {
  const base::Mutex::Scoped lock{mutex_};
  if (id_ == std::this_thread::get_id()) return;
  for (const std::uint64_t before = posted_; made_ < before;) made_some_.wait(mutex_);
}

void Poster::serve() {
  base::Mutex::Scoped lock{mutex_};
  id_ = std::this_thread::get_id();
  for (;;) {
    if (queue_.empty()) {
      if (stopping_) return;
      work_.wait(mutex_);
      continue;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Outcome outcome;
    std::exception_ptr error;
    try {
      outcome = engine_->apply(item.txn);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    ++made_;
    made_some_.notify_all();
    lock.unlock();
    if (item.done) item.done(outcome, error);
    item = {};  // What the callback holds goes with the mutex free.
    lock.lock();
  }
}

void Poster::stop() {
  std::thread thread;
  {
    const base::Mutex::Scoped lock{mutex_};
    stopping_ = true;
    thread = std::move(thread_);
    work_.notify_one();
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

}  // namespace tenure::etcd
