// ticket.hpp: a request in the queue: its number, its claims, its owner.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/path.hpp"

namespace tenure {

// The number of a ticket. Of two conflicting tickets, the later one has the larger number. After
// the grant it is the fencing token to pass to the protected resource. Zero means "none".
struct Token {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const Token&, const Token&) = default;
};

// On whose behalf a request is made. Owners matter only for deadlock errors and inspection: an
// owner does one thing at a time, so an owner that waits can't release what it holds. Owners form a
// tree by name: holds of `job-7` count as holds of `job-7/step-2` as well, but not those of
// `job-7/step-1`; and `job-7` can't go on before `job-7/step-2` has finished.
//
// The default is no owner: each such ticket is independent of all others.
struct Owner {
  Path id;

  Owner() = default;
  template <std::convertible_to<Path> P>
    requires(!std::convertible_to<P, std::string_view>)
  explicit Owner(P&& path) : id(std::forward<P>(path)) {}
  explicit Owner(std::string_view name) : id(Path::of(name)) {}  // One segment.

  [[nodiscard]] bool anonymous() const noexcept { return id.is_root(); }
  [[nodiscard]] Owner child(std::string_view name) const { return Owner{id / Path::of(name)}; }
  // Whether `ancestor` is this owner or one of its ancestors. False if `ancestor` is anonymous.
  [[nodiscard]] bool within(const Owner& ancestor) const noexcept {
    return !ancestor.anonymous() && ancestor.id.covers(id);
  }
  [[nodiscard]] std::string text() const { return anonymous() ? "nobody" : id.text(); }

  friend bool operator==(const Owner&, const Owner&) = default;
};

struct Ticket {
  Token number;
  std::vector<Claim> claims;
  Owner owner;
  // Bit i: claims[i] was granted before its limit was lowered (Space::set_limit), and does not wait
  // for the limit again. A request has at most 64 claims.
  std::uint64_t kept = 0;
  // The granted ticket of the same holder that this one upgrades (Hold::upgrade), and does not wait
  // for. Zero: none.
  Token replaces{};

  [[nodiscard]] bool keeps(std::size_t claim) const noexcept { return (kept >> claim & 1U) != 0; }
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

}  // namespace tenure
