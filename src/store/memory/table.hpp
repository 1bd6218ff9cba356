// table.hpp: the entries of a memory store, and the effect of an apply. No clock, thread or lock:
// the same calls have the same outcomes.
//
// Invariants
//   1. applies() rises by one for each apply that commits writes.
//   2. changed_since() never returns false for a range that was changed.
//
// Thread safety: none; MemoryStore guards it with its mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <vector>

#include "store/memory/orders.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure::memory {

class Table {
 public:
  explicit Table(std::size_t remembered_changes, MemoryStore::Order order = MemoryStore::Order::one)
      : remembered_(remembered_changes), orders_(order) {}

  Outcome apply(const Txn& txn);
  // Whether a key of the range was created, changed or removed after `after`, and not by one of the
  // first `applies`. Also true if that is too long ago to know.
  [[nodiscard]] bool changed_since(const Range& range, Revision after,
                                   std::uint64_t applies = 0) const;
  [[nodiscard]] std::uint64_t applies() const noexcept { return applies_; }
  [[nodiscard]] Revision revision() const noexcept { return revision_; }  // The last one given.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Record {
    std::string value;
    Revision created;
    Revision changed;
  };
  using Entries = std::map<std::string, Record, std::less<>>;
  struct Change {
    std::uint64_t apply;
    Revision revision;
    std::string key;
  };
  using Span = std::ranges::subrange<Entries::const_iterator>;

  [[nodiscard]] bool holds(const Guard& guard) const;
  [[nodiscard]] Span span(const Range& range) const;
  [[nodiscard]] std::vector<Entry> read(const Range& range, Revision before) const;
  void write(const Write& write);
  void put(const std::string& key, const Write& write);
  void remove(const std::string& key);
  void remember(const std::string& key);
  [[nodiscard]] bool is_forgotten(const Range& range, Revision after) const;

  std::size_t remembered_;
  Orders orders_;
  Entries entries_;
  Revision revision_;  // Of the last apply that wrote something.
  std::uint64_t applies_ = 0;
  std::deque<Change> changes_;  // The last ones, removals too, in the order of applies.
  // Of the last change that was dropped from changes_: of all, and in each order by roots.
  std::uint64_t forgotten_apply_ = 0;
  Revision forgotten_;
  std::map<std::string, Revision> forgotten_in_;
};

}  // namespace tenure::memory
