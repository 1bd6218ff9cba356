// reachable.hpp: the tickets that matter to one ticket: those it may wait for, those of their
// owners, those that these may wait for, and so on. What else is in the space is not read.
//
// Every ticket with an owner has an entry in the index of owners (keys.hpp), which is written and
// removed with the ticket. Conflicts are found by the ranges of a look, whole.
//
// The reads are several applies, so what is found was there, but not all of it at one moment. A
// deadlock stays as it is: whoever looks for one after its last ticket was appended finds all of
// it, and guards its own end on the presence of the others.
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
  // What these may wait for, and perhaps more.
  void add_conflicts(std::span<const Token> of);
  // All that matters to whether this ticket, which is there, waits for ever.
  void add_all_from(Token number, const Row& row);

  // The tickets of these entries of the index.
  void add_entries(std::span<const Entry> entries);
  // Entries of the index whose tickets are gone: programs that know no index left them. True: some
  // were removed.
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
  std::map<std::string, Entry> expected_;  // By the key of the ticket: its entry by owner.
};

}  // namespace tenure::stored
