#include "store/postgres/posts.hpp"

#include <utility>

#include "store/threads.hpp"

namespace tenure::postgres {

void Posts::post(Txn txn, Store::Posted done) {
  const base::Mutex::Scoped lock{mutex_};
  if (!thread_.joinable()) {
    thread_ = stores::quiet_thread([self = shared_from_this()] { self->serve(); });
  }
  queue_.push_back({.txn = std::move(txn), .done = std::move(done)});
  posted_.fetch_add(1);
  work_.notify_one();
}

void Posts::settle() {
  const std::uint64_t before = posted_.load();
  if (made_.load() >= before || thread_id_.load() == std::this_thread::get_id()) return;
  base::Mutex::Scoped lock{mutex_};
  while (made_.load() < before) progress_.wait(lock);
}

void Posts::serve() {
  thread_id_ = std::this_thread::get_id();
  base::Mutex::Scoped lock{mutex_};
  while (true) {
    if (queue_.empty()) {
      if (stopping_) return;
      work_.wait(lock);
      continue;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Outcome outcome;
    std::exception_ptr error;
    try {
      outcome = apply_(item.txn);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    made_.fetch_add(1);
    progress_.notify_all();
    lock.unlock();
    if (item.done) item.done(outcome, error);
    item = {};  // What it holds may be the store itself: not with the mutex held.
    lock.lock();
  }
}

void Posts::stop() {
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

}  // namespace tenure::postgres
