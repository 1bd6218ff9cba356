// queued_store.hpp: the part of a store on a server that takes transactions which no caller waits
// for, and the check that a forked child does not use its parent's store.
//
// Thread safety: as every store. Derived stores call stop_queues() in their destructors.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "base/fork.hpp"
#include "store/common/post_queue.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

// Calls `queue(done)`. If that throws, calls `done` with the error instead.
template <typename Queue>
void queue_or_fail(Store::Posted done, const Queue& queue) noexcept {
  const Store::Posted failed = done;  // A copy: `queue` may have moved `done` before it threw.
  try {
    queue(std::move(done));
  } catch (...) {
    if (failed) failed({}, std::current_exception());
  }
}

class QueuedStore : public Store {
 public:
  QueuedStore(const QueuedStore&) = delete;
  QueuedStore& operator=(const QueuedStore&) = delete;
  ~QueuedStore() override;

  void post(Txn txn, Posted done) noexcept final;
  void apply_then(Txn txn, Posted done) noexcept final;
  void flush() final;

  [[nodiscard]] bool forked() const noexcept { return base::forked_since(generation_); }

 protected:
  struct Queues {
    std::shared_ptr<PostQueue> posted;   // For post(): an apply waits for these.
    std::shared_ptr<PostQueue> durable;  // For apply_then().
  };
  QueuedStore() : generation_(base::fork_generation()) {}
  void set_queues(Queues queues) { queues_ = std::make_unique<Queues>(std::move(queues)); }
  void wait_for_posts() const { queues_->posted->wait(); }
  void stop_queues();

  // Throws in a child that was forked after the store was opened.
  void check_forked() const {
    if (forked()) throw_forked();
  }
  [[noreturn]] virtual void throw_forked() const;

 private:
  // Makes everything durable that has committed.
  virtual void sync() = 0;

  std::unique_ptr<Queues> queues_;
  const std::uint64_t generation_;
};

}  // namespace tenure::stores
