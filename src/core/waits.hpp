// waits.hpp: the rule on a subset of the tickets, for use inside core/. `alive(i)` says whether
// tickets[i] belongs to the subset.
//
// Every function scans the tickets and keeps no table of blockers: for a queue of n tickets such a
// table would have n * n / 2 entries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenure/rule.hpp"

namespace tenure {

// Whether `ticket` may have to wait for `other`.
[[nodiscard]] inline bool is_before(const Ticket& other, const Ticket& ticket) noexcept {
  return other.number < ticket.number && other.number != ticket.replaces;
}

// The claim of `ticket` in the group that `claim` asks for, on the same path; null: it is no
// member.
[[nodiscard]] inline const Claim* member_claim(const Ticket& ticket, const Claim& claim) noexcept {
  for (const Claim& other : ticket.claims) {
    if (other.path == claim.path && other.mode.same_group(claim.mode)) return &other;
  }
  return nullptr;
}

// How much `ticket` takes of the limited group that `claim` asks for; 0: it is no member.
[[nodiscard]] inline std::uint32_t weight_in(const Ticket& ticket, const Claim& claim) noexcept {
  const Claim* const member = member_claim(ticket, claim);
  return member == nullptr ? 0 : member->mode.weight();
}

// Whether tickets leave too little of the limit of `claim`, a claim of `ticket`.
template <class Alive>
[[nodiscard]] bool limit_reached(const Ticket& ticket, const Claim& claim,
                                 std::span<const Ticket> tickets, const Alive& alive) {
  const std::uint64_t limit = claim.mode.limit();
  if (limit == 0) return false;
  if (ticket.kept != 0 && ticket.keeps(static_cast<std::size_t>(&claim - ticket.claims.data()))) {
    return false;
  }
  std::uint64_t taken = claim.mode.weight();
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    if (!is_before(tickets[i], ticket) || !alive(i)) continue;
    taken += weight_in(tickets[i], claim);
    if (taken > limit) return true;
  }
  return false;
}

template <class Alive>
[[nodiscard]] bool waits(const Ticket& ticket, std::span<const Ticket> tickets,
                         const Alive& alive) {
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    const Ticket& other = tickets[i];
    if (is_before(other, ticket) && alive(i) && conflict(ticket.claims, other.claims)) {
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
    if (!is_before(other, ticket) || !alive(i)) continue;
    const auto member_of = [&other](const Claim* claim) { return weight_in(other, *claim) != 0; };
    if (conflict(ticket.claims, other.claims) || std::ranges::any_of(full, member_of)) {
      found.push_back(i);
    }
  }
  return found;
}

}  // namespace tenure
