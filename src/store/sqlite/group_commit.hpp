// group_commit.hpp: the queues of applies of one process. One thread leads: it makes everything
// that is queued in one transaction, so that concurrent callers share one commit and one sync.
//
//   queue_   apply, post   made in order. If no thread leads, the caller of an apply does, for at
//                          most max_turns batches, then the next waiting one; for posts, the
//                          committer
//   later_   apply_later   made in order, by the committer; shares a sync with queue_ if queue_
//                          needs one
//
// Invariants
//   1. Each queue is made in order; an apply also makes the posts queued before it.
//   2. While something is queued, a thread leads or the committer has been woken.
//   3. After a sync queue_ is next, and after max_turns batches without a sync later_ is next. A
//      sync therefore delays relaxed transactions by at most one sync, and no queue starves.
//   4. Callbacks of apply_later run on the committer, in order, while another thread may lead.
//
// Thread safety: all of it. stop() is called once, after the last other call; it makes what is
// queued.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/service_thread.hpp"
#include "store/sqlite/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class GroupCommit : public std::enable_shared_from_this<GroupCommit> {
 public:
  explicit GroupCommit(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {}

  [[nodiscard]] Outcome apply(const Txn& txn);
  void post(Txn txn, Store::Posted done);
  void apply_later(std::shared_ptr<Deferred> what);
  // Waits until the callbacks of everything posted before have returned. Throws the first error
  // that one of them received since the last call; BadRequest on the committer itself.
  void wait_for_all();
  // Whether a post has not been made yet. A read must then queue behind it.
  [[nodiscard]] bool posts_pending() const noexcept { return posts_.load() != 0; }
  // May be called by a callback.
  void stop();

 private:
  static constexpr std::size_t max_batch = 256;
  static constexpr int max_turns = 4;

  // States of an apply.
  static constexpr std::uint32_t waiting = 0;
  static constexpr std::uint32_t leader = 1;
  static constexpr std::uint32_t finished = 2;
  // The item of an apply is on its thread's stack, that of a post is on the heap.
  struct Item : Job {
    std::atomic<std::uint32_t> state{waiting};
    bool posted = false;
    Txn own;
    Store::Posted done;
  };
  using Later = std::vector<std::shared_ptr<Deferred>>;
  // How many transactions were queued, and how many of their callbacks have returned.
  struct Count {
    std::uint64_t added = 0;
    std::uint64_t told = 0;
  };

  // Leads until `own`, if any, is made, and then for the rest of max_turns.
  void lead(const Item* own);
  bool take_batch();
  void take_queue() TENURE_REQUIRES(mutex_);
  void take_later() TENURE_REQUIRES(mutex_);
  void write_batch(const Item*& own);
  void pass_on() TENURE_REQUIRES(mutex_);
  void wake_committer() TENURE_REQUIRES(mutex_);
  void serve();
  void serve_turn();
  void call_back() TENURE_REQUIRES(mutex_);
  void finish(Item* item);
  void finish_posted(Item* item);

  const std::shared_ptr<Executor> executor_;
  std::atomic<std::size_t> posts_{0};
  std::atomic<std::thread::id> committer_id_;

  base::Mutex mutex_;
  std::condition_variable_any work_;      // Wakes the committer.
  std::condition_variable_any progress_;  // Wakes wait_for_all().
  std::deque<Item*> queue_ TENURE_GUARDED_BY(mutex_);
  Later later_ TENURE_GUARDED_BY(mutex_);
  Later made_ TENURE_GUARDED_BY(mutex_);  // From later_; their callbacks are still to be called.
  bool led_ TENURE_GUARDED_BY(mutex_) = false;
  bool handed_ TENURE_GUARDED_BY(mutex_) = false;  // The lead was passed to the committer.
  int turns_ TENURE_GUARDED_BY(mutex_) = 0;        // Batches since the last sync.
  bool asleep_ TENURE_GUARDED_BY(mutex_) = false;  // The committer, and nobody has woken it.
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  Count posts_count_ TENURE_GUARDED_BY(mutex_);
  Count later_count_ TENURE_GUARDED_BY(mutex_);
  std::exception_ptr failed_ TENURE_GUARDED_BY(mutex_);
  stores::ServiceThread committer_;
  // Used only by the leader.
  std::vector<Item*> taken_;
  Later taken_later_;
  std::vector<Job> later_jobs_;
  std::vector<Job*> batch_;
};

}  // namespace tenure::sqlite
