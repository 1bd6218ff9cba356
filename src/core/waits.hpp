// waits.hpp: the rule on a subset of the tickets, for use inside core/. `alive(i)` says whether
// tickets[i] belongs to the subset.
//
// Every function scans the tickets and keeps no table of blockers: for a queue of n tickets such a
// table would have n * n / 2 entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tenure/rule.hpp"

namespace tenure {

// Whether `ticket` counts as a member of the limited group that `claim` asks for.
[[nodiscard]] inline bool fills(const Ticket& ticket, const Claim& claim) noexcept {
  return std::ranges::any_of(ticket.claims, [&claim](const Claim& other) {
    return other.path == claim.path && other.mode.same_group(claim.mode);
  });
}

// Whether enough tickets fill the limit of `claim`, a claim of `ticket`, to make the ticket wait.
template <class Alive>
[[nodiscard]] bool limit_reached(const Ticket& ticket, const Claim& claim,
                                 std::span<const Ticket> tickets, const Alive& alive) {
  const std::size_t limit = claim.mode.limit();
  if (limit == 0) return false;
  std::size_t members = 0;
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    if (tickets[i].number >= ticket.number || !alive(i) || !fills(tickets[i], claim)) continue;
    if (++members == limit) return true;
  }
  return false;
}

template <class Alive>
[[nodiscard]] bool waits(const Ticket& ticket, std::span<const Ticket> tickets,
                         const Alive& alive) {
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Ticket& other = tickets[i];
    if (other.number < ticket.number && alive(i) && conflict(ticket.claims, other.claims)) {
      return true;
    }
  }
  return std::ranges::any_of(ticket.claims, [&](const Claim& claim) {
    return limit_reached(ticket, claim, tickets, alive);
  });
}

// The indices of the tickets that `ticket` waits for.
template <class Alive>
[[nodiscard]] std::vector<std::size_t> waits_for(const Ticket& ticket,
                                                 std::span<const Ticket> tickets,
                                                 const Alive& alive) {
  std::vector<const Claim*> full;
  for (const Claim& claim : ticket.claims) {
    if (limit_reached(ticket, claim, tickets, alive)) full.push_back(&claim);
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Ticket& other = tickets[i];
    if (other.number >= ticket.number || !alive(i)) continue;
    const auto other_fills = [&other](const Claim* claim) { return fills(other, *claim); };
    if (conflict(ticket.claims, other.claims) || std::ranges::any_of(full, other_fills)) {
      found.push_back(i);
    }
  }
  return found;
}

}  // namespace tenure
