#include "store/memory/table.hpp"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "store/common/orders.hpp"

namespace tenure::memory {

Outcome Table::apply(const Txn& txn) {
  Outcome outcome;
  outcome.committed =
      std::ranges::all_of(txn.guards, [this](const Guard& guard) { return holds(guard); });
  const bool writes = outcome.committed && !txn.writes.empty();
  if (writes) {
    ++applies_;
    revision_ = orders_.next(txn);
    for (const Write& one : txn.writes) write(one);
  }
  outcome.revision = writes ? revision_ : orders_.last(txn);
  outcome.reads.reserve(txn.reads.size());
  for (const Range& range : txn.reads) {
    // Every stamp is before an apply that wrote nothing.
    const Revision self = writes ? revision_ : Revision{};
    outcome.reads.push_back(read(range, range.before == this_apply ? self : range.before));
  }
  return outcome;
}

bool Table::changed_since(const Range& range, Revision after, std::uint64_t applies) const {
  if (applies < forgotten_apply_ && is_forgotten(range, after)) return true;
  for (const Change& change : std::views::reverse(changes_)) {
    if (change.apply <= applies) return false;
    const bool known = change.revision <= after;
    // In one order all before it are smaller; in the order of roots they may be anything.
    if (known && !orders_.by_root()) return false;
    if (!known && range.holds(change.key)) return true;
  }
  return false;
}

bool Table::is_forgotten(const Range& range, Revision after) const {
  if (!orders_.by_root()) return after < forgotten_;
  return std::ranges::any_of(forgotten_in_, [&](const auto& order) {
    return order.second > after && stores::order_of(range).value_or(order.first) == order.first;
  });
}

bool Table::holds(const Guard& guard) const {
  if (guard.kind == Guard::Kind::quiet) {
    return std::ranges::all_of(span(guard.range), [&guard](const auto& entry) {
      return entry.second.changed <= guard.revision;
    });
  }
  const auto at = entries_.find(guard.range.from);
  switch (guard.kind) {
    case Guard::Kind::absent: return at == entries_.end();
    case Guard::Kind::present: return at != entries_.end();
    default: return at != entries_.end() && at->second.changed == guard.revision;
  }
}

Table::Span Table::span(const Range& range) const {
  const auto from = entries_.lower_bound(range.from);
  if (range.to.empty()) return {from, entries_.end()};
  // The range is empty, and lower_bound would return an end before the beginning.
  if (range.to <= range.from) return {from, from};
  return {from, entries_.lower_bound(range.to)};
}

std::vector<Entry> Table::read(const Range& range, Revision before) const {
  std::vector<Entry> entries;
  std::uint32_t skip = range.skip;
  // Returns true when the limit is reached.
  const auto take = [&](const auto& found) {
    const auto& [key, record] = found;
    if (before != Revision{} && stamp_of(key) >= before) return false;
    if (skip > 0) {
      --skip;
      return false;
    }
    entries.push_back({key, record.value, record.created, record.changed});
    return range.limit != 0 && entries.size() == range.limit;
  };
  const Span found = span(range);
  if (range.reverse) {
    std::ignore = std::ranges::find_if(std::views::reverse(found), take);
  } else {
    std::ignore = std::ranges::find_if(found, take);
  }
  return entries;
}

void Table::write(const Write& write) {
  switch (write.kind) {
    case Write::Kind::put: put(write.key, write); break;
    case Write::Kind::append: put(write.key + stamp(revision_), write); break;
    case Write::Kind::remove: remove(write.key); break;
  }
}

void Table::put(const std::string& key, const Write& write) {
  const auto [at, is_new] = entries_.try_emplace(key);
  at->second.value = write.value;
  at->second.changed = revision_;
  if (is_new) at->second.created = revision_;
  remember(key);
}

void Table::remove(const std::string& key) {
  if (entries_.erase(key) != 0) remember(key);
}

void Table::remember(const std::string& key) {
  changes_.push_back({.apply = applies_, .revision = revision_, .key = key});
  if (changes_.size() <= remembered_) return;
  forgotten_apply_ = changes_.front().apply;
  forgotten_ = changes_.front().revision;
  if (orders_.by_root()) forgotten_in_[stores::order_of_key(changes_.front().key)] = forgotten_;
  changes_.pop_front();
}

}  // namespace tenure::memory
