// partitions.hpp: which workflows this engine runs: those of the partitions whose lock it holds.
//
//   waiting --- granted ---> owned --- session lost, evicted ---> waiting, after a pause
//      '------- stop() -----'--'---- give_up() ---> waiting, at the end of the queue
//
// A session that is lost (the server was away, or this process was stopped, for longer than its
// lease) ends its space. The next partition that wants to wait opens another one, as often as it
// takes.
//
// An engine that has to wait rings a bell: a key that all engines watch. An engine that has more
// than its share then gives up some of what others wait for. An engine whose partitions were taken
// from it (an operator's take-over) waits again, and so rings, too.
//
// The hold's token is the reign. Every write of the engine for a workflow carries the hold's guard,
// so a write of an earlier reign never commits, whoever made it.
//
// Invariants
//   1. owner(p) is set from the grant on and until the hold can no longer be vouched for.
//   2. Reigns of one partition only grow.
//
// Thread safety: all calls; stop() once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/annotations.hpp"
#include "base/detached.hpp"
#include "base/mutex.hpp"
#include "flow/keys.hpp"
#include "tenure/space.hpp"

namespace tenure::flow {

using keys::Partition;

struct Reign {
  std::uint64_t number = 0;
  std::vector<Guard> guards;
};
using ReignRef = std::shared_ptr<const Reign>;

class Partitions : public std::enable_shared_from_this<Partitions> {
 public:
  // Called with no lock held, on any thread: a partition was taken, or is not ours any more.
  struct Listener {
    std::function<void(Partition, const ReignRef&)> taken;
    std::function<void(Partition)> lost;
    // A job for the engine's threads, now or after a pause.
    std::function<void(std::function<void()>)> post;
    std::function<void(std::chrono::nanoseconds, std::function<void()>)> post_after;
  };
  Partitions(std::shared_ptr<Store> store, SessionOptions session, Listener listener);
  Partitions(const Partitions&) = delete;
  Partitions& operator=(const Partitions&) = delete;
  ~Partitions();

  // The locks of the partitions are below this path.
  [[nodiscard]] static Path root() { return Path::of("tenure", "flow", "partition"); }

  // Takes what is free at once, and queues for the rest. Throws StoreError.
  void begin(std::uint32_t count);
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  // Null: another engine's, or nobody's.
  [[nodiscard]] ReignRef owner(Partition partition) const;
  [[nodiscard]] bool owns(Partition partition, const ReignRef& reign) const;
  // The space that the locks are in; another one after a session was lost. After begin().
  [[nodiscard]] std::shared_ptr<const Space> space() const;
  // Claims nothing more, gives back what is owned, and waits for the space's threads.
  void stop();

 private:
  struct Slot {
    Hold hold;
    ReignRef reign;
    std::unique_ptr<std::stop_callback<std::function<void()>>> on_lost;
  };
  static base::Detached wait_for(Partition partition, std::shared_ptr<Partitions> self);
  [[nodiscard]] static Path path(Partition partition);
  void grant(Partition partition, Hold hold);
  void on_lost(Partition partition, std::uint64_t number);
  void ring();
  // After a pause, so that what this engine waits for is in the queues: one for all that it lost.
  void ring_soon();
  void watch_bell(Revision after);
  void rebalance();
  void give_up(Partition partition);
  // The space is lost: open another one, unless somebody did. Throws StoreError.
  void reopen(const std::shared_ptr<const Space>& lost);
  void wait_again(Partition partition, const std::shared_ptr<const Space>& lost);
  [[nodiscard]] Slot take_slot(Partition partition);

  const std::shared_ptr<Store> store_;
  const SessionOptions session_;
  const Listener listener_;
  std::uint32_t count_ = 0;
  std::stop_source stop_;
  std::atomic<bool> ringing_{false};  // ring_soon() has a job under way.
  base::Mutex open_mutex_;            // One opens; before mutex_.
  mutable base::Mutex mutex_;
  std::shared_ptr<const Space> space_ TENURE_GUARDED_BY(mutex_);
  std::condition_variable_any changed_;
  std::vector<Slot> slots_ TENURE_GUARDED_BY(mutex_);
  std::size_t waiting_ TENURE_GUARDED_BY(mutex_) = 0;  // Coroutines.
  std::unique_ptr<Watch> bell_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::flow
