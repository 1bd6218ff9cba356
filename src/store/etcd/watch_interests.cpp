// How Watches asks the stream for what its watches want, and learns from when on it is told.
#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/boot_clock.hpp"
#include "store/etcd/watches.hpp"

namespace tenure::etcd {
namespace {

constexpr std::size_t most_read = 64;  // etcd limits the operations of a transaction.

// No key begins with a zero.
bool is_session(std::string_view name) { return name.starts_with('\0'); }

std::string etcd_key_of(const Layout& layout, const std::string& name) {
  return is_session(name) ? layout.lease_key(name.substr(1)) : layout.key(name);
}

}  // namespace

bool Watches::update_interests() {
  if (!live_) return false;
  std::vector<std::string> missing = interests_.missing();
  if (!missing.empty()) {
    std::unordered_set<std::string_view> asked;
    for (const auto& [id, one] : asked_) asked.insert(one.name);
    std::erase_if(missing, [&](const std::string& name) { return asked.contains(name); });
  }
  const std::vector<std::int64_t> dropped = interests_.drop(base::boot_ns(), !missing.empty());
  if (missing.empty() && dropped.empty() && unneeded_.empty()) return false;
  std::vector<std::int64_t> gone = std::exchange(unneeded_, {});
  gone.insert(gone.end(), dropped.begin(), dropped.end());
  for (const std::int64_t id : dropped) {
    const auto at = asked_.find(id);
    if (at == asked_.end()) continue;
    if (is_session(at->second.name)) lease_since_.erase(at->second.name.substr(1));
    if (at->second.name.empty()) since_.reset();
    asked_.erase(at);
  }
  std::vector<std::pair<std::int64_t, std::string>> wanted;
  for (std::string& name : missing) {
    asked_[++last_id_].name = name;
    wanted.emplace_back(last_id_, std::move(name));
  }
  table_.mutex.unlock();
  const Layout& layout = executor_->layout();
  for (const auto& [id, name] : wanted) {
    if (name.empty()) {
      changes_.watch(id, layout.head(), layout.end());
    } else {
      changes_.watch(id, etcd_key_of(layout, name), {});
    }
  }
  for (const std::int64_t id : gone) changes_.unwatch(id);
  table_.mutex.lock();
  return true;
}

// Reads after the watches were created: what changes later will arrive on the stream.
bool Watches::read_interests() {
  std::vector<std::pair<std::int64_t, std::string>> ready;
  bool everything = false;
  for (const auto& [id, one] : asked_) {
    if (one.held || !one.created) continue;
    if (!everything && ready.size() < most_read) ready.emplace_back(id, one.name);
    if (one.name.empty()) everything = true;
  }
  if (ready.empty()) return false;
  if (everything) {  // It comes alone: it holds all others, too.
    std::erase_if(ready, [](const auto& one) { return !one.second.empty(); });
  }
  const std::uint64_t number = stream_number_;
  table_.mutex.unlock();
  bool well = true;
  Executor::PositionNow now;
  Executor::ValuesNow found;
  try {
    if (everything) {
      now = executor_->read_position();
    } else {
      std::vector<std::string> keys;
      keys.reserve(ready.size());
      for (const auto& [id, name] : ready) {
        keys.push_back(etcd_key_of(executor_->layout(), name));
      }
      found = executor_->read_values(keys);
    }
  } catch (...) {
    well = false;
  }
  table_.mutex.lock();
  if (!well) {
    work_.wait_for(table_.mutex, retry_time);
    return true;
  }
  if (number != stream_number_) return true;  // Another stream has begun.
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const auto at = asked_.find(ready[i].first);
    if (at == asked_.end()) continue;  // Its key was removed meanwhile.
    at->second.held = true;
    if (everything) {
      hold_everything(at->first, now);
    } else if (is_session(at->second.name)) {
      hold_session(at->second, at->first, found.values.at(i).has_value(), found);
    } else {
      hold_key(at->second, at->first, found.values.at(i), found);
    }
  }
  judge_fresh();
  return true;
}

void Watches::hold_key(const Asked& asked, std::int64_t id, const std::optional<std::string>& value,
                       const Executor::ValuesNow& now) {
  Revision since = now.newest;
  try {
    if (value) since = parse_value(*value).changed;
  } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch): not written by this version.
  }
  interests_.hold(asked.name, id, since, value.has_value());
}

void Watches::hold_session(const Asked& asked, std::int64_t id, bool alive,
                           const Executor::ValuesNow& now) {
  const std::string session = asked.name.substr(1);
  interests_.hold(asked.name, id, now.newest, true);
  lease_since_[session] = asked.since;
  if (!alive) {
    died(session);
    return;
  }
  if (seen_.size() >= max_sessions) seen_.clear();
  seen_[session] = now.by_etcd;
}

void Watches::hold_everything(std::int64_t id, const Executor::PositionNow& now) {
  const Position& position = now.position;
  if (position.newest != newest_ || floor_ == Revision{}) {
    recent_.clear();
    floor_ = position.newest;
    newest_ = position.newest;
  }
  head_ = position.head.revision;
  head_put_at_ = position.put_at;
  since_ = now.by_etcd;
  interests_.hold({}, id, floor_, false);
  for (const std::string& session : table_.sessions()) ask_about(session);
}

void Watches::judge_fresh() {
  std::erase_if(fresh_, [this](stores::WatchTable::Id id) TENURE_REQUIRES(table_.mutex) {
    const WatchFor* const what = table_.armed(id);
    if (what == nullptr) return true;
    const std::optional<bool> is_due = due(*what);
    if (is_due && *is_due) table_.due(id);
    return is_due.has_value();
  });
  judged_.notify_all();
}

// A change that is made before everything is watched makes the watches of all ranges due. A caller
// that writes next should not cause that. It does not wait for a cluster that can't be reached, nor
// on the thread that takes interests.
void Watches::await_interests(Lock& lock, stores::WatchTable::Id id) {
  if (std::this_thread::get_id() == server_) return;
  const auto is_judged = [&]() TENURE_REQUIRES(table_.mutex) {
    const WatchFor* const what = table_.armed(id);
    return what == nullptr || due(*what).has_value();
  };
  const auto until = std::chrono::steady_clock::now() + interest_limit;
  while (!stopping_ && !is_judged()) {
    if (judged_.wait_until(lock, until) == std::cv_status::timeout) return;
  }
}

}  // namespace tenure::etcd
