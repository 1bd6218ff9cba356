// watches.hpp: the connection that listens for changes on behalf of all watches of a process, and
// the thread that calls notices. The watches themselves are in a WatchTable.
//
//   idle ---- a watch is added ----------------------------> listening
//     ^                                                         |
//     '---- no watch for a while, or the connection is lost ----'
//
// It asks the server only for what its watches need: their *interests* (notices.hpp, and
// store/common/interests.hpp). An interest is held since the revision of its bucket that was read
// after its lock was taken, or since the last change of its entry, if there is one. From then on
// every change is told; the last ones of each bucket are in recent_. A watch whose `after` is later
// than that costs no round trip, if its interests are held already. If its `after` is earlier, it
// is notified at once: its owner reads again, and the next watch has a later `after`. After a
// reconnect every watch is notified.
//
// Revisions of different buckets can't be compared. An interest in everything is therefore held
// since one revision for each bucket. A range over several buckets is watched from the moment at
// which add() returns, whatever its `after`, unless it is all that is below the path /.
//
// A connection that a router has forgotten looks alive, but delivers nothing: after Target::silence
// without traffic the server is asked for an answer.
//
// Behind a pooler there are no notifications, nor in a schema of an older version that this role
// may not bring up to date; there the newest revision of each bucket is read once per second.
//
// A watched session is looked up when its deadline passes and when its entry changes. In between it
// lives, as long as the interest in its entry is held; that interest is kept for a while, because
// those who wait for one lock wait for each other's sessions again and again.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/backoff.hpp"
#include "base/mutex.hpp"
#include "store/common/interests.hpp"
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
  // Reports a write of this process, which needs no notification by the server.
  void wrote(const Txn& txn, Revision revision);
  // May be called by a notice.
  void stop();
  // The session lives, as far as this process knows without asking. False: ask.
  [[nodiscard]] bool lives(std::string_view session);
  [[nodiscard]] std::string state();  // For `tenure doctor`.
  [[nodiscard]] std::uint64_t heard() const noexcept { return heard_.load(); }

 private:
  using Lock = base::Mutex::Scoped;
  struct Change {
    Revision revision;
    int bucket = 0;
    std::vector<std::string> keys;
    bool anything = false;  // More keys were written than the payload could name.
  };
  // The last changes of a bucket that were told.
  struct Recent {
    std::deque<Change> changes;
    Revision forgotten;  // The newest one that is not there any more.
  };
  static constexpr std::size_t max_recent = 256;  // In each bucket.
  // Each is an entry in the server's lock table, which has 64 for each possible connection by
  // default; a process has up to ten connections.
  static constexpr std::size_t max_interests = 256;

  static constexpr std::chrono::seconds interest_limit{1};

  void await_interests(Lock& lock, stores::WatchTable::Id id) TENURE_REQUIRES(table_.mutex);
  // Nothing: not all of its interests are held. `late`: add() has returned before they were.
  [[nodiscard]] std::optional<bool> is_due(const WatchFor& what, bool late) const
      TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool has_changed(const Range& range, int bucket, Revision after) const
      TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool is_polling() const { return executor_->pooled() || no_watch_.load(); }
  void changed(const Change& change) TENURE_REQUIRES(table_.mutex);
  void tell_all() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool wanted() const TENURE_REQUIRES(table_.mutex);
  void wake() const noexcept;

  void serve();
  void look_at_timers() TENURE_REQUIRES(table_.mutex);
  // These unlock the mutex meanwhile.
  void listen() TENURE_REQUIRES(table_.mutex);
  void start_listening() TENURE_REQUIRES(table_.mutex);
  void stop_listening() TENURE_REQUIRES(table_.mutex);
  void update_interests() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] static Params state_params(const std::vector<std::string>& missing);
  // The answers to the four steps of update_interests().
  void hold(const std::vector<std::string>& names, const std::vector<Result>& results)
      TENURE_REQUIRES(table_.mutex);
  void forget_changes() TENURE_REQUIRES(table_.mutex);
  // The call of watch() that takes some interests and drops others.
  [[nodiscard]] Params watch_params(const std::vector<std::string>& missing,
                                    const std::vector<std::int64_t>& dropped);
  void judge_fresh() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] Patience patience() const;
  void lose_connection() TENURE_REQUIRES(table_.mutex);
  void hear() TENURE_REQUIRES(table_.mutex);
  void probe() TENURE_REQUIRES(table_.mutex);
  void put_probe_off();
  void read_slowly() TENURE_REQUIRES(table_.mutex);
  void look_at_sessions() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool lives_now(std::string_view session) const TENURE_REQUIRES(table_.mutex);
  void ask_about(const std::string& session) TENURE_REQUIRES(table_.mutex);
  void forget_lives() TENURE_REQUIRES(table_.mutex);
  void sleep() TENURE_REQUIRES(table_.mutex);

  const std::shared_ptr<Executor> executor_;
  const std::shared_ptr<Sessions> sessions_;
  const int bell_;  // An eventfd.
  const Statement begin_;
  const Statement watch_;
  const Statement commit_;
  const Statement state_;

  // Used only by the service thread.
  std::unique_ptr<Connection> connection_;
  std::int64_t retry_at_ = 0;
  base::Backoff reconnect_{std::chrono::milliseconds{20}, std::chrono::seconds{1}};
  std::int64_t idle_since_ = 0;
  std::int64_t read_at_ = 0;
  std::int64_t probe_at_ = 0;
  std::map<std::int64_t, int> channels_;  // How many interests each channel is heard for.

  stores::Interests interests_ TENURE_GUARDED_BY(table_.mutex);
  stores::WatchTable table_;
  // When to look up a watched session, on CLOCK_BOOTTIME; absent or 0: at once.
  std::map<std::string, std::int64_t, std::less<>> look_at_ TENURE_GUARDED_BY(table_.mutex);
  // Until when a session lives at least, unless its entry changes.
  std::map<std::string, std::int64_t, std::less<>> lives_until_ TENURE_GUARDED_BY(table_.mutex);
  bool listening_ TENURE_GUARDED_BY(table_.mutex) = false;
  // While listening: watches that were added before their interests were held.
  std::vector<stores::WatchTable::Id> fresh_ TENURE_GUARDED_BY(table_.mutex);
  // All watches are notified after the next reconnect.
  bool was_lost_ TENURE_GUARDED_BY(table_.mutex) = false;
  // Watches of fresh_ whose add() has not returned.
  std::set<stores::WatchTable::Id> awaited_ TENURE_GUARDED_BY(table_.mutex);
  std::map<int, Recent> recent_ TENURE_GUARDED_BY(table_.mutex);  // By bucket.
  // While everything is heard of: the newest revision of each bucket when that began.
  std::vector<Revision> since_ TENURE_GUARDED_BY(table_.mutex);
  std::vector<Revision> polled_ TENURE_GUARDED_BY(table_.mutex);  // The same of the last poll.
  std::atomic<std::uint64_t> heard_{0};
  std::atomic<bool> no_watch_{false};   // The schema has no routine watch() for this role.
  std::condition_variable_any judged_;  // Watches left fresh_.
  std::thread::id server_ TENURE_GUARDED_BY(table_.mutex);
  bool stopping_ TENURE_GUARDED_BY(table_.mutex) = false;
  stores::ServiceThread service_;
};

}  // namespace tenure::postgres
