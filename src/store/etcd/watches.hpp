// watches.hpp: reads the stream of changes for all watches of a process, and runs the thread that
// calls notices. The watches themselves are in a WatchTable.
//
// There is one stream per process, with one etcd watch for each *interest* of the process
// (store/common/interests.hpp): a key, the lease key of a session, or everything under the prefix,
// if a watch wants a range or there are too many keys. etcd watches begin now, never in the past:
// those in the past would be served at the next tick of 100 ms only, and may be compacted away. So
// an interest counts as held when etcd has said that its watch was created, and the key was read
// after that. Changes are remembered, so that a later watch of the same interest is judged at once.
//
// All revisions in here are etcd's: their order is that of commits, whatever orders of ours the
// keys are in. `after` of a watch is translated when the watch is added. If this process does not
// know that revision, the watch is due at once.
//
//   wanted --- watch() ---> asked --- created ---> to be read --- apply() ---> held
//
// Invariants
//   1. Every change after `since` of a held interest is in recent_, or will arrive; changes up to
//      floor_ may have been forgotten.
//   2. A watch whose `after` is before `since` or floor_ is due: it may have missed something.
//   3. When a stream ends, nothing becomes due. When the next one begins, watches are due if
//      their keys were written in between. As long as no stream can be opened, all watches become
//      due from time to time: their owners then read, and get the error.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/interests.hpp"
#include "store/common/service_thread.hpp"
#include "store/common/watch_table.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  explicit Watches(std::shared_ptr<Executor> executor);

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(WatchFor what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // Asks the server, unless the stream tells of the session.
  [[nodiscard]] bool alive(std::string_view session);
  // May be called by a notice.
  void stop();
  // How many changes the server has told this process of.
  [[nodiscard]] std::uint64_t heard() const noexcept { return heard_.load(); }

 private:
  static constexpr std::size_t max_recent = 16'384;
  static constexpr std::size_t max_sessions = 16'384;
  static constexpr std::size_t max_interests = 512;
  static constexpr std::chrono::seconds interest_limit{1};
  static constexpr std::chrono::milliseconds retry_time{100};
  struct Change {
    Revision revision;
    std::string key;
  };
  // An interest that the stream was asked for.
  struct Asked {
    std::string name;
    bool created = false;
    std::int64_t since = 0;  // The revision of that.
    bool held = false;
  };
  using Lock = base::Mutex::Scoped;

  void start() TENURE_REQUIRES(table_.mutex);
  // Nothing: not all of its interests are held.
  [[nodiscard]] std::optional<bool> due(const WatchFor& what) const TENURE_REQUIRES(table_.mutex);
  void ask_about(const std::string& session) TENURE_REQUIRES(table_.mutex);
  // etcd's revision after which the stream reports the death of this session.
  [[nodiscard]] std::optional<std::int64_t> told_since(const std::string& session) const
      TENURE_REQUIRES(table_.mutex);
  void await_interests(Lock& lock, stores::WatchTable::Id id) TENURE_REQUIRES(table_.mutex);

  // On the service thread.
  void serve();
  void look_at_session() TENURE_REQUIRES(table_.mutex);
  void nap() TENURE_REQUIRES(table_.mutex);
  // Interests: watch_interests.cpp. These two unlock the mutex meanwhile. True: something was done.
  [[nodiscard]] bool update_interests() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool read_interests() TENURE_REQUIRES(table_.mutex);
  void hold(const Asked& asked, std::int64_t id, std::int64_t put_at, std::int64_t now)
      TENURE_REQUIRES(table_.mutex);
  void hold_session(const Asked& asked, std::int64_t id, bool alive, std::int64_t now)
      TENURE_REQUIRES(table_.mutex);
  void hold_everything(std::int64_t id, const Executor::LastApply& last)
      TENURE_REQUIRES(table_.mutex);
  void judge_fresh() TENURE_REQUIRES(table_.mutex);

  // On the thread of the stream.
  void read_stream();
  [[nodiscard]] bool begin();
  void end() TENURE_REQUIRES(table_.mutex);
  void take(const pb::WatchResponse& response);
  void take_event(const pb::Event& event, bool of_everything) TENURE_REQUIRES(table_.mutex);
  void changed(Revision revision, std::string_view key) TENURE_REQUIRES(table_.mutex);
  void died(const std::string& session) TENURE_REQUIRES(table_.mutex);

  const std::shared_ptr<Executor> executor_;
  Client::Changes changes_;
  std::atomic<std::uint64_t> heard_{0};

  stores::Interests interests_ TENURE_GUARDED_BY(table_.mutex);
  stores::WatchTable table_;
  std::condition_variable_any work_;  // Wakes the service thread.
  std::condition_variable_any stopped_;
  std::condition_variable_any judged_;                                 // Watches left fresh_.
  std::deque<std::string> questions_ TENURE_GUARDED_BY(table_.mutex);  // Sessions to ask about.
  std::thread::id server_ TENURE_GUARDED_BY(table_.mutex);             // The service thread.

  bool live_ TENURE_GUARDED_BY(table_.mutex) = false;
  std::uint64_t stream_number_ TENURE_GUARDED_BY(table_.mutex) = 0;
  std::int64_t last_id_ TENURE_GUARDED_BY(table_.mutex) = 0;
  std::map<std::int64_t, Asked> asked_ TENURE_GUARDED_BY(table_.mutex);
  // While live_: watches that were added before their interests were held.
  std::vector<stores::WatchTable::Id> fresh_ TENURE_GUARDED_BY(table_.mutex);
  Revision floor_ TENURE_GUARDED_BY(table_.mutex);
  std::deque<Change> recent_ TENURE_GUARDED_BY(table_.mutex);
  // Of the watch of everything: the newest revision that it reported; and the one after which it
  // reports deaths, if it is held.
  Revision newest_ TENURE_GUARDED_BY(table_.mutex);
  std::optional<std::int64_t> since_ TENURE_GUARDED_BY(table_.mutex);
  // The same of the watch of one lease key.
  std::unordered_map<std::string, std::int64_t> lease_since_ TENURE_GUARDED_BY(table_.mutex);
  // When a session was last seen alive; and sessions that are dead for good.
  std::unordered_map<std::string, std::int64_t> seen_ TENURE_GUARDED_BY(table_.mutex);
  std::unordered_set<std::string> dead_ TENURE_GUARDED_BY(table_.mutex);

  bool stopping_ TENURE_GUARDED_BY(table_.mutex) = false;
  stores::ServiceThread service_;
  stores::ServiceThread stream_;
};

}  // namespace tenure::etcd
