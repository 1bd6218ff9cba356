#include "space/limit_change.hpp"

#include <algorithm>
#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "tenure/error.hpp"

namespace tenure::space {
namespace {

// A member that waits is in every deadlock that a lower limit completes: only members wait for more
// tickets than before.
void refuse_deadlock(const LimitChange& change, std::span<const Ticket> tickets) {
  std::vector<Ticket> after{tickets.begin(), tickets.end()};
  for (const Ticket& ticket : change.changed) {
    *std::ranges::find(after, ticket.number, &Ticket::number) = ticket;
  }
  for (const Ticket& ticket : change.changed) {
    if (ticket.owner.anonymous()) continue;
    const std::vector<Wait> cycle = find_cycle(after, ticket.number);
    // Another thread may be about to refuse a deadlock that was there before.
    if (cycle.empty() || !find_cycle(tickets, ticket.number).empty()) continue;
    throw Deadlock("with that limit owners would wait for each other for ever: " +
                   describe_cycle(cycle, after) +
                   "; wait until one of them has finished, or choose a larger limit");
  }
}

}  // namespace

void check_limit(const Claim& limit) {
  if (limit.mode.limit() == 0) {
    throw BadRequest("set_limit() needs a group with a limit, as in path.permits(3), not '" +
                     limit.text() + "'");
  }
  if (limit.mode.weight() != 1) {
    throw BadRequest("set_limit() changes the limit of all tickets in the group: leave out take()");
  }
}

LimitChange plan_limit_change(const Claim& limit, std::span<const Ticket> tickets) {
  std::expected<LimitChange, std::string> change = change_limit(limit, tickets);
  if (!change.has_value()) throw LimitMismatch(change.error());
  refuse_deadlock(*change, tickets);
  return *std::move(change);
}

}  // namespace tenure::space
