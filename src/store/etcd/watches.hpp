// watches.hpp: the watches of a process on a store, told by one stream of all its changes.
//
//   armed --- a change, its time, a death, a new stream ---> ready --- service thread ---> running
//     '---- destroyed -----------------------------------------'---> gone
//
// One stream for everything, and not one an armed watch: etcd tells a watch that begins in the past
// of changes only at its next tick of 100 ms. What the stream told lately is remembered, so that a
// watch whose `after` lies in that time is judged at once.
//
// Invariants
//   1. While live_, every change after floor_ is in recent_, or will come.
//   2. A watch whose `after` is before floor_ is due: it may have missed something.
//   3. A stream that ends makes nothing due; the next one does, if anything was written in between.
//      As long as none can be had, all watches are due now and then: who is told reads, and learns
//      what is wrong.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  explicit Watches(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(WatchFor what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // Asks the server, but for a session that is known to be dead.
  [[nodiscard]] bool alive(std::string_view session);
  // May be called by a notice.
  void stop();

 private:
  static constexpr std::size_t max_recent = 16'384;
  static constexpr std::size_t max_sessions = 16'384;
  struct Armed {
    std::uint64_t id = 0;
    WatchFor what;
    Store::Notice notice;
  };
  struct Change {
    Revision revision;
    std::string key;
  };
  class Handle;
  using Lock = base::Mutex::Scoped;
  using Ids = std::vector<std::uint64_t>;

  void remove(std::uint64_t id) noexcept;
  void start() TENURE_REQUIRES(mutex_);
  void link(const Armed& armed) TENURE_REQUIRES(mutex_);
  void unlink(const Armed& armed) TENURE_REQUIRES(mutex_);
  void make_ready(std::uint64_t id) TENURE_REQUIRES(mutex_);
  void make_all_ready() TENURE_REQUIRES(mutex_);
  [[nodiscard]] bool due(const WatchFor& what) const TENURE_REQUIRES(mutex_);
  void ask_about(const std::string& session) TENURE_REQUIRES(mutex_);

  // The service thread.
  void serve();
  void run_ready() TENURE_REQUIRES(mutex_);
  void look_at_timers() TENURE_REQUIRES(mutex_);
  void look_at_session() TENURE_REQUIRES(mutex_);
  void nap() TENURE_REQUIRES(mutex_);

  // The stream's.
  void follow();
  [[nodiscard]] bool begin();
  void take(const pb::WatchResponse& response);
  void take_step(std::span<const pb::Event* const> events, std::int64_t number)
      TENURE_REQUIRES(mutex_);
  [[nodiscard]] Revision revision_of(std::int64_t by_etcd) TENURE_REQUIRES(mutex_);
  void changed(Revision revision, std::string_view key) TENURE_REQUIRES(mutex_);
  void died(const std::string& session) TENURE_REQUIRES(mutex_);

  const std::shared_ptr<Engine> engine_;
  Client::Changes changes_;

  base::Mutex mutex_;
  std::condition_variable_any work_;  // For the service thread.
  std::condition_variable_any ran_;   // For who takes a watch back.
  std::condition_variable_any stopped_;
  std::uint64_t last_id_ TENURE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed_ TENURE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Ids> by_key_ TENURE_GUARDED_BY(mutex_);
  Ids wide_ TENURE_GUARDED_BY(mutex_);  // Those with a range of more than one key.
  std::multimap<Instant, std::uint64_t> timers_ TENURE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Ids> by_session_ TENURE_GUARDED_BY(mutex_);
  std::deque<std::string> questions_ TENURE_GUARDED_BY(mutex_);  // Sessions to be asked about.
  std::deque<std::unique_ptr<Armed>> ready_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t running_ TENURE_GUARDED_BY(mutex_) = 0;

  bool live_ TENURE_GUARDED_BY(mutex_) = false;
  Revision floor_ TENURE_GUARDED_BY(mutex_);
  Revision newest_ TENURE_GUARDED_BY(mutex_);  // That the stream told of.
  Revision head_ TENURE_GUARDED_BY(mutex_);    // The newest, and etcd's revision of it.
  std::int64_t head_put_at_ TENURE_GUARDED_BY(mutex_) = 0;
  std::int64_t since_ TENURE_GUARDED_BY(mutex_) = 0;  // etcd's revision: deaths after it are told.
  std::deque<Change> recent_ TENURE_GUARDED_BY(mutex_);
  // When a session was last seen alive, in etcd's revisions; and the dead, for good.
  std::unordered_map<std::string, std::int64_t> seen_ TENURE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> dead_ TENURE_GUARDED_BY(mutex_);

  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread service_ TENURE_GUARDED_BY(mutex_);
  std::thread follower_ TENURE_GUARDED_BY(mutex_);
  std::thread::id service_id_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::etcd
