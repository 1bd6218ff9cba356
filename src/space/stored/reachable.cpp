#include "space/stored/reachable.hpp"

#include <algorithm>
#include <expected>
#include <iterator>
#include <optional>

#include "space/stored/conflict_query.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/rows.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

Ticket ticket_of(const Seen& seen) { return seen.row.ticket(seen.number); }

}  // namespace

// Skips entries that cannot be read: nothing shows that they are part of a deadlock.
void Reachable::add(Entry entry, std::vector<Range>& missing) {
  const Token number = number_in(entry.key);
  if (tickets_.contains(number)) return;
  if (entry.key.starts_with(reserved::owner_tickets)) {
    try {
      std::string key = row_key(first_claim_in(entry), number);
      missing.push_back(Range::key(key));
      expected_.emplace(std::move(key), std::move(entry));
    } catch (const StoreError&) {  // NOLINT(bugprone-empty-catch)
      // Somebody else wrote it.
    }
    return;
  }
  expected_.erase(entry.key);
  std::expected<Parsed, RowFault> parsed = read_row(entry);
  if (!parsed.has_value()) return;
  // NOLINTBEGIN(bugprone-unchecked-optional-access): each is asked right before.
  if (parsed->pointer.has_value()) {
    missing.push_back(Range::key(row_key(parsed->pointer->first, number)));
  } else if (parsed->row.has_value() && claims_key(*parsed->row, number, entry.key)) {
    tickets_.emplace(
        number, Seen{.entry = std::move(entry), .row = *std::move(parsed->row), .number = number});
  }
  // NOLINTEND(bugprone-unchecked-optional-access)
}

void Reachable::read(std::vector<Range> ranges) {
  while (!ranges.empty()) {
    std::erase_if(
        ranges, [this](const Range& range) { return !read_.emplace(range.from, range.to).second; });
    std::vector<Range> missing;  // The whole tickets of what was found.
    for (std::size_t next = 0; next < ranges.size(); next += max_operations) {
      Txn txn;
      const auto from = ranges.begin() + static_cast<std::ptrdiff_t>(next);
      const std::size_t count = std::min(max_operations, ranges.size() - next);
      std::move(from, from + static_cast<std::ptrdiff_t>(count), std::back_inserter(txn.reads));
      Outcome outcome = store_.apply(txn);
      for (std::vector<Entry>& entries : outcome.reads) {
        for (Entry& entry : entries) add(std::move(entry), missing);
      }
    }
    ranges = std::move(missing);
  }
}

void Reachable::add_entries(std::span<const Entry> entries) {
  std::vector<Range> missing;
  for (const Entry& entry : entries) add(entry, missing);
  read(std::move(missing));
}

bool Reachable::remove_dangling() {
  bool removed = false;
  for (const auto& [key, entry] : expected_) {
    Txn txn;
    txn.guards.push_back(Guard::absent(key));
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::remove(entry.key));
    removed = store_.apply(txn).committed || removed;
  }
  expected_.clear();
  return removed;
}

void Reachable::add_family(const Owner& owner) {
  read({Range::prefix(owner_line(owner)), Range::prefix(below_owner(owner))});
}

void Reachable::add_conflicts(std::span<const Token> of) {
  const EmptyPrefixes none;
  std::vector<Range> ranges;
  for (const Token number : of) {
    const auto at = tickets_.find(number);
    if (at == tickets_.end()) continue;
    const ConflictQuery query{at->second.row.claims,
                              {.shared = true, .groups = true},
                              this_apply,
                              none,
                              ConflictQuery::Extent::all};
    for (Range range : query.ranges()) {
      range.limit = 0;
      range.skip = 0;
      range.reverse = false;
      range.before = {};
      ranges.push_back(std::move(range));
    }
  }
  read(std::move(ranges));
}

std::vector<Token> Reachable::of(const Owner& owner) const {
  std::vector<Token> found;
  for (const auto& [number, seen] : tickets_) {
    if (seen.row.owner == owner) found.push_back(number);
  }
  return found;
}

std::vector<Token> Reachable::blockers_of(std::span<const Token> tickets) const {
  std::vector<Ticket> all;
  all.reserve(tickets_.size());
  for (const auto& [number, seen] : tickets_) all.push_back(ticket_of(seen));
  std::set<Token> found;
  for (const Token number : tickets) {
    const auto at = tickets_.find(number);
    if (at == tickets_.end()) continue;
    for (const Token blocker : blockers(ticket_of(at->second), all)) found.insert(blocker);
  }
  return {found.begin(), found.end()};
}

std::vector<Token> Reachable::family_of(const Owner& owner) const {
  std::vector<Token> found;
  for (const auto& [number, seen] : tickets_) {
    if (seen.row.owner.within(owner)) found.push_back(number);
  }
  return found;
}

void Reachable::add_all_from(Token number, const Row& row) {
  read({Range::key(row_key(row.claims.front(), number))});
  std::set<Token> done;
  std::vector<Token> next{number};
  while (!next.empty()) {
    done.insert(next.begin(), next.end());
    add_conflicts(next);
    const std::vector<Token> blocking = blockers_of(next);
    std::vector<Range> families;
    for (const Token blocker : blocking) {
      const Owner& owner = tickets_.at(blocker).row.owner;
      if (owner.anonymous()) continue;
      families.push_back(Range::prefix(owner_line(owner)));
      families.push_back(Range::prefix(below_owner(owner)));
    }
    read(std::move(families));
    std::set<Token> found;
    for (const Token blocker : blocking) {
      const Owner owner = tickets_.at(blocker).row.owner;
      if (owner.anonymous()) {
        found.insert(blocker);
      } else {
        for (const Token one : family_of(owner)) found.insert(one);
      }
    }
    next.clear();
    std::ranges::set_difference(found, done, std::back_inserter(next));
  }
}

}  // namespace tenure::stored
