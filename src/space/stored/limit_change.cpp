// How the limit of a group is changed: one transaction writes all its live tickets.
//
// It is guarded on everything that the rule judged by: each ticket of the group as it was read, no
// new one beside them, and of those that wait, the tickets that keep them waiting. So no append
// with the old limit, and no grant under it, can get in between. etcd takes only so many tickets in
// one transaction (--max-txn-ops), and says so.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "space/limit_change.hpp"
#include "space/stored/inspection.hpp"
#include "space/stored/keys.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

bool is_member(const Claim& claim, const Claim& limit) {
  return claim.path == limit.path && claim.mode.same_group(limit.mode);
}

// An entry that can't be read may be a holder that takes any share of the limit.
void refuse_unreadable(const std::vector<Unreadable>& all, const Claim& limit) {
  for (const Unreadable& found : all) {
    if (std::ranges::none_of(found.claims,
                             [&](const Claim& claim) { return is_member(claim, limit); })) {
      continue;
    }
    refuse_row(found.entries.front(), {.why = found.why, .newer = found.newer});
  }
}

std::uint32_t limit_of(const Ticket& ticket, const Claim& limit) {
  const auto member = [&limit](const Claim& claim) { return is_member(claim, limit); };
  return std::ranges::find_if(ticket.claims, member)->mode.limit();
}

// Whether this change, with what others append meanwhile, could complete a deadlock.
bool may_deadlock(const LimitChange& change, const Claim& limit, std::span<const Ticket> before) {
  return std::ranges::any_of(change.changed, [&](const Ticket& ticket) {
    const Ticket& was = *std::ranges::find(before, ticket.number, &Ticket::number);
    return !ticket.owner.anonymous() && limit_of(ticket, limit) < limit_of(was, limit) &&
           !granted(ticket, before);
  });
}

}  // namespace

std::vector<Ticket> Inspection::tickets_of(const Snapshot& all) {
  std::vector<Ticket> tickets;
  tickets.reserve(all.tickets.size());
  for (const Seen& seen : all.tickets) tickets.push_back(seen.row.ticket(seen.number));
  return tickets;
}

Inspection::Snapshot Inspection::snapshot_for(const Claim& limit) const {
  Txn also;
  also.reads.push_back(Range::prefix(line_of(limit)));
  // Always true. It makes the store answer with a revision that covers all roots.
  also.guards.push_back(Guard::quiet(rows_range(), this_apply));
  return snapshot(std::move(also));
}

Txn Inspection::limit_change(const Snapshot& all, const Claim& limit, const LimitChange& change) {
  const std::vector<Ticket> before = tickets_of(all);
  Txn txn;
  txn.guards.push_back(Guard::quiet(
      may_deadlock(change, limit, before) ? rows_range() : Range::prefix(line_of(limit)), all.at));
  for (const Ticket& ticket : change.changed) {
    const Seen& seen = *std::ranges::find(all.tickets, ticket.number, &Seen::number);
    Row row = seen.row;
    row.claims = ticket.claims;
    row.kept = ticket.kept;
    txn.guards.push_back(Guard::unchanged(seen.entry.key, seen.entry.changed));
    txn.writes.push_back(Write::put(seen.entry.key, row.text()));
    const auto claim = std::ranges::find_if(
        ticket.claims, [&limit](const Claim& one) { return is_member(one, limit); });
    // A request that agrees with this member is guarded on the entry in the line of the group.
    const std::string key = row_key(*claim, seen.number);
    if (key != seen.entry.key) {
      const auto index = static_cast<std::size_t>(claim - ticket.claims.begin());
      txn.guards.push_back(Guard::present(key));
      txn.writes.push_back(Write::put(key, claim_text(row, index)));
    }
    // Of the others, a grant that the snapshot has missed would not be kept.
    if (!granted(ticket, before) && !granted(seen.row.ticket(seen.number), before)) {
      std::ranges::move(waits(all, seen), std::back_inserter(txn.guards));
    }
  }
  return txn;
}

std::size_t Inspection::set_limit(const Claim& limit) const {
  for (;;) {
    Snapshot all = snapshot_for(limit);
    remove_dead(all);
    refuse_unreadable(all.unreadable, limit);
    const LimitChange change = space::plan_limit_change(limit, tickets_of(all));
    if (change.changed.empty()) return change.members;
    if (store_.apply(limit_change(all, limit, change)).committed) return change.members;
  }
}

}  // namespace tenure::stored
