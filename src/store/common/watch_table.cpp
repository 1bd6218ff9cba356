#include "store/common/watch_table.hpp"

#include <algorithm>
#include <utility>

#include "base/fork.hpp"

namespace tenure::stores {
namespace {

template <typename Map, typename Key>
void drop(Map& map, const Key& key, WatchTable::Id id) {
  const auto at = map.find(key);
  if (at == map.end()) return;
  at->second.erase(id);
  if (at->second.empty()) map.erase(at);
}

}  // namespace

bool is_one_key(const Range& range) noexcept {
  return range.to.size() == range.from.size() + 1 && range.to.back() == '\0' &&
         range.to.starts_with(range.from);
}

class WatchTable::Handle final : public Watch {
 public:
  Handle(std::shared_ptr<WatchTable> table, Id id, std::shared_ptr<Store> keep)
      : keep_(std::move(keep)), table_(std::move(table)), id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override {
    // In a forked child this is the parent's table. The store, kept alive here, does not free it.
    if (!base::forked_since(generation_)) table_->remove(id_);
  }

 private:
  const std::shared_ptr<Store> keep_;
  const std::shared_ptr<WatchTable> table_;
  const Id id_;
  const std::uint64_t generation_ = base::fork_generation();
};

std::unique_ptr<Watch> WatchTable::handle(std::shared_ptr<WatchTable> table, Id id,
                                          std::shared_ptr<Store> keep) {
  return std::make_unique<Handle>(std::move(table), id, std::move(keep));
}

WatchTable::Id WatchTable::add(WatchFor what, Store::Notice notice) {
  const Id id = ++last_id_;
  const auto at =
      watches_.emplace(id, Watched{.what = std::move(what), .notice = std::move(notice)}).first;
  link(id, at->second.what);
  return id;
}

void WatchTable::link(Id id, const WatchFor& what) {
  ++armed_;
  for (const Range& range : what.ranges) {
    if (is_one_key(range)) {
      by_key_[range.from].insert(id);
    } else {
      by_range_.add(range, id);
    }
  }
  if (what.until) by_time_.emplace(*what.until, id);
  if (!what.session.empty()) by_session_[what.session].insert(id);
  if (hook_) hook_(what, true);
}

void WatchTable::unlink(Id id, const WatchFor& what) {
  --armed_;
  for (const Range& range : what.ranges) {
    if (is_one_key(range)) {
      drop(by_key_, range.from, id);
    } else {
      by_range_.remove(range, id);
    }
  }
  if (what.until) by_time_.erase({*what.until, id});
  if (!what.session.empty()) drop(by_session_, what.session, id);
  if (hook_) hook_(what, false);
}

void WatchTable::remove(Id id) noexcept {
  Watched gone;  // Destroyed when the mutex is free.
  Lock lock{mutex};
  if (const auto at = watches_.find(id); at != watches_.end()) {
    if (!at->second.ready) unlink(id, at->second.what);
    gone = std::move(at->second);
    watches_.erase(at);
  } else if (runner_ != std::this_thread::get_id()) {
    while (running_ == id) ran_.wait(lock);
  }
  lock.unlock();
}

void WatchTable::due(Id id) {
  const auto at = watches_.find(id);
  if (at == watches_.end() || at->second.ready) return;
  unlink(id, at->second.what);
  at->second.ready = true;
  ready_.push_back(id);
}

void WatchTable::due_if(const std::function<bool(const WatchFor&)>& is_due) {
  std::vector<Id> found;
  for (const auto& [id, one] : watches_) {
    if (!one.ready && is_due(one.what)) found.push_back(id);
  }
  for (const Id id : found) due(id);
}

void WatchTable::changed(std::string_view key, Revision revision) {
  std::vector<Id> found;
  if (!by_key_.empty()) {
    if (const auto at = by_key_.find(key); at != by_key_.end()) {
      found.assign(at->second.begin(), at->second.end());
    }
  }
  by_range_.find(key, found);
  std::ranges::sort(found);
  for (const Id id : found) {
    if (watches_.at(id).what.after < revision) due(id);
  }
}

void WatchTable::died(std::string_view session) {
  const auto at = by_session_.find(session);
  if (at == by_session_.end()) return;
  for (const Id id : std::set<Id>{at->second}) due(id);
}

void WatchTable::reached(Instant now) {
  while (!by_time_.empty() && by_time_.begin()->first <= now) due(by_time_.begin()->second);
}

std::optional<Instant> WatchTable::next_time() const {
  return by_time_.empty() ? std::nullopt : std::optional{by_time_.begin()->first};
}

const WatchFor* WatchTable::armed(Id id) const {
  const auto at = watches_.find(id);
  return at == watches_.end() || at->second.ready ? nullptr : &at->second.what;
}

std::vector<WatchTable::Id> WatchTable::armed() const {
  std::vector<Id> found;
  for (const auto& [id, one] : watches_) {
    if (!one.ready) found.push_back(id);
  }
  return found;
}

bool WatchTable::watches(std::string_view session) const {
  return by_session_.find(session) != by_session_.end();
}

std::vector<std::string> WatchTable::sessions() const {
  std::vector<std::string> found;
  found.reserve(by_session_.size());
  for (const auto& [session, ids] : by_session_) found.push_back(session);
  return found;
}

bool WatchTable::any_ready() {
  while (!ready_.empty() && !watches_.contains(ready_.front())) ready_.pop_front();
  return !ready_.empty();
}

void WatchTable::run_next() {
  const auto at = watches_.find(ready_.front());
  ready_.pop_front();
  Store::Notice notice = std::move(at->second.notice);
  running_ = at->first;
  runner_ = std::this_thread::get_id();
  watches_.erase(at);
  mutex.unlock();
  notice();
  notice = nullptr;  // Its captures may destroy the watch, which must not wait for this call.
  mutex.lock();
  running_ = 0;
  ran_.notify_all();
}

void WatchTable::clear() {
  std::map<Id, Watched> gone;  // Destroyed when the mutex is free.
  const Lock lock{mutex};
  all_due();
  ready_.clear();
  gone.swap(watches_);
}

}  // namespace tenure::stores
