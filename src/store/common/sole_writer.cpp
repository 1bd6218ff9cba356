#include "store/common/sole_writer.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace tenure::stores {

// All known keys of the range are gone; put() follows for those that were written since.
void KnownEntries::saw_nothing(const Range& range) {
  if (range.to.empty() || range.to <= range.from) return;
  if (ranges_.size() >= max_ranges_) clear();
  own_.erase(own_.lower_bound(range.from), own_.lower_bound(range.to));
  std::string from = range.from;
  std::string to = range.to;
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin() && std::prev(at)->second >= from) from = (--at)->first;
  for (; at != ranges_.end() && at->first <= to; at = ranges_.erase(at)) {
    to = std::max(to, at->second);
  }
  ranges_.emplace(std::move(from), std::move(to));
}

void KnownEntries::saw(std::string_view key, Revision changed) {
  if (const auto at = seen_.find(key); at != seen_.end()) {
    at->second = changed;
    return;
  }
  if (seen_.size() >= max_seen) seen_.clear();
  seen_.emplace(key, changed);
  seen_sizes_ |= size_bit(key);
  if (Put* const put = find_put(key)) put->known = false;
}

const KnownEntries::Put* KnownEntries::find_put(std::string_view key) const noexcept {
  // Keys of one kind mostly differ at the end.
  const auto same = [key](const Put& one) {
    return one.known && one.key.size() == key.size() &&
           (key.empty() || one.key.back() == key.back()) && one.key == key;
  };
  const auto* const at = std::ranges::find_if(put_, same);
  return at == put_.end() ? nullptr : &*at;
}

void KnownEntries::put(std::string_view key, Revision changed) {
  const bool maybe_seen = (seen_sizes_ & size_bit(key)) != 0;
  if (const auto seen = maybe_seen ? seen_.find(key) : seen_.end(); seen != seen_.end()) {
    seen->second = changed;
  } else {
    Put* put = find_put(key);
    if (put == nullptr) {
      put = &put_[next_put_++ % max_put];
      put->key.assign(key);
      put->known = true;
    }
    put->changed = changed;
  }
  keep_own(key);
}

void KnownEntries::keep_own(std::string_view key) {
  if (ranges_.empty() || std::prev(ranges_.end())->second <= key) return;
  const auto behind = ranges_.upper_bound(key);
  if (behind == ranges_.begin() || std::prev(behind)->second <= key) return;
  if (own_.size() >= max_own) {
    clear();
  } else {
    own_.emplace(key);
  }
}

void KnownEntries::remove(std::string_view key) {
  if (Put* const put = find_put(key)) put->known = false;
  if (const auto at = seen_.find(key); at != seen_.end()) seen_.erase(at);
  if (const auto at = own_.find(key); at != own_.end()) own_.erase(at);
}

void KnownEntries::clear() noexcept {
  ranges_.clear();
  own_.clear();
  seen_.clear();
  seen_sizes_ = 0;
  for (Put& put : put_) put.known = false;
}

bool KnownEntries::empty(const Range& range, Revision before) const {
  const auto behind = ranges_.upper_bound(range.from);
  if (range.to.empty() || behind == ranges_.begin()) return false;
  if (std::prev(behind)->second < range.to) return false;
  int looked_at = 0;
  for (auto at = own_.lower_bound(range.from); at != own_.end() && *at < range.to; ++at) {
    if (before == Revision{} || stamp_of(*at) < before) return false;
    if (++looked_at == max_looked_at) return false;
  }
  return true;
}

const Revision* KnownEntries::find(std::string_view key) const noexcept {
  if (const auto seen = seen_.find(key); seen != seen_.end()) return &seen->second;
  const Put* const put = find_put(key);
  return put == nullptr ? nullptr : &put->changed;
}

std::vector<Change> changes_of(const Txn& txn, Revision revision) {
  std::vector<Change> changes;
  changes.reserve(txn.writes.size());
  for (const Write& write : txn.writes) {
    changes.push_back(
        {.key = write.kind == Write::Kind::append ? write.key + stamp(revision) : write.key,
         .removed = write.kind == Write::Kind::remove});
  }
  return changes;
}

bool may_read_own(const Range& range, const std::vector<Write>& writes) {
  return std::ranges::any_of(writes, [&range](const Write& write) {
    if (write.kind == Write::Kind::remove) return false;
    if (write.kind == Write::Kind::put) return range.holds(write.key);
    if (range.before == this_apply) return false;
    // Any key that the prefix may become.
    const std::string last = write.key + stamp(Revision{std::numeric_limits<std::uint64_t>::max()});
    return last >= range.from && (range.to.empty() || write.key < range.to);
  });
}

}  // namespace tenure::stores
