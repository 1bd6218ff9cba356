// ticket.hpp: a request in the queue: its number, its claims, its owner.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/path.hpp"

namespace tenure {

// Orders the tickets of a space: of two that conflict the later has the larger one. Granted, it is
// the fencing token to pass to whatever is protected. Zero means "none".
struct Token {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(const Token&, const Token&) = default;
};

// Who asks. Owners matter only for deadlock errors and inspection: an owner does one thing at a
// time, so one that waits can't give back what it holds. Owners form a tree by name: what
// `job-7` holds counts as held by `job-7/step-2` as well, while `job-7/step-1` is a stranger to it;
// and `job-7` can't go on before `job-7/step-2` has.
//
// The default owner is nobody: each of its tickets stands alone.
struct Owner {
  Path id;

  Owner() = default;
  explicit Owner(Path path) : id(std::move(path)) {}
  explicit Owner(std::string_view name) : id(Path::of(name)) {}

  [[nodiscard]] bool anonymous() const noexcept { return id.is_root(); }
  [[nodiscard]] Owner child(std::string_view name) const { return Owner{id / Path::of(name)}; }
  // This owner, or one that it descends from. Nobody is not even related to itself.
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
  friend bool operator==(const Ticket&, const Ticket&) = default;
};

}  // namespace tenure
