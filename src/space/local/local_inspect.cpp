// Inspection of a local space: the rule, applied to a snapshot.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "space/local/local_space.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::local {

Claim LocalSpace::claim_of(const Entry& entry) {
  Path path;
  for (const std::string_view segment : Path::Segments{entry.node->key()}) path.append(segment);
  if (entry.group->kind == Mode::Kind::exclusive) return path.exclusive();
  const std::string_view group =
      entry.group->kind == Mode::Kind::shared ? "shared" : entry.group->name;
  return entry.limit == 0 ? path.group(group) : path.group(group, entry.limit).take(entry.weight);
}

std::vector<Claim> LocalSpace::claims_of(const Entry& ticket) {
  std::vector<Claim> claims;
  for (const Entry* e = &ticket; e != nullptr; e = e->next_claim) claims.push_back(claim_of(*e));
  return claims;
}

std::uint64_t LocalSpace::kept_of(const Entry& ticket) {
  std::uint64_t kept = 0;
  std::uint64_t bit = 1;
  for (const Entry* e = &ticket; e != nullptr; e = e->next_claim, bit <<= 1U) {
    if (e->kept) kept |= bit;
  }
  return kept;
}

LocalSpace::Snapshot LocalSpace::snapshot() {
  Snapshot all;
  table_.for_each_ticket([&](Entry& ticket) {
    all.tickets.push_back({.number = Token{ticket.number},
                           .claims = claims_of(ticket),
                           .owner = ticket.owner == nullptr ? Owner{} : ticket.owner->owner,
                           .kept = kept_of(ticket),
                           .replaces = Token{ticket.replaces}});
    all.entries.push_back(&ticket);
  });
  return all;
}

Entry* LocalSpace::find_ticket(Token token) {
  Entry* found = nullptr;
  table_.for_each_ticket([&](Entry& ticket) {
    if (ticket.number == token.value) found = &ticket;
  });
  return found;
}

std::vector<TicketInfo> LocalSpace::inspect(const Path& path) {
  check_process();
  std::vector<TicketInfo> infos;
  Snapshot all;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    all = snapshot();
    for (const Entry* entry : all.entries) {
      TicketInfo& info = infos.emplace_back();
      const std::chrono::nanoseconds since{entry->since.load(std::memory_order_relaxed)};
      if (since.count() != 0) info.since = Instant{since};
      if (entry->timed) info.deadline = deadlines_.at(entry->number);
      if (entry->owner != nullptr) info.label = entry->owner->terms.label;
      info.asked_to_leave = entry->signals != nullptr && entry->signals->is_asked;
    }
  }
  std::vector<QueuePosition> positions = queue_positions(all.tickets);
  for (std::size_t i = 0; i < infos.size(); ++i) {
    infos[i].ticket = all.tickets[i];
    infos[i].granted = positions[i].blocked_by.empty();
    infos[i].position = positions[i].position;
    infos[i].blocked_by = std::move(positions[i].blocked_by);
  }
  std::erase_if(infos, [&](const TicketInfo& info) {
    return std::ranges::none_of(info.ticket.claims, [&](const Claim& claim) {
      return claim.path.covers(path) || path.covers(claim.path);
    });
  });
  std::ranges::sort(infos, {}, [](const TicketInfo& info) { return info.ticket.number; });
  return infos;
}

// A deadlock can only arise when a ticket is appended, so the thread that appended it searches. If
// two threads of a cycle search, the first one gives up its ticket, and the other finds no cycle.
void LocalSpace::refuse_deadlock(std::uint64_t number) {
  for (;;) {
    table_.lock(all_shards);
    Aftermath after;
    std::string message;
    bool moving = false;
    {
      const LockTable::Unlock guard{table_, all_shards};
      table_.thicken(all_shards);
      const Snapshot all = snapshot();
      const auto own =
          std::ranges::find(all.entries, number, [](const Entry* e) { return e->number; });
      if (own == all.entries.end()) return;
      Entry& ticket = **own;
      if (ticket.state.load(std::memory_order_relaxed) != State::waiting) return;
      moving = ticket.phase.load(std::memory_order_relaxed) == Phase::advancing;
      if (!moving) {
        const std::vector<Wait> cycle = find_cycle(all.tickets, Token{number});
        if (cycle.empty()) return;
        if (!ticket.waiter->decide()) return;
        message = "deadlock: " + describe_cycle(cycle, all.tickets) +
                  "; release the held lock first, or claim both paths in one request";
        LockTable::dequeue(ticket);
        remove(ticket, all_shards, after);
      }
    }
    if (!moving) {
      if (!after.empty()) finish(after);
      throw Deadlock(message);
    }
    std::this_thread::yield();
  }
}

}  // namespace tenure::local
