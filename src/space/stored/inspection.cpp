#include "space/stored/inspection.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "space/stored/keys.hpp"
#include "space/stored/reachable.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
// Between lost() of an evicted hold and the next grant.
constexpr std::chrono::nanoseconds evict_margin = 1s;

}  // namespace

Inspection::Snapshot Inspection::snapshot(Txn also) const {
  Txn txn = std::move(also);
  txn.reads.insert(txn.reads.begin(), {rows_range(), Range::prefix(std::string{session_prefix})});
  Outcome outcome = store_.apply(txn);
  Rows rows = read_rows(std::move(outcome.reads[0]));
  return {.tickets = std::move(rows.tickets),
          .unreadable = std::move(rows.unreadable),
          .sessions = std::move(outcome.reads[1]),
          .at = outcome.revision};
}

void Inspection::remove_dead(Snapshot& all) const {
  std::erase_if(all.tickets, [this](const Seen& ticket) {
    return tickets_.overdue(ticket.row) && tickets_.remove(ticket);
  });
  std::set<std::string> anchors;
  std::map<std::string, bool> alive;  // Sessions.
  for (const Seen& ticket : all.tickets) {
    if (ticket.row.anchored()) {
      anchors.insert(ticket.row.anchor);
    } else if (const auto [known, added] = alive.try_emplace(ticket.row.session); added) {
      known->second = store_.alive(ticket.row.session);
    }
  }
  const std::set<std::string> gone = tickets_.missing(anchors);
  std::erase_if(all.tickets, [&](const Seen& ticket) {
    const bool dead =
        ticket.row.anchored() ? gone.contains(ticket.row.anchor) : !alive.at(ticket.row.session);
    return dead && tickets_.remove_dead(ticket);
  });
}

// The tickets of a snapshot, with what the rule says of them.
std::vector<TicketInfo> Inspection::describe(const Snapshot& all) {
  std::map<std::string, SessionRow> sessions;
  for (const Entry& entry : all.sessions) {
    sessions.emplace(entry.key.substr(session_prefix.size()), parse_session(entry));
  }
  std::vector<TicketInfo> infos;
  for (const Seen& seen : all.tickets) {
    const Row& row = seen.row;
    TicketInfo& info = infos.emplace_back();
    info.ticket = row.ticket(seen.number);
    info.since = row.since;
    info.deadline = row.deadline;
    info.asked_to_leave = row.asked;
    info.session = row.session;
    info.anchor = row.anchor;
    const SessionRow& session = sessions[row.session];
    info.host = session.host;
    info.pid = session.pid;
    info.label = row.label.empty() ? session.label : row.label;
  }
  for (const Unreadable& found : all.unreadable) {
    TicketInfo& info = infos.emplace_back();
    info.ticket = {.number = found.number, .claims = found.claims, .owner = {}};
    info.fault = found.why;
  }
  std::ranges::sort(infos, {}, [](const TicketInfo& info) { return info.ticket.number; });
  std::vector<Ticket> tickets;
  tickets.reserve(infos.size());
  for (const TicketInfo& info : infos) tickets.push_back(info.ticket);
  const std::vector<QueuePosition> positions = queue_positions(tickets);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    infos[i].granted = positions[i].blocked_by.empty();
    infos[i].position = positions[i].position;
    infos[i].blocked_by = positions[i].blocked_by;
  }
  return infos;
}

std::vector<TicketInfo> Inspection::inspect(const Path& path) const {
  Snapshot all = snapshot();
  remove_dead(all);
  std::vector<TicketInfo> infos = describe(all);
  std::erase_if(infos, [&path](const TicketInfo& info) {
    return std::ranges::none_of(info.ticket.claims, [&path](const Claim& claim) {
      return claim.path.covers(path) || path.covers(claim.path);
    });
  });
  return infos;
}

// Reads the blockers of its tickets, and the blockers of those: they tell which of the first hold.
std::vector<TicketInfo> Inspection::inspect_waits(const Owner& owner) const {
  Reachable reachable{store_};
  reachable.add_family(owner);
  const std::vector<Token> own = reachable.of(owner);
  reachable.add_conflicts(own);
  std::vector<Token> found;
  for (const auto& [number, seen] : reachable.tickets()) found.push_back(number);
  reachable.add_conflicts(found);
  Snapshot all;
  std::set<std::string> sessions;
  for (const auto& [number, seen] : reachable.tickets()) {
    all.tickets.push_back(seen);
    sessions.insert(std::string{session_prefix} + seen.row.session);
  }
  remove_dead(all);
  all.sessions = tickets_.read_keys(sessions);
  std::vector<TicketInfo> infos = describe(all);
  std::set<Token> told{own.begin(), own.end()};
  for (const TicketInfo& info : infos) {
    if (info.ticket.owner == owner) told.insert(info.blocked_by.begin(), info.blocked_by.end());
  }
  std::erase_if(infos,
                [&told](const TicketInfo& info) { return !told.contains(info.ticket.number); });
  return infos;
}

