// Other people's tickets: reading them, telling of them, removing those that are dead or overdue.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "space/stored/reachable.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
// Between telling the holder of an evicted hold and passing it on.
constexpr std::chrono::nanoseconds evict_margin = 1s;

}  // namespace

StoredSpace::Snapshot StoredSpace::snapshot() {
  Txn txn;
  txn.reads.push_back(rows_range());
  txn.reads.push_back(Range::prefix(std::string{session_prefix}));
  Outcome outcome = store_->apply(txn);
  Rows rows = read_rows(std::move(outcome.reads[0]));
  return {.tickets = std::move(rows.tickets),
          .unreadable = std::move(rows.unreadable),
          .sessions = std::move(outcome.reads[1])};
}

void StoredSpace::remove_overdue(Snapshot& all) {
  std::erase_if(all.tickets, [this](const Seen& ticket) {
    return tickets().overdue(ticket.row) && tickets().remove(ticket);
  });
}

void StoredSpace::remove_dead(Snapshot& all) {
  remove_overdue(all);
  std::set<std::string> anchors;
  std::map<std::string, bool> alive;  // Sessions.
  for (const Seen& ticket : all.tickets) {
    if (ticket.row.anchored()) {
      anchors.insert(ticket.row.anchor);
    } else if (const auto [known, added] = alive.try_emplace(ticket.row.session); added) {
      known->second = store_->alive(ticket.row.session);
    }
  }
  const std::set<std::string> gone = tickets().missing(anchors);
  std::erase_if(all.tickets, [&](const Seen& ticket) {
    const bool dead =
        ticket.row.anchored() ? gone.contains(ticket.row.anchor) : !alive.at(ticket.row.session);
    return dead && tickets().remove_dead(ticket);
  });
}

// All of a snapshot, and what the rule says of them.
std::vector<TicketInfo> StoredSpace::describe(const Snapshot& all) {
  std::map<std::string, SessionRow> sessions;
  for (const Entry& entry : all.sessions) {
    sessions.emplace(entry.key.substr(session_prefix.size()), parse_session(entry));
  }
  std::vector<TicketInfo> infos;
  for (const Seen& seen : all.tickets) {
    const Row& row = seen.row;
    TicketInfo& info = infos.emplace_back();
    info.ticket = {.number = seen.number, .claims = row.claims, .owner = row.owner};
    info.since = row.since;
    info.deadline = row.deadline;
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

std::vector<TicketInfo> StoredSpace::inspect(const Path& path) {
  const Stay stay{*this};
  check_open();
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

// What its tickets wait for, and what that waits for: the second tells whether the first holds.
std::vector<TicketInfo> StoredSpace::inspect_waits(const Owner& owner) {
  const Stay stay{*this};
  check_open();
  Reachable reachable{*store_};
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
  all.sessions = tickets().read_keys(sessions);
  std::vector<TicketInfo> infos = describe(all);
  std::set<Token> told{own.begin(), own.end()};
  for (const TicketInfo& info : infos) {
    if (info.ticket.owner == owner) told.insert(info.blocked_by.begin(), info.blocked_by.end());
  }
  std::erase_if(infos,
                [&told](const TicketInfo& info) { return !told.contains(info.ticket.number); });
  return infos;
}

// Earlier tickets that together keep it waiting, each as it was seen: while they stand, it is not
// granted and never was. Empty: it holds.
std::vector<Guard> StoredSpace::waits(const Snapshot& all, const Seen& ticket) {
  const Ticket own{.number = ticket.number, .claims = ticket.row.claims, .owner = {}};
  std::vector<Ticket> earlier;
  std::vector<Guard> guards;
  for (const Seen& seen : all.tickets) {
    if (seen.number >= ticket.number) continue;
    const Ticket one{.number = seen.number, .claims = seen.row.claims, .owner = {}};
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
bool StoredSpace::evict(Token token, bool at_once) {
  const Stay stay{*this};
  check_open();
  bool removed = false;
  for (;;) {
    const Snapshot all = snapshot();
    // Nobody can be told of the end of such a ticket, so there is nothing to wait for.
    const auto broken = std::ranges::find(all.unreadable, token, &Unreadable::number);
    if (broken != all.unreadable.end()) {
      if (broken->newer) refuse_row(broken->entries.front(), {.why = broken->why, .newer = true});
      if (tickets().remove_unreadable(*broken)) removed = true;
    }
    const auto found = std::ranges::find(all.tickets, token, &Seen::number);
    if (found == all.tickets.end()) return removed;
    if (tickets().overdue(found->row)) {
      if (tickets().remove(*found)) return removed;
      continue;
    }
    if (found->row.evicted && !at_once) return removed;
    // A waiter has no margin, so it must still be one when it is removed.
    const std::vector<Guard> waiting = at_once ? std::vector<Guard>{} : waits(all, *found);
    if (at_once || !waiting.empty()) {
      if (tickets().remove(*found, waiting)) return true;
      continue;
    }
    Row row = found->row;
    const Instant until = detail::saturating_add(store_->now(), evict_margin);
    row.deadline = std::min(row.deadline.value_or(until), until);
    row.evicted = true;
    Txn txn;
    txn.guards.push_back(Guard::unchanged(found->entry.key, found->entry.changed));
    txn.writes.push_back(Write::put(found->entry.key, row.text()));
    if (store_->apply(txn).committed) return true;
  }
}

void StoredSpace::sweep(std::span<const Entry> sessions) {
  if (sessions.empty()) return;
  const Snapshot all = snapshot();
  for (const Entry& session : sessions) {
    const std::string_view id = std::string_view{session.key}.substr(session_prefix.size());
    for (const Seen& ticket : all.tickets) {
      if (!ticket.row.anchored() && ticket.row.session == id) tickets().remove_dead(ticket);
    }
    Txn txn;
    txn.guards.push_back(Guard::unchanged(session.key, session.changed));
    txn.writes.push_back(Write::remove(session.key));
    store_->apply(txn);
  }
}

// Of what dead sessions left behind: all of it when the space is opened, and later what was
// noticed.
void StoredSpace::sweep_dead() noexcept {
  try {
    {
      const base::Mutex::Scoped lock{mutex_};
      if (swept_once_ && dead_.empty()) return;
      swept_once_ = true;
      dead_.clear();
    }
    Txn txn;
    txn.reads.push_back(Range::prefix(std::string{session_prefix}));
    Outcome outcome = store_->apply(txn);
    std::vector<Entry>& sessions = outcome.reads.front();
    std::erase_if(sessions, [this](const Entry& entry) {
      return store_->alive(std::string_view{entry.key}.substr(session_prefix.size()));
    });
    sweep(sessions);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // Nobody waits for it: whoever needs one of these out of the way does that itself.
  }
}

}  // namespace tenure::stored
