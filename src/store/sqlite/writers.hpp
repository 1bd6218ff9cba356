// writers.hpp: the queue of a process's applies. The first in it leads: it makes everything that is
// queued in one transaction, so threads that come at once share one commit.
//
//   nobody leads --- apply ----> it leads, for at most max_turns batches ---> the next that waits
//                 \- post -----> the poster's thread leads, until nothing is queued
//
// Invariants
//   1. What is queued is made in order; an apply carries the posts before it along.
//   2. While something is queued somebody leads, or the poster has been woken.
//
// Thread safety: all of it. stop() once, after the last call; it makes what was posted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/sqlite/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class Writers : public std::enable_shared_from_this<Writers> {
 public:
  explicit Writers(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  [[nodiscard]] Outcome apply(const Txn& txn);
  void post(Txn txn, Store::Posted done);
  // Whether a post is not made yet: what reads must then queue behind it.
  [[nodiscard]] bool posts_pending() const noexcept { return posts_.load() != 0; }
  // May be called by the poster's own thread.
  void stop();

 private:
  static constexpr std::size_t max_batch = 256;
  static constexpr int max_turns = 4;

  // What the state of an apply can be.
  static constexpr std::uint32_t waiting = 0;
  static constexpr std::uint32_t leader = 1;
  static constexpr std::uint32_t finished = 2;
  // An apply's is on its thread's stack, a post's on the heap.
  struct Item : Job {
    std::atomic<std::uint32_t> state{waiting};
    bool posted = false;
    Txn own;
    Store::Posted done;
  };

  // Until `own`, if any, is made, and then for what is left of max_turns.
  void lead(const Item* own);
  bool take_batch();
  void pass_on() TENURE_REQUIRES(mutex_);
  void serve();
  static void finish(Item* item);

  const std::shared_ptr<Engine> engine_;
  std::atomic<std::size_t> posts_{0};

  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::deque<Item*> queue_ TENURE_GUARDED_BY(mutex_);
  bool led_ TENURE_GUARDED_BY(mutex_) = false;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread poster_ TENURE_GUARDED_BY(mutex_);
  // The leader's.
  std::vector<Item*> taken_;
  std::vector<Job*> batch_;
};

}  // namespace tenure::sqlite
