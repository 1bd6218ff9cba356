// table.hpp: the entries of a memory store, and the effect of an apply. No clock, thread or lock:
// the same calls have the same outcomes.
//
// Invariants
//   1. revision() rises by one for each apply that commits writes.
//   2. changed_since() never returns false for a range that was changed.
//
// Thread safety: none; MemoryStore guards it with its mutex.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <ranges>
#include <string>
#include <vector>

#include "tenure/store.hpp"

namespace tenure::memory {

class Table {
 public:
  explicit Table(std::size_t remembered_changes) : remembered_(remembered_changes) {}

  Outcome apply(const Txn& txn);
  // Whether a key of the range was created, changed or removed after `after`. Also true if that is
  // too long ago to know.
  [[nodiscard]] bool changed_since(const Range& range, Revision after) const;
  [[nodiscard]] Revision revision() const noexcept { return revision_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Record {
    std::string value;
    Revision created;
    Revision changed;
  };
  using Entries = std::map<std::string, Record, std::less<>>;
  struct Change {
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

  std::size_t remembered_;
  Entries entries_;
  Revision revision_;
  std::deque<Change> changes_;  // The last changes, including removals, by revision.
  Revision forgotten_;          // The revision of the last change that was dropped from changes_.
};

}  // namespace tenure::memory
