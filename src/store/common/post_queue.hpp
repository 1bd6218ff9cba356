// post_queue.hpp: transactions that no caller waits for. A thread of the queue makes them in order,
// one by one, or all that have been posted meanwhile at once.
//
// Thread safety: all of it. stop() is called once, after the last other call; it makes what was
// posted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/service_thread.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

struct Posting {
  Txn txn;
  Store::Posted done;
  Outcome outcome;
  std::exception_ptr error;
};

class PostQueue : public std::enable_shared_from_this<PostQueue> {
 public:
  // Makes all of them in order, and sets the outcome or the error of each. Does not throw.
  using Make = std::function<void(std::span<Posting>)>;
  PostQueue(std::size_t max_batch, Make make) : max_batch_(max_batch), make_(std::move(make)) {}
  // Makes them one by one.
  [[nodiscard]] static std::shared_ptr<PostQueue> of(std::function<Outcome(const Txn&)> apply);

  void post(Txn txn, Store::Posted done);
  // Waits until everything posted before this call is made. Returns at once on the queue's own
  // thread.
  void wait();
  // Also waits until the callbacks have returned. Throws BadRequest on the queue's own thread,
  // where it would wait for itself.
  void wait_until_told();
  // The first error that a callback received since the last call, if any.
  [[nodiscard]] std::exception_ptr take_error();
  [[nodiscard]] bool idle();  // All callbacks have returned.
  // May be called by a callback.
  void stop();

 private:
  void serve();
  void tell(std::vector<Posting>& batch);

  const std::size_t max_batch_;
  const Make make_;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> made_{0};
  std::atomic<std::thread::id> thread_id_;

  base::Mutex mutex_;
  std::condition_variable_any work_;
  std::condition_variable_any progress_;
  std::deque<Posting> queue_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t told_ TENURE_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failed_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  ServiceThread thread_;
};

// How many of the first postings can be judged together, before any of them is made: none of them
// guards or writes a key that an earlier one writes. `fits` says which postings may be in a batch.
// Returns at least 1, whatever `fits` says.
[[nodiscard]] std::size_t independent(std::span<const Posting> postings,
                                      const std::function<bool(const Txn&)>& fits);

}  // namespace tenure::stores
