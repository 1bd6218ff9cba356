// reachable.hpp: the tickets that a ticket may be deadlocked with: those it may wait for, those of
// their owners, those that these may wait for, and so on. The rest of the space is not read.
//
// Every ticket with an owner has an entry in the index of owners (keys.hpp), which is written and
// removed with the ticket. Conflicts are found by reading the ranges of a ConflictQuery whole.
//
// The reads are several applies, so the tickets found need not have existed at one moment. That is
// enough, since a deadlock does not dissolve by itself: a search that begins after its last append
// finds all of it. The caller guards the removal of its own ticket on the presence of the others.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "space/stored/row.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

class Reachable {
 public:
  explicit Reachable(Store& store) noexcept : store_(store) {}

  // The tickets of the owner and of its descendants.
  void add_family(const Owner& owner);
  // The tickets that these may wait for, and perhaps more.
  void add_conflicts(std::span<const Token> of);
  // Everything that decides whether this appended ticket waits for ever.
  void add_all_from(Token number, const Row& row);

  // The tickets of these entries of the index.
  void add_entries(std::span<const Entry> entries);
  // Removes entries of the index whose tickets are gone: programs without the index leave them.
  // True: some were removed.
  bool remove_dangling();

  [[nodiscard]] const std::map<Token, Seen>& tickets() const noexcept { return tickets_; }
  // Those of exactly this owner.
  [[nodiscard]] std::vector<Token> of(const Owner& owner) const;

 private:
  void read(std::vector<Range> ranges);
  void add(Entry entry, std::vector<Range>& missing);
  [[nodiscard]] std::vector<Token> blockers_of(std::span<const Token> tickets) const;
  [[nodiscard]] std::vector<Token> family_of(const Owner& owner) const;

  Store& store_;
  std::map<Token, Seen> tickets_;
  std::set<std::pair<std::string, std::string>> read_;  // Ranges: from, to.
  std::map<std::string, Entry> expected_;               // By ticket key: the index entry.
};

}  // namespace tenure::stored
