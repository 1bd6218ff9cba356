// Any ticket of the space: reading it, whether it is alive, removing one that is not.
#include <algorithm>
#include <iterator>
#include <utility>

#include "space/stored/keys.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

std::optional<Seen> Tickets::resolve(const Entry& entry) const {
  Parsed parsed = parse_row(entry);
  const Token number = number_in(entry.key);
  Entry whole = entry;
  Revision at;
  if (parsed.pointer.has_value()) {
    Txn read;
    read.reads.push_back(Range::key(row_key(parsed.pointer->first, number)));
    read.reads.push_back(Range::key(entry.key));
    const Outcome outcome = store_->apply(read);
    const std::vector<Entry>& now = outcome.reads.back();
    if (now.empty() || now.front().changed != entry.changed) return std::nullopt;  // Look again.
    if (outcome.reads.front().empty()) refuse_row(entry, {.why = "its ticket is missing"});
    whole = outcome.reads.front().front();
    at = outcome.revision;
    parsed = parse_row(whole);
  }
  if (!parsed.row.has_value()) refuse_row(entry, {.why = "its ticket is missing"});
  if (!claims_key(*parsed.row, number, entry.key))
    refuse_row(entry, {.why = "its ticket has no such claim"});
  return Seen{.entry = std::move(whole), .row = *std::move(parsed.row), .number = number, .at = at};
}

std::optional<Seen> Tickets::find(Token number, const Path& path) const {
  for (;;) {
    Txn read;
    for (const std::string_view region : {exclusive_region, shared_region, group_region}) {
      read.reads.push_back(Range::prefix(here(region, path)));
      read.reads.push_back(Range::prefix(below(region, path)));
    }
    const Outcome outcome = store_->apply(read);
    const Entry* found = nullptr;
    for (const std::vector<Entry>& entries : outcome.reads) {
      for (const Entry& entry : entries) {
        if (number_in(entry.key) == number) found = &entry;
      }
    }
    if (found == nullptr) return std::nullopt;
    if (std::optional<Seen> seen = resolve(*found)) return seen;
  }
}

bool Tickets::alive(const Row& row) const {
  if (!row.anchored()) return store_->alive(row.session);
  return missing({row.anchor}).empty();
}

bool Tickets::overdue(const Row& row) const {
  return row.deadline.has_value() && store_->now() >= *row.deadline;
}

std::vector<Entry> Tickets::read_keys(const std::set<std::string>& keys) const {
  std::vector<Entry> found;
  for (auto next = keys.begin(); next != keys.end();) {
    Txn read;
    for (; next != keys.end() && read.reads.size() < max_operations; ++next) {
      read.reads.push_back(Range::key(*next));
    }
    Outcome outcome = store_->apply(read);
    for (std::vector<Entry>& entries : outcome.reads) {
      std::ranges::move(entries, std::back_inserter(found));
    }
  }
  return found;
}

std::set<std::string> Tickets::missing(const std::set<std::string>& keys) const {
  std::set<std::string> missing = keys;
  for (const Entry& entry : read_keys(keys)) missing.erase(entry.key);
  return missing;
}

bool Tickets::remove(const Seen& ticket, std::vector<Guard> also) const {
  Txn txn;
  txn.guards = std::move(also);
  txn.guards.push_back(Guard::unchanged(ticket.entry.key, ticket.entry.changed));
  add_removal(ticket.row, ticket.number, txn);
  return store_->apply(txn).committed;
}

bool Tickets::remove_dead(const Seen& ticket) const {
  if (!ticket.row.anchored()) return remove(ticket);
  return remove(ticket, {Guard::absent(ticket.row.anchor)});
}

bool Tickets::remove_unreadable(const Unreadable& found) const {
  bool removed = false;
  for (const Entry& entry : found.entries) {  // One by one: there may be more than a store takes.
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::remove(entry.key));
    removed = store_->apply(txn).committed || removed;
  }
  return removed;
}

}  // namespace tenure::stored
