#include "store/own_head.hpp"

#include <iterator>

namespace tenure::stores {

void EmptyRanges::add(const Range& range) {
  if (range.to.empty() || range.to <= range.from) return;
  keys_.erase(keys_.lower_bound(range.from), keys_.lower_bound(range.to));
  std::string from = range.from;
  std::string to = range.to;
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin() && std::prev(at)->second >= from) from = (--at)->first;
  for (; at != ranges_.end() && at->first <= to; at = ranges_.erase(at)) {
    to = std::max(to, at->second);
  }
  ranges_.emplace(std::move(from), std::move(to));
}

void EmptyRanges::clear() {
  ranges_.clear();
  keys_.clear();
}

bool EmptyRanges::covers(const Range& range) const {
  const auto behind = ranges_.upper_bound(range.from);
  if (range.to.empty() || behind == ranges_.begin()) return false;
  if (std::prev(behind)->second < range.to) return false;
  const auto key = keys_.lower_bound(range.from);
  return key == keys_.end() || *key >= range.to;
}

}  // namespace tenure::stores
