// posts.hpp: applies that nobody waits for, made one after another by a thread of their own.
//
// Invariant: an apply that comes after a post is made after it: it waits in settle() first.
//
// Thread safety: all of it. stop() once, after the last call; it makes what was posted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Posts : public std::enable_shared_from_this<Posts> {
 public:
  explicit Posts(std::function<Outcome(const Txn&)> apply) : apply_(std::move(apply)) {}

  void post(Txn txn, Store::Posted done);
  // Until what was posted before is made.
  void settle();
  // May be called by a `done`.
  void stop();

 private:
  struct Item {
    Txn txn;
    Store::Posted done;
  };
  void serve();

  const std::function<Outcome(const Txn&)> apply_;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> made_{0};

  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable_any progress_;
  std::deque<Item> queue_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread thread_ TENURE_GUARDED_BY(mutex_);
  std::atomic<std::thread::id> thread_id_;
};

}  // namespace tenure::postgres
