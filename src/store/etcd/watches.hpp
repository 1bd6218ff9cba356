// watches.hpp: reads the stream of changes for all watches of a process, and runs the thread that
// calls notices. The watches themselves are in a WatchTable.
//
// There is one stream for everything, not one per watch: etcd reports changes to a watch that
// begins in the past only at its next tick of 100 ms. Recent changes are remembered, so that a
// watch whose `after` is among them is judged at once.
//
// Invariants
//   1. While live_, every change after floor_ is in recent_, or will arrive.
//   2. A watch whose `after` is before floor_ is due: it may have missed something.
//   3. When a stream ends, nothing becomes due. When the next one begins, watches are due if
//      anything was written in between. As long as no stream can be opened, all watches become due
//      from time to time: their owners then read, and get the error.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/service_thread.hpp"
#include "store/common/watch_table.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  explicit Watches(std::shared_ptr<Executor> executor) : executor_(std::move(executor)) {}

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(WatchFor what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // Asks the server, unless the session is known to be dead.
  [[nodiscard]] bool alive(std::string_view session);
  // May be called by a notice.
  void stop();

 private:
  static constexpr std::size_t max_recent = 16'384;
  static constexpr std::size_t max_sessions = 16'384;
  struct Change {
    Revision revision;
    std::string key;
  };
  using Lock = base::Mutex::Scoped;

  void start() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool due(const WatchFor& what) const TENURE_REQUIRES(table_.mutex);
  void ask_about(const std::string& session) TENURE_REQUIRES(table_.mutex);

  // On the service thread.
  void serve();
  void look_at_session() TENURE_REQUIRES(table_.mutex);
  void nap() TENURE_REQUIRES(table_.mutex);

  // On the thread of the stream.
  void read_stream();
  [[nodiscard]] bool begin();
  void take(const pb::WatchResponse& response);
  void take_step(std::span<const pb::Event* const> events, std::int64_t number)
      TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] Revision revision_of(std::int64_t by_etcd) TENURE_REQUIRES(table_.mutex);
  void changed(Revision revision, std::string_view key) TENURE_REQUIRES(table_.mutex);
  void died(const std::string& session) TENURE_REQUIRES(table_.mutex);

  const std::shared_ptr<Executor> executor_;
  Client::Changes changes_;

  stores::WatchTable table_;
  std::condition_variable_any work_;  // Wakes the service thread.
  std::condition_variable_any stopped_;
  std::deque<std::string> questions_ TENURE_GUARDED_BY(table_.mutex);  // Sessions to ask about.

  bool live_ TENURE_GUARDED_BY(table_.mutex) = false;
  Revision floor_ TENURE_GUARDED_BY(table_.mutex);
  Revision newest_ TENURE_GUARDED_BY(table_.mutex);  // Of those that the stream reported.
  Revision head_ TENURE_GUARDED_BY(table_.mutex);    // The newest head, and etcd's revision of it.
  std::int64_t head_put_at_ TENURE_GUARDED_BY(table_.mutex) = 0;
  // etcd's revision; deaths after it are reported by the stream.
  std::int64_t since_ TENURE_GUARDED_BY(table_.mutex) = 0;
  std::deque<Change> recent_ TENURE_GUARDED_BY(table_.mutex);
  // When a session was last seen alive, in etcd's revisions; and sessions that are dead for good.
  std::unordered_map<std::string, std::int64_t> seen_ TENURE_GUARDED_BY(table_.mutex);
  std::unordered_set<std::string> dead_ TENURE_GUARDED_BY(table_.mutex);

  bool stopping_ TENURE_GUARDED_BY(table_.mutex) = false;
  stores::ServiceThread service_;
  stores::ServiceThread stream_;
};

}  // namespace tenure::etcd
