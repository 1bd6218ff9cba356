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

Revision as_revision(std::int64_t by_etcd) { return Revision{static_cast<std::uint64_t>(by_etcd)}; }

std::string etcd_key_of(const Layout& layout, const std::string& name) {
  return is_session(name) ? layout.lease_key(name.substr(1)) : layout.key(name);
}

using NamedInterests = std::vector<std::pair<std::int64_t, std::string>>;

std::vector<std::string> keys_of(const Layout& layout, const NamedInterests& interests) {
  std::vector<std::string> keys;
  keys.reserve(interests.size());
  for (const auto& [id, name] : interests) keys.push_back(etcd_key_of(layout, name));
  return keys;
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
  if (missing.empty() && dropped.empty()) return false;
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
      changes_.watch(id, layout.key({}), layout.end());
    } else {
      changes_.watch(id, etcd_key_of(layout, name), {});
    }
  }
  for (const std::int64_t id : dropped) changes_.unwatch(id);
  table_.mutex.lock();
  return true;
}

// Reads after the watches were created: what changes later will arrive on the stream.
bool Watches::read_interests() {
  NamedInterests ready;
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
  Executor::LastApply last;
  Executor::KeysNow found;
  try {
    if (everything) {
      last = executor_->read_last_apply();
    } else {
      found = executor_->read_keys(keys_of(executor_->layout(), ready));
    }
  } catch (...) {
    well = false;
  }
  table_.mutex.lock();
  if (!well) {
    work_.wait_for(table_.mutex, retry_time);
    return true;
  }
  if (last.restored || found.restored) table_.all_due();
  if (number != stream_number_) return true;  // Another stream has begun.
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const auto at = asked_.find(ready[i].first);
    if (at == asked_.end()) continue;  // It was dropped meanwhile.
    at->second.held = true;
    if (everything) {
      hold_everything(at->first, last);
    } else {
      hold(at->second, at->first, found.put_at.at(i), found.by_etcd);
    }
  }
  judge_fresh();
  return true;
}

// `put_at`: when the key was put; zero: it is not there, and when it was removed is not known.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
void Watches::hold(const Asked& asked, std::int64_t id, std::int64_t put_at, std::int64_t now) {
  if (is_session(asked.name)) {
    hold_session(asked, id, put_at != 0, now);
    return;
  }
  const std::int64_t since = put_at != 0 ? put_at : now;
  interests_.hold(asked.name, id, as_revision(since), put_at != 0);
}

void Watches::hold_session(const Asked& asked, std::int64_t id, bool alive, std::int64_t now) {
  const std::string session = asked.name.substr(1);
  // Kept for a while: in a queue the next wait is behind the same process.
  interests_.hold(asked.name, id, as_revision(now), false);
  lease_since_[session] = asked.since;
  if (!alive) {
    died(session);
    return;
  }
  if (seen_.size() >= max_sessions) seen_.clear();
  seen_[session] = now;
}

// Every apply moves a head. If the last one that did was reported, nothing was missed.
void Watches::hold_everything(std::int64_t id, const Executor::LastApply& last) {
  const Revision newest = as_revision(last.at);
  if (newest != newest_ || floor_ == Revision{} || last.restored) {
    recent_.clear();
    floor_ = newest;
    newest_ = newest;
  }
  since_ = last.by_etcd;
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
