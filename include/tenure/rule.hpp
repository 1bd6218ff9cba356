// rule.hpp: the one rule, as pure functions on tickets. Every space obeys it; inspection is the
// rule, run on a snapshot.
//
//     A ticket is granted when no earlier live ticket conflicts with it.
//
// Two claims conflict when one's path covers the other's and their modes exclude each other. A
// claim with a limit N also waits while at least N earlier live tickets, waiting ones included,
// claim the same path in its group.
//
// Invariants, for any set of live tickets that only grows by larger numbers
//   1. Two conflicting tickets are never both granted.
//   2. A granted ticket stays granted: the earlier ones can only become fewer.
//   3. Waits go from a later ticket to an earlier one, so single requests can't deadlock.
//   4. The earliest ticket is granted, so somebody always goes on.
//
// In all functions `tickets` are the live ones, in any order, with distinct numbers; it may or may
// not contain `ticket` itself, which never blocks itself. No clock, thread or I/O.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenure/ticket.hpp"

namespace tenure {

[[nodiscard]] bool conflict(const Claim& a, const Claim& b) noexcept;
// Of two requests: whether any two of their claims conflict. Limits are not looked at.
[[nodiscard]] bool conflict(std::span<const Claim> a, std::span<const Claim> b) noexcept;

// The earlier tickets that `ticket` waits for, earliest first: those that conflict with it and, for
// each claim whose limit is reached, those earlier ones that fill it. Empty: granted.
[[nodiscard]] std::vector<Token> blockers(const Ticket& ticket, std::span<const Ticket> tickets);
[[nodiscard]] bool granted(const Ticket& ticket, std::span<const Ticket> tickets);

// 0 when granted; otherwise 1 + the number of its blockers that wait themselves. 1: next in line.
[[nodiscard]] std::size_t position(const Ticket& ticket, std::span<const Ticket> tickets);

// What holds for each of `tickets`: blockers() and position() of all, at the cost of what is found
// instead of a pass over all tickets for each. They may be in any order.
struct QueuePosition {
  std::size_t position = 0;
  std::vector<Token> blocked_by;
};
[[nodiscard]] std::vector<QueuePosition> queue_positions(std::span<const Ticket> tickets);

// A live ticket that disagrees with `claims` about a limit: it has the same path and group, and
// another limit (or none).
struct LimitClash {
  Claim asked;
  Claim live;
  Token number;  // Of the live ticket.
  Owner owner;   // Of the live ticket.
};
[[nodiscard]] std::optional<LimitClash> find_limit_clash(std::span<const Claim> claims,
                                                         std::span<const Ticket> tickets);

// What is wrong with a request on its own (no claims, too many, the same path twice), or nothing.
inline constexpr std::size_t max_claims = 64;
[[nodiscard]] std::optional<std::string> find_fault(std::span<const Claim> claims);

// Whether a holder of `held` may turn it into `wanted` and keep its number: every wanted claim is
// covered by a held one and is that claim, or it with exclusive turned into a group, or it narrowed
// to a deeper path where the held one has no limit; and `wanted` has no fault of its own. Returns
// what is wrong, or nothing. The caller also asks find_limit_clash about `wanted` and the other
// live tickets: a narrowed claim can meet a limit that the held one did not.
[[nodiscard]] std::optional<std::string> find_downgrade_fault(std::span<const Claim> held,
                                                              std::span<const Claim> wanted);

// A deadlock is what remains when every owner that does not wait is let finish, again and again.
// (With limits, a circle of waits alone is not one: another holder may make room.) An owner waits
// while a ticket of its own or of a descendant waits; one that finishes gives back all of its own.
//
// Returns one circle of what remains, a short one, or nothing when nothing remains. In it each
// ticket waits for one whose owner, or a descendant of that owner, waits with the next ticket; the
// last closes the circle.
//
// With `start`: only a circle that `start` is in, and it comes first. That is enough at an append:
// where nothing was stuck before, whatever is stuck now is stuck through the new ticket. It looks
// only at what can be reached from `start`. Without: at everything; the youngest comes first.
struct Wait {
  Token waiting;  // This ticket waits …
  Token blocker;  // … for this one, whose owner (or a descendant) waits with the next `waiting`.
  friend bool operator==(const Wait&, const Wait&) = default;
};
[[nodiscard]] std::vector<Wait> find_cycle(std::span<const Ticket> tickets,
                                           std::optional<Token> start = std::nullopt);

// For messages: "a (book/2, ticket 4) waits for b (book/2, ticket 2), b (book/1, ticket 3) waits
// for a (book/1, ticket 1)". Several claims of one ticket are joined by " + ".
[[nodiscard]] std::string describe_cycle(std::span<const Wait> cycle,
                                         std::span<const Ticket> tickets);

}  // namespace tenure
