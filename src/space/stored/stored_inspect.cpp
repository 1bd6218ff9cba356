// Other people's tickets: reading them, telling of them, removing those that are dead or overdue.
#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

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

// The ticket that a claim's entry belongs to. Nothing: it is gone. Throws StoreError for an entry
// whose ticket does not know of it: nobody could ever remove that.
std::optional<Seen> StoredSpace::resolve(const Entry& entry) {
  Parsed parsed = parse_row(entry);
  const Token number = number_in(entry.key);
  Entry whole = entry;
  if (parsed.pointer.has_value()) {
    Txn read;
    read.reads.push_back(Range::key(row_key(parsed.pointer->first, number)));
    read.reads.push_back(Range::key(entry.key));
    const Outcome outcome = store_->apply(read);
    const std::vector<Entry>& now = outcome.reads.back();
    if (now.empty() || now.front().changed != entry.changed) return std::nullopt;  // Look again.
    if (outcome.reads.front().empty()) refuse_row(entry, "its ticket is missing");
    whole = outcome.reads.front().front();
    parsed = parse_row(whole);
  }
  if (!parsed.row.has_value()) refuse_row(entry, "its ticket is missing");
  if (std::ranges::none_of(parsed.row->claims, [&](const Claim& claim) {
        return row_key(claim, number) == entry.key;
      })) {
    refuse_row(entry, "its ticket has no such claim");
  }
  return Seen{.entry = std::move(whole), .row = *std::move(parsed.row), .number = number};
}

// Guarded on the entry as it was seen: a renewal, or another who removed it first, wins.
bool StoredSpace::remove_ticket(const Seen& ticket) {
  Txn txn;
  txn.guards.push_back(Guard::unchanged(ticket.entry.key, ticket.entry.changed));
  for (const Claim& claim : ticket.row.claims) {
    txn.writes.push_back(Write::remove(row_key(claim, ticket.number)));
  }
  return store_->apply(txn).committed;
}

StoredSpace::Snapshot StoredSpace::snapshot() {
  Txn txn;
  txn.reads.push_back(Range::prefix(std::string{exclusive_class}));
  txn.reads.push_back(Range::prefix(std::string{group_tag}));
  txn.reads.push_back(Range::prefix(std::string{session_prefix}));
  Outcome outcome = store_->apply(txn);
  Snapshot all;
  for (const std::size_t i : {0U, 1U}) {
    for (Entry& entry : outcome.reads[i]) {
      Parsed parsed = parse_row(entry);
      if (!parsed.row.has_value()) continue;
      const Token number = number_in(entry.key);
      all.tickets.push_back(
          {.entry = std::move(entry), .row = *std::move(parsed.row), .number = number});
    }
  }
  std::ranges::sort(all.tickets, {}, &Seen::number);
  all.sessions = std::move(outcome.reads[2]);
  return all;
}

void StoredSpace::remove_dead(Snapshot& all) {
  std::map<std::string, bool> alive;
  const Instant now = store_->now();
  std::erase_if(all.tickets, [&](const Seen& ticket) {
    const auto [known, added] = alive.try_emplace(ticket.row.session);
    if (added) known->second = store_->alive(ticket.row.session);
    if (known->second && !(ticket.row.deadline.has_value() && now >= *ticket.row.deadline)) {
      return false;
    }
    return remove_ticket(ticket);
  });
}

std::vector<TicketInfo> StoredSpace::inspect(const Path& path) {
  check_open();
  Snapshot all = snapshot();
  remove_dead(all);
  std::map<std::string, SessionRow> sessions;
  for (const Entry& entry : all.sessions) {
    sessions.emplace(entry.key.substr(session_prefix.size()), parse_session(entry));
  }
  std::vector<Ticket> tickets;
  tickets.reserve(all.tickets.size());
  for (const Seen& seen : all.tickets) {
    tickets.push_back({.number = seen.number, .claims = seen.row.claims, .owner = seen.row.owner});
  }
  const std::vector<Standing> standing = standings(tickets);
  std::vector<TicketInfo> infos;
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    if (std::ranges::none_of(tickets[i].claims, [&path](const Claim& claim) {
          return claim.path.covers(path) || path.covers(claim.path);
        })) {
      continue;
    }
    const Row& row = all.tickets[i].row;
    TicketInfo& info = infos.emplace_back();
    info.ticket = tickets[i];
    info.granted = standing[i].blocked_by.empty();
    info.position = standing[i].position;
    info.blocked_by = standing[i].blocked_by;
    info.since = row.since;
    info.deadline = row.deadline;
    info.session = row.session;
    const SessionRow& session = sessions[row.session];
    info.host = session.host;
    info.pid = session.pid;
    info.label = row.label.empty() ? session.label : row.label;
  }
  return infos;
}

bool StoredSpace::evict(Token token, bool at_once) {
  check_open();
  for (;;) {
    const Snapshot all = snapshot();
    const auto found = std::ranges::find(all.tickets, token, &Seen::number);
    if (found == all.tickets.end() || (found->row.evicted && !at_once)) return false;
    std::vector<Ticket> earlier;
    for (const Seen& seen : all.tickets) {
      if (seen.number <= token) {
        earlier.push_back({.number = seen.number, .claims = seen.row.claims, .owner = {}});
      }
    }
    if (at_once || !granted(earlier.back(), earlier)) {
      if (remove_ticket(*found)) return true;
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
      if (ticket.row.session == id) remove_ticket(ticket);
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
