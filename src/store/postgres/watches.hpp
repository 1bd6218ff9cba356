// watches.hpp: the watches of a process, the connection that listens for them, and the thread that
// calls their notices.
//
//   armed --- told, its time, a death, a reconnect ---> ready --- service thread ---> running
//     '---- destroyed --------------------------------------'---> gone
//
//   deaf ---- somebody watches ---------------------------> listening
//     ^                                                         |
//     '---- nobody has for a while, connection lost ------------'
//
// While it listens it holds the advisory lock that makes writers notify (statements.hpp), and so
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
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
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
#include "store/postgres/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Sessions;

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  Watches(std::shared_ptr<Engine> engine, std::shared_ptr<Sessions> sessions);
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
  using Ids = std::vector<std::uint64_t>;
  using Lock = base::Mutex::Scoped;
  struct Armed {
    std::uint64_t id = 0;
    WatchFor what;
    Store::Notice notice;
  };
  struct Change {
    Revision revision;
    std::vector<std::string> keys;
    bool anything = false;  // More keys than could be told.
  };
  struct Watched {
    Ids ids;
    std::int64_t look_at = 0;  // On CLOCK_BOOTTIME; 0: at once.
  };
  class Handle;
  static constexpr std::size_t max_recent = 4'096;

  void remove(std::uint64_t id) noexcept;
  void link(const Armed& armed) TENURE_REQUIRES(mutex_);
  void unlink(const Armed& armed) TENURE_REQUIRES(mutex_);
  void make_ready(std::uint64_t id) TENURE_REQUIRES(mutex_);
  void make_ready(const Ids& ids) TENURE_REQUIRES(mutex_);
  [[nodiscard]] bool changed_since(const WatchFor& what) const TENURE_REQUIRES(mutex_);
  void changed(const Change& change) TENURE_REQUIRES(mutex_);
  void tell_all() TENURE_REQUIRES(mutex_);
  [[nodiscard]] bool wanted() const TENURE_REQUIRES(mutex_);
  void wake() const noexcept;

  void serve();
  void run_ready() TENURE_REQUIRES(mutex_);
  void look_at_timers() TENURE_REQUIRES(mutex_);
  // These let go of the mutex meanwhile.
  void listen() TENURE_REQUIRES(mutex_);
  void start_listening();
  void stop_listening();
  void lose_connection() TENURE_REQUIRES(mutex_);
  void hear() TENURE_REQUIRES(mutex_);
  void probe() TENURE_REQUIRES(mutex_);
  void put_probe_off();
  void read_slowly() TENURE_REQUIRES(mutex_);
  void look_at_sessions() TENURE_REQUIRES(mutex_);
  void sleep() TENURE_REQUIRES(mutex_);

  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<Sessions> sessions_;
  const int bell_;  // An eventfd.

  // The service thread's own.
  std::unique_ptr<Connection> connection_;
  std::int64_t retry_at_ = 0;
  std::chrono::milliseconds pause_{0};
  std::int64_t idle_since_ = 0;
  std::int64_t read_at_ = 0;
  std::int64_t probe_at_ = 0;

  base::Mutex mutex_;
  std::condition_variable_any ran_;
  std::uint64_t last_id_ TENURE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed_ TENURE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Ids> by_key_ TENURE_GUARDED_BY(mutex_);
  std::unordered_set<std::uint64_t> wide_ TENURE_GUARDED_BY(mutex_);  // Of other ranges.
  std::multimap<Instant, std::uint64_t> timers_ TENURE_GUARDED_BY(mutex_);
  std::map<std::string, Watched, std::less<>> by_session_ TENURE_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Armed>> ready_ TENURE_GUARDED_BY(mutex_);
  std::optional<Revision> known_from_ TENURE_GUARDED_BY(mutex_);
  bool was_lost_ TENURE_GUARDED_BY(mutex_) = false;  // Everybody is told when it is back.
  std::deque<Change> recent_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t running_ TENURE_GUARDED_BY(mutex_) = 0;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread service_ TENURE_GUARDED_BY(mutex_);
  std::thread::id service_id_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::postgres
