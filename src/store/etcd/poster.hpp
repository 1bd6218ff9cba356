// poster.hpp: applies that nobody waits for, made in order by a thread of their own.
//
// Thread safety: all of it. stop() once, after the last call; it makes what was posted.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/etcd/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class Poster : public std::enable_shared_from_this<Poster> {
 public:
  explicit Poster(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  void post(Txn txn, Store::Posted done);
  // Until all that was posted before this is made.
  void wait();
  // May be called by the poster's own thread.
  void stop();

 private:
  struct Item {
    Txn txn;
    Store::Posted done;
  };
  void serve();

  const std::shared_ptr<Engine> engine_;
  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable_any made_some_;
  std::deque<Item> queue_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t posted_ TENURE_GUARDED_BY(mutex_) = 0;
  std::uint64_t made_ TENURE_GUARDED_BY(mutex_) = 0;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread thread_ TENURE_GUARDED_BY(mutex_);
  std::thread::id id_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::etcd