// Guards on earlier tickets that together block it, each as it was read: while they stand, it is
// not granted and never was. Empty: it holds.
std::vector<Guard> Inspection::waits(const Snapshot& all, const Seen& ticket) {
  const Ticket own = ticket.row.ticket(ticket.number);
  std::vector<Ticket> earlier;
  std::vector<Guard> guards;
  for (const Seen& seen : all.tickets) {
    if (seen.number >= ticket.number || seen.number == ticket.row.replaces) continue;
    const Ticket one = seen.row.ticket(seen.number);
    const Guard stands = Guard::unchanged(seen.entry.key, seen.entry.changed);
    if (conflict(own.claims, one.claims)) return {stands};
    earlier.push_back(one);
  }
  // No conflict: a limit is reached, or it holds.
  for (const Token blocker : blockers(own, earlier)) {
    const Seen& seen = *std::ranges::find(all.tickets, blocker, &Seen::number);
    guards.push_back(Guard::unchanged(seen.entry.key, seen.entry.changed));
  }
  return guards;
}

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one loop over what may be found.
bool Inspection::evict(Token token, bool at_once) const {
  bool removed = false;
  for (;;) {
    const Snapshot all = snapshot();
    // Such a ticket has no holder that could be notified, so it is removed at once.
    const auto broken = std::ranges::find(all.unreadable, token, &Unreadable::number);
    if (broken != all.unreadable.end()) {
      if (broken->newer) refuse_row(broken->entries.front(), {.why = broken->why, .newer = true});
      if (tickets_.remove_unreadable(*broken)) removed = true;
    }
    const auto found = std::ranges::find(all.tickets, token, &Seen::number);
    if (found == all.tickets.end()) return removed;
    if (tickets_.overdue(found->row)) {
      if (tickets_.remove(*found)) return removed;
      continue;
    }
    if (found->row.evicted && !at_once) return removed;
    Txn txn;
    add_eviction(all, *found, at_once, txn);
    if (store_.apply(txn).committed) return true;
  }
}

// A waiter gets no margin, so its removal is guarded on it still waiting.
void Inspection::add_eviction(const Snapshot& all, const Seen& ticket, bool at_once,
                              Txn& txn) const {
  txn.guards.push_back(Guard::unchanged(ticket.entry.key, ticket.entry.changed));
  std::vector<Guard> waiting = at_once ? std::vector<Guard>{} : waits(all, ticket);
  if (at_once || !waiting.empty()) {
    std::ranges::move(waiting, std::back_inserter(txn.guards));
    Tickets::add_removal(ticket.row, ticket.number, txn);
    return;
  }
  Row row = ticket.row;
  const Instant until = detail::saturating_add(store_.now(), evict_margin);
  row.deadline = std::min(row.deadline.value_or(until), until);
  row.evicted = true;
  txn.writes.push_back(Write::put(ticket.entry.key, row.text()));
}

// From the latest ticket to the earliest, in as few transactions as the store takes: a ticket that
// is still to be evicted is not granted, since none before it has gone.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): one loop over what may be found.
std::size_t Inspection::evict_below(const Path& path, bool at_once) const {
  const auto is_below = [&path](const std::vector<Claim>& claims) {
    return std::ranges::any_of(claims,
                               [&path](const Claim& claim) { return path.covers(claim.path); });
  };
  std::size_t evicted = 0;
  for (;;) {
    const Snapshot all = snapshot();
    for (const Unreadable& broken : all.unreadable) {
      if (!broken.newer && is_below(broken.claims) && tickets_.remove_unreadable(broken)) ++evicted;
    }
    std::vector<const Seen*> left;
    for (const Seen& ticket : all.tickets) {
      if (is_below(ticket.row.claims) && (at_once || !ticket.row.evicted)) left.push_back(&ticket);
    }
    bool changed = false;
    while (!left.empty() && !changed) {
      Txn txn;
      std::size_t taken = 0;
      while (!left.empty()) {
        Txn with = txn;
        add_eviction(all, *left.back(), at_once, with);
        const bool fits =
            with.guards.size() <= max_operations / 2 && with.writes.size() <= max_operations / 2;
        if (!fits && taken > 0) break;
        txn = std::move(with);
        left.pop_back();
        ++taken;
      }
      if (store_.apply(txn).committed) {
        evicted += taken;
      } else {
        changed = true;  // Look again.
      }
    }
    if (!changed) return evicted;
  }
}

bool Inspection::ask_to_leave(Token token) const {
  for (;;) {
    const Snapshot all = snapshot();
    const auto found = std::ranges::find(all.tickets, token, &Seen::number);
    if (found == all.tickets.end() || tickets_.overdue(found->row)) return false;
    if (found->row.asked) return true;
    Row row = found->row;
    row.asked = true;
    Txn txn;
    txn.guards.push_back(Guard::unchanged(found->entry.key, found->entry.changed));
    txn.writes.push_back(Write::put(found->entry.key, row.text()));
    if (store_.apply(txn).committed) return true;
  }
}

}  // namespace tenure::stored
