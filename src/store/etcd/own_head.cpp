#include "store/etcd/own_head.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tenure::etcd {

std::optional<OwnHead::Use> OwnHead::use(const std::vector<Range>& reads) {
  const base::Mutex::Scoped lock{mutex_};
  if (left_ > 0) {
    --left_;
    return std::nullopt;
  }
  if (!head_) return std::nullopt;
  Use use{.head = *head_, .put_at = put_at_, .empty = {}};
  use.empty.reserve(reads.size());
  for (const Range& range : reads) use.empty.push_back(is_empty(range));
  return use;
}

bool OwnHead::is_empty(const Range& range) const {
  const auto behind = empty_.upper_bound(range.from);
  if (range.to.empty() || behind == empty_.begin()) return false;
  if (std::prev(behind)->second < range.to) return false;
  const auto key = keys_.lower_bound(range.from);
  return key == keys_.end() || *key >= range.to;
}

// Answers may come in another order than commits were made in.
void OwnHead::moved(Commit commit) {
  const base::Mutex::Scoped lock{mutex_};
  if (commit.put_at <= put_at_) return;
  const bool goes_on = head_ && commit.on && commit.on->revision == head_->revision;
  if (!goes_on || empty_.size() + keys_.size() > max_known) clear();
  head_ = commit.head;
  put_at_ = commit.put_at;
  for (const Range& range : commit.empty) add(range);
  for (std::string& key : commit.keys) keys_.insert(std::move(key));
}

// What was found empty has none of the keys in it any more.
void OwnHead::add(const Range& range) {
  if (range.to.empty() || range.to <= range.from) return;
  keys_.erase(keys_.lower_bound(range.from), keys_.lower_bound(range.to));
  std::string from = range.from;
  std::string to = range.to;
  auto at = empty_.upper_bound(from);
  if (at != empty_.begin() && std::prev(at)->second >= from) from = (--at)->first;
  for (; at != empty_.end() && at->first <= to; at = empty_.erase(at))
    to = std::max(to, at->second);
  empty_.emplace(std::move(from), std::move(to));
}

void OwnHead::removed(const std::string& key) {
  const base::Mutex::Scoped lock{mutex_};
  keys_.erase(key);
}

void OwnHead::was_ours() {
  const base::Mutex::Scoped lock{mutex_};
  pause_ = std::max(pause_ - (pause_ / 16), shortest_pause);
}

void OwnHead::was_not_ours() {
  const base::Mutex::Scoped lock{mutex_};
  head_.reset();
  left_ = pause_;
  pause_ = std::min(pause_ * 2, longest_pause);
}

void OwnHead::forget() {
  const base::Mutex::Scoped lock{mutex_};
  head_.reset();
}

void OwnHead::clear() {
  empty_.clear();
  keys_.clear();
}

}  // namespace tenure::etcd
