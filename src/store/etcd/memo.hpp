// memo.hpp: what a process remembers of what it has read, so that it need not ask first. Nothing is
// believed: a transaction compares it, and one that was wrong reads and tries again.
//
// Thread safety: all of it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

class Memo {
 public:
  // As a key was when it was last seen.
  struct Made {
    std::int64_t mod_revision = 0;  // etcd's; zero: there is no such key.
    Revision created;               // Ours.
  };

  void made(std::string_view key, const Made& made) {
    const base::Mutex::Scoped lock{mutex_};
    if (keys_.size() >= max_keys) keys_.clear();
    keys_.insert_or_assign(std::string{key}, made);
  }
  void gone(std::string_view key) {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = keys_.find(key);
    if (at != keys_.end()) keys_.erase(at);
  }
  // All from there up to where the range ends.
  void gone(std::string_view from, const Range& range) {
    const base::Mutex::Scoped lock{mutex_};
    const auto end = range.to.empty() ? keys_.end() : keys_.lower_bound(range.to);
    const auto begin = keys_.lower_bound(from);
    if (begin == keys_.end() || (end != keys_.end() && end->first <= begin->first)) return;
    keys_.erase(begin, end);
  }
  // The last key in a range; empty: none is known.
  [[nodiscard]] std::string last_in(const Range& range) const {
    const base::Mutex::Scoped lock{mutex_};
    auto at = range.to.empty() ? keys_.end() : keys_.lower_bound(range.to);
    if (at == keys_.begin() || (--at)->first < range.from) return {};
    return at->first;
  }
  // Of a key that is not known: that it is not there.
  [[nodiscard]] Made made(const std::string& key) const {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = keys_.find(key);
    return at == keys_.end() ? Made{} : at->second;
  }

  // etcd's revision for one of ours, which never changes. Only for those that were given: that of
  // one between two heads does not follow from theirs.
  void same(Revision revision, std::int64_t by_etcd) {
    const base::Mutex::Scoped lock{mutex_};
    if (revisions_.empty() || revisions_.back().ours < revision) {
      revisions_.push_back({.ours = revision, .by_etcd = by_etcd});
    } else {  // An answer that is late.
      const auto at = std::ranges::lower_bound(revisions_, revision, {}, &Same::ours);
      if (at->ours == revision) return;
      revisions_.insert(at, {.ours = revision, .by_etcd = by_etcd});
    }
    if (revisions_.size() > max_revisions) revisions_.pop_front();
  }
  [[nodiscard]] std::optional<std::int64_t> by_etcd(Revision revision) const {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = std::ranges::lower_bound(revisions_, revision, {}, &Same::ours);
    return at == revisions_.end() || at->ours != revision ? std::nullopt
                                                          : std::optional{at->by_etcd};
  }

 private:
  static constexpr std::size_t max_keys = 4096;
  static constexpr std::size_t max_revisions = 4096;

  struct Same {
    Revision ours;
    std::int64_t by_etcd;
  };

  mutable base::Mutex mutex_;
  std::map<std::string, Made, std::less<>> keys_ TENURE_GUARDED_BY(mutex_);
  std::deque<Same> revisions_ TENURE_GUARDED_BY(mutex_);  // In order: nearly all come so.
};

}  // namespace tenure::etcd
