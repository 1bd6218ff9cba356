#include "space/stored/blockers.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "space/stored/keys.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

// How often to check whether a ticket is granted whose holder does not start its own max_hold.
constexpr std::chrono::nanoseconds slow_check = 1s;

}  // namespace

bool Blockers::clear_away(const ConflictQuery::Found& found, std::span<const Claim> claims,
                          Token number, std::vector<WatchFor>& otherwise) const {
  bool cleared = false;
  for (const Entry& blocker : found.blockers) {
    cleared = clear_away(blocker, otherwise) || cleared;
  }
  for (const Claim& claim : claims) {
    if (std::ranges::find(found.crowds, line_of(claim)) == found.crowds.end()) continue;
    cleared = clear_away_crowd(claim, number, otherwise) || cleared;
  }
  return cleared;
}

// The watch of an anchor key, or of the entry of another claim, begins at the revision at which
// that was read. The others begin where the conflicts were read; the caller sets that.
bool Blockers::clear_away(const Entry& blocker, std::vector<WatchFor>& otherwise) const {
  std::optional<Seen> seen = tickets_.resolve(blocker);
  if (!seen.has_value()) return true;
  const Row& row = seen->row;
  WatchFor anchor;
  if (row.anchored()) {
    Txn read;
    read.reads.push_back(Range::key(row.anchor));
    const Outcome outcome = store_.apply(read);
    if (outcome.reads.front().empty()) {
      tickets_.remove_dead(*seen);
      return true;
    }
    anchor.ranges = std::move(read.reads);
    anchor.after = outcome.revision;
  } else if (!store_.alive(row.session)) {
    tickets_.remove_dead(*seen);
    sweeper_.note_dead();
    return true;
  }
  WatchFor watch;
  watch.until = deadline_of(*seen);
  if (tickets_.overdue(row)) {
    tickets_.remove(*seen);
    return true;
  }
  watch.ranges.push_back(Range::key(blocker.key));
  if (seen->entry.key != blocker.key) {  // Perhaps of another root.
    watch.ranges.push_back(Range::key(seen->entry.key));
    watch.after = seen->at;
  }
  if (row.anchored()) {
    otherwise.push_back(std::move(watch));
    otherwise.push_back(std::move(anchor));
  } else {
    watch.session = row.session;
    otherwise.push_back(std::move(watch));
  }
  return false;
}

// Too many to watch one by one: watches the whole line, and each session and anchor key once.
bool Blockers::clear_away_crowd(const Claim& claim, Token number,
                                std::vector<WatchFor>& otherwise) const {
  Txn txn;
  Range members = Range::prefix(line_of(claim));
  members.to = members.from + stamp(Revision{number.value});
  txn.reads.push_back(members);
  const Outcome outcome = store_.apply(txn);
  std::map<std::string, WatchFor> lives;  // By session, or by anchor key.
  std::optional<Instant> until;
  for (const Entry& entry : outcome.reads.front()) {
    std::vector<WatchFor> watches;
    if (clear_away(entry, watches)) return true;
    const WatchFor& ticket = watches.front();
    if (ticket.until.has_value()) until = std::min(until.value_or(*ticket.until), *ticket.until);
    if (watches.size() > 1) {
      WatchFor& anchor = watches.back();
      lives.try_emplace(anchor.ranges.front().from, std::move(anchor));
    } else {
      lives[ticket.session].session = ticket.session;
    }
  }
  WatchFor all;
  all.ranges.push_back(std::move(members));
  all.until = until;
  otherwise.push_back(std::move(all));
  for (auto& [life, watch] : lives) otherwise.push_back(std::move(watch));
  return false;
}

// When to check the ticket again because of its deadline. A deadline begins at the grant. If the
// holder was stopped before it could write the deadline, a waiter writes it.
std::optional<Instant> Blockers::deadline_of(Seen& ticket) const {
  if (ticket.row.deadline.has_value() || ticket.row.max_hold.count() == 0) {
    return ticket.row.deadline;
  }
  const Tickets::View view = tickets_.look_back(ticket.row, ticket.number);
  if (view.found.free() && view.own.has_value()) {
    Revision written;
    tickets_.start_deadline(*view.own, ticket.row.deadline, written);
    if (ticket.row.deadline.has_value()) return ticket.row.deadline;
  }
  return detail::saturating_add(store_.now(), std::max(slow_check, ticket.row.max_hold / 2));
}

}  // namespace tenure::stored
