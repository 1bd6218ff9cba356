// watches.hpp: the connection that listens for the watches of a process, and the thread that calls
// their notices. The watches themselves are in a WatchTable.
//
//   deaf ---- somebody watches ---------------------------> listening
//     ^                                                         |
//     '---- nobody has for a while, connection lost ------------'
//
// While it listens it holds the advisory lock that makes writers notify (routines.hpp), and so
// knows of every change after `known_from_`: the last ones are in recent_. A watch of what is later
// than that costs no round trip. Any other watch is told at once, if anything has changed since: it
// reads again, and its next watch is of something later. After a reconnect every watch is told.
//
// A connection that something on the way has forgotten says nothing, and looks well: after as long
// a silence as Target::silence it is asked for an answer.
//
// Behind a pooler there are no notifications: then the newest revision is read once a second.
//
// A session that is watched is looked up when its deadline passes and when its entry changes.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/backoff.hpp"
#include "base/mutex.hpp"
#include "store/common/service_thread.hpp"
#include "store/common/watch_table.hpp"
#include "store/postgres/executor.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Sessions;

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  Watches(std::shared_ptr<Executor> executor, std::shared_ptr<Sessions> sessions);
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;
  ~Watches();

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(WatchFor what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // What this process has written itself: told without the way through the server.
  void wrote(const Txn& txn, Revision revision);
  // May be called by a notice.
  void stop();
  [[nodiscard]] std::string state();  // For people.

 private:
  using Lock = base::Mutex::Scoped;
  struct Change {
    Revision revision;
    std::vector<std::string> keys;
    bool anything = false;  // More keys than could be told.
  };
  static constexpr std::size_t max_recent = 4'096;

  [[nodiscard]] bool changed_since(const WatchFor& what) const TENURE_REQUIRES(table_.mutex);
  void changed(const Change& change) TENURE_REQUIRES(table_.mutex);
  void tell_all() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool wanted() const TENURE_REQUIRES(table_.mutex);
  void wake() const noexcept;

  void serve();
  void look_at_timers() TENURE_REQUIRES(table_.mutex);
  // These let go of the mutex meanwhile.
  void listen() TENURE_REQUIRES(table_.mutex);
  void start_listening();
  void stop_listening();
  void lose_connection() TENURE_REQUIRES(table_.mutex);
  void hear() TENURE_REQUIRES(table_.mutex);
  void probe() TENURE_REQUIRES(table_.mutex);
  void put_probe_off();
  void read_slowly() TENURE_REQUIRES(table_.mutex);
  void look_at_sessions() TENURE_REQUIRES(table_.mutex);
  void sleep() TENURE_REQUIRES(table_.mutex);

  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<Sessions> sessions_;
  const int bell_;  // An eventfd.

  // The service thread's own.
  std::unique_ptr<Connection> connection_;
  std::int64_t retry_at_ = 0;
  base::Backoff reconnect_{std::chrono::milliseconds{20}, std::chrono::seconds{1}};
  std::int64_t idle_since_ = 0;
  std::int64_t read_at_ = 0;
  std::int64_t probe_at_ = 0;

  stores::WatchTable table_;
  // When to look at a session that is watched, on CLOCK_BOOTTIME; none or 0: at once.
  std::map<std::string, std::int64_t, std::less<>> look_at_ TENURE_GUARDED_BY(table_.mutex);
  std::optional<Revision> known_from_ TENURE_GUARDED_BY(table_.mutex);
  bool was_lost_ TENURE_GUARDED_BY(table_.mutex) = false;  // All are told when it is back.
  std::deque<Change> recent_ TENURE_GUARDED_BY(table_.mutex);
  bool stopping_ TENURE_GUARDED_BY(table_.mutex) = false;
  stores::ServiceThread service_;
};

}  // namespace tenure::postgres
