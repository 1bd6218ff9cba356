// watch_table.hpp: the watches of a process on one store; finds those that an event concerns.
//
//   armed --- changed, died, reached, due ---> ready --- run_next ---> running ---> gone
//     '---- handle destroyed ------------------'------------------------------------^
//
// Watches of single keys are in a hash table, wider ranges in a RangeIndex: finding the watches of
// a written key costs O(log n), whatever the number of watches.
//
// Invariants
//   1. Each watch becomes ready at most once, and its notice is called at most once.
//   2. Notices are called and destroyed with the mutex free, one at a time, in the order in which
//      their watches became ready.
//   3. A handle that is destroyed waits for its running notice, unless that notice destroys it.
//
// Thread safety: `mutex` guards the table and everything that the owner keeps beside it. Only one
// thread, the owner's service thread, calls run_next().
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/range_index.hpp"
#include "tenure/store.hpp"

namespace tenure::stores {

[[nodiscard]] bool is_one_key(const Range& range) noexcept;

class WatchTable {
 public:
  using Id = std::uint64_t;
  // Called with the mutex held, when a watch becomes armed and when it ceases to be.
  using Hook = std::function<void(const WatchFor& what, bool armed)>;

  explicit WatchTable(Hook hook = {}) : hook_(std::move(hook)) {}
  WatchTable(const WatchTable&) = delete;
  WatchTable& operator=(const WatchTable&) = delete;
  ~WatchTable() = default;

  base::Mutex mutex;

  Id add(WatchFor what, Store::Notice notice) TENURE_REQUIRES(mutex);
  // Makes the handle that Store::watch returns. `table` shares ownership of the table's owner;
  // `keep` lives as long as the handle, which has no effect in a forked child.
  [[nodiscard]] static std::unique_ptr<Watch> handle(std::shared_ptr<WatchTable> table, Id id,
                                                     std::shared_ptr<Store> keep);

  // An apply with this revision wrote the key.
  void changed(std::string_view key, Revision revision) TENURE_REQUIRES(mutex);
  void died(std::string_view session) TENURE_REQUIRES(mutex);
  void reached(Instant now) TENURE_REQUIRES(mutex);
  void due(Id id) TENURE_REQUIRES(mutex);
  // All armed watches for which `is_due` returns true.
  void due_if(const std::function<bool(const WatchFor&)>& is_due) TENURE_REQUIRES(mutex);
  void all_due() TENURE_REQUIRES(mutex) {
    due_if([](const WatchFor& /*what*/) { return true; });
  }

  // Null: its notice is due, or the watch is gone.
  [[nodiscard]] const WatchFor* armed(Id id) const TENURE_REQUIRES(mutex);
  [[nodiscard]] std::vector<Id> armed() const TENURE_REQUIRES(mutex);
  [[nodiscard]] bool any_armed() const TENURE_REQUIRES(mutex) { return armed_ != 0; }
  [[nodiscard]] bool any_ranges() const TENURE_REQUIRES(mutex) {
    return !by_key_.empty() || !by_range_.empty();
  }
  [[nodiscard]] bool any_sessions() const TENURE_REQUIRES(mutex) { return !by_session_.empty(); }
  [[nodiscard]] bool any_ready() TENURE_REQUIRES(mutex);
  [[nodiscard]] bool watches(std::string_view session) const TENURE_REQUIRES(mutex);
  [[nodiscard]] std::vector<std::string> sessions() const TENURE_REQUIRES(mutex);
  // The earliest `until`.
  [[nodiscard]] std::optional<Instant> next_time() const TENURE_REQUIRES(mutex);

  // Calls one notice with the mutex unlocked. Requires any_ready().
  void run_next() TENURE_REQUIRES(mutex);
  // Drops all watches without calling their notices.
  void clear();

 private:
  struct Watched {
    WatchFor what;
    Store::Notice notice;
    bool ready = false;
  };
  struct KeyHash {
    using is_transparent = void;
    [[nodiscard]] std::size_t operator()(std::string_view key) const noexcept {
      return std::hash<std::string_view>{}(key);
    }
  };
  class Handle;
  using Lock = base::Mutex::Scoped;

  void remove(Id id) noexcept;
  void link(Id id, const WatchFor& what) TENURE_REQUIRES(mutex);
  void unlink(Id id, const WatchFor& what) TENURE_REQUIRES(mutex);

  const Hook hook_;
  std::condition_variable_any ran_;
  Id last_id_ TENURE_GUARDED_BY(mutex) = 0;
  std::size_t armed_ TENURE_GUARDED_BY(mutex) = 0;
  std::map<Id, Watched> watches_ TENURE_GUARDED_BY(mutex);  // Armed and ready.
  std::unordered_map<std::string, std::set<Id>, KeyHash, std::equal_to<>> by_key_
      TENURE_GUARDED_BY(mutex);
  RangeIndex by_range_ TENURE_GUARDED_BY(mutex);
  std::set<std::pair<Instant, Id>> by_time_ TENURE_GUARDED_BY(mutex);
  std::map<std::string, std::set<Id>, std::less<>> by_session_ TENURE_GUARDED_BY(mutex);
  std::deque<Id> ready_ TENURE_GUARDED_BY(mutex);  // Some of them may have been removed since.
  Id running_ TENURE_GUARDED_BY(mutex) = 0;
  std::thread::id runner_ TENURE_GUARDED_BY(mutex);
};

}  // namespace tenure::stores
