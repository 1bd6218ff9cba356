// rule.hpp: the rule, as pure functions on tickets. Every space obeys it; inspection applies it to
// a snapshot.
//
//     A ticket is granted when no earlier live ticket conflicts with it.
//
// Two claims conflict when the path of one covers the path of the other and their modes exclude
// each other. A claim with a limit N also waits while its weight and the weights of all earlier
// live tickets on the same path in its group, including waiting ones, add up to more than N. A
// weight is 1 unless the claim says otherwise (Mode::take). Since waiting tickets count, small
// requests never overtake a large one. A claim that was granted before its limit was lowered
// (Ticket::kept) does not wait for the limit again. An upgrade does not wait for the ticket that it
// replaces (Ticket::replaces).
//
// Invariants, for any set of live tickets to which only larger numbers are added
//   1. Two conflicting tickets are never both granted.
//   2. A granted ticket stays granted: earlier tickets can only disappear, and change_limit() keeps
//      what was granted.
//   3. A ticket waits only for earlier ones, so single requests can't deadlock.
//   4. The earliest ticket is granted, so some ticket can always proceed.
//
// In all functions `tickets` are the live tickets, in any order, with distinct numbers. They may or
// may not contain `ticket` itself, which never blocks itself. No clock, thread or I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenure/ticket.hpp"

namespace tenure {

[[nodiscard]] bool conflict(const Claim& a, const Claim& b) noexcept;
// Whether any claim of one request conflicts with any claim of the other. Limits are ignored.
[[nodiscard]] bool conflict(std::span<const Claim> a, std::span<const Claim> b) noexcept;

// The earlier tickets that `ticket` waits for, earliest first: those that conflict with it and, for
// each claim whose limit is reached, the earlier members of its group. Empty: granted.
[[nodiscard]] std::vector<Token> blockers(const Ticket& ticket, std::span<const Ticket> tickets);
[[nodiscard]] bool granted(const Ticket& ticket, std::span<const Ticket> tickets);

// 0: granted. Otherwise 1 + the number of its blockers that wait themselves. 1: next in line.
[[nodiscard]] std::size_t position(const Ticket& ticket, std::span<const Ticket> tickets);

// blockers() and position() of all `tickets`, which may be in any order. Its cost depends on the
// blockers found, instead of one scan over all tickets for each ticket.
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

// Changes the limit of a group: `limit` is a claim with the path, the group and the new limit.
// Every live ticket in the group, granted or waiting, counts under the new limit from then on.
// Raising it grants the waiting tickets that fit now, in their order. Lowering it takes nothing
// away: granted tickets keep what they have (Ticket::kept), and the next one is granted when enough
// of them have ended.
//
// The error says why the limit can't be changed: a live ticket takes more than the new limit, and
// would wait for ever if it waits; or the group has no limit. The caller must also search for
// deadlocks: of owners, a lower limit can complete one.
struct LimitChange {
  std::size_t members = 0;      // Live tickets in the group.
  std::vector<Ticket> changed;  // Those that differ from before, as they are now.
};
[[nodiscard]] std::expected<LimitChange, std::string> change_limit(const Claim& limit,
                                                                   std::span<const Ticket> tickets);

// What is wrong with a request by itself (no claims, too many, the same path twice), or nothing.
inline constexpr std::size_t max_claims = 64;
[[nodiscard]] std::optional<std::string> find_fault(std::span<const Claim> claims);

// Whether a holder of `held` may turn it into `wanted` and keep its number. Every wanted claim must
// be covered by a held claim, and must be that claim, or that claim with exclusive replaced by a
// group, or that claim with a smaller weight, or that claim narrowed to a deeper path if the held
// one has no limit; and `wanted` must have no fault of its own. Returns what is wrong, or nothing.
// The caller must also call find_limit_clash for `wanted` and the other live tickets: a narrowed
// claim can meet a limit that the held one did not.
[[nodiscard]] std::optional<std::string> find_downgrade_fault(std::span<const Claim> held,
                                                              std::span<const Claim> wanted);
// Ticket::kept of such a ticket after the downgrade.
[[nodiscard]] std::uint64_t kept_after_downgrade(const Ticket& held, std::span<const Claim> wanted);

// Whether a holder of `held` may ask for `wanted` instead, by a ticket that waits behind all others
// but ignores the held one (Ticket::replaces): a downgrade of `wanted` must lead back to `held`,
// and neither may have a limit. Returns what is wrong, or nothing.
[[nodiscard]] std::optional<std::string> find_upgrade_fault(std::span<const Claim> held,
                                                            std::span<const Claim> wanted);

// Whether `held` covers `wanted`, so that its holder needs no other ticket: each wanted claim must
// be one that a downgrade could leave of a held one. (Reading is covered by one's own write lock, a
// permit by the same permit.) Returns what is wrong, or nothing.
[[nodiscard]] std::optional<std::string> find_again_fault(std::span<const Claim> held,
                                                          std::span<const Claim> wanted);

// A deadlock is what remains after every owner that does not wait has finished, repeatedly. (With
// limits, a cycle of waits alone is not a deadlock: another holder may make room.) An owner waits
// while one of its tickets, or of a descendant's tickets, waits; an owner that finishes releases
// all of its own tickets.
//
// Returns one short cycle of what remains, or nothing if nothing remains. In the cycle each ticket
// waits for a ticket whose owner, or a descendant of that owner, waits with the next ticket; the
// last one closes the cycle.
//
// With `start`: only a cycle that contains `start`, which comes first. That is enough when a ticket
// is appended: if there was no deadlock before, every deadlock now involves the new ticket. The
// search looks only at tickets that can be reached from `start`. Without `start` it looks at all
// tickets; the youngest ticket of the cycle comes first.
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
