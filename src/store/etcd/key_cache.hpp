// key_cache.hpp: what this process remembers about keys and revisions, so that a transaction need
// not read first. A transaction compares everything that it takes from here: if a remembered value
// is stale, etcd refuses the transaction, the process reads the key and tries again.
//
// Thread safety: all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

// A key as it was last seen.
struct KeyState {
  std::int64_t mod_revision = 0;  // etcd's; zero: there is no such key.
  Revision created;               // Ours.
};

class KeyCache {
 public:
  void put(std::string_view key, const KeyState& state) {
    const base::Mutex::Scoped lock{mutex_};
    if (keys_.size() >= max_keys) keys_.clear();
    keys_.insert_or_assign(std::string{key}, state);
  }
  void erase(std::string_view key) {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = keys_.find(key);
    if (at != keys_.end()) keys_.erase(at);
  }
  // Erases the keys from `from` to the end of the range.
  void erase_from(std::string_view from, const Range& range) {
    const base::Mutex::Scoped lock{mutex_};
    const auto end = range.to.empty() ? keys_.end() : keys_.lower_bound(range.to);
    const auto begin = keys_.lower_bound(from);
    if (begin == keys_.end() || (end != keys_.end() && end->first <= begin->first)) return;
    keys_.erase(begin, end);
  }
  // The last known key of a range; empty: no key of it is known.
  [[nodiscard]] std::string last_in(const Range& range) const {
    const base::Mutex::Scoped lock{mutex_};
    auto at = range.to.empty() ? keys_.end() : keys_.lower_bound(range.to);
    if (at == keys_.begin() || (--at)->first < range.from) return {};
    return at->first;
  }
  // A key that is not known counts as absent.
  [[nodiscard]] KeyState find(const std::string& key) const {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = keys_.find(key);
    return at == keys_.end() ? KeyState{} : at->second;
  }

 private:
  static constexpr std::size_t max_keys = 4096;

  mutable base::Mutex mutex_;
  std::map<std::string, KeyState, std::less<>> keys_ TENURE_GUARDED_BY(mutex_);
};

// Which revision of etcd's made one of ours. That never changes. The order of commits is etcd's:
// numbers of ours can be compared within an order only.
class RevisionCache {
 public:
  void add(Revision revision, std::int64_t by_etcd) {
    const base::Mutex::Scoped lock{mutex_};
    if (young_.size() >= max_young) old_ = std::exchange(young_, {});
    young_.insert_or_assign(revision.value, by_etcd);
  }
  void clear() {
    const base::Mutex::Scoped lock{mutex_};
    young_.clear();
    old_.clear();
  }
  [[nodiscard]] std::optional<std::int64_t> by_etcd(Revision revision) const {
    const base::Mutex::Scoped lock{mutex_};
    for (const auto* const known : {&young_, &old_}) {
      if (const auto at = known->find(revision.value); at != known->end()) return at->second;
    }
    return std::nullopt;
  }

 private:
  // Those that were seen last are in one of two tables: when the first is full, it replaces the
  // second.
  static constexpr std::size_t max_young = 4096;

  mutable base::Mutex mutex_;
  std::unordered_map<std::uint64_t, std::int64_t> young_ TENURE_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::int64_t> old_ TENURE_GUARDED_BY(mutex_);
};

struct Caches {
  KeyCache keys;
  RevisionCache revisions;
};

}  // namespace tenure::etcd
