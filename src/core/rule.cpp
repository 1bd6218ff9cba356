#include "tenure/rule.hpp"

#include <algorithm>

#include "core/waits.hpp"

namespace tenure {
namespace {

constexpr auto all = [](std::size_t) { return true; };

// Whether a holder of `held` may have `wanted` instead: `held` excludes everything that `wanted`
// excludes or that a limit of `wanted` keeps out.
bool weakens(const Claim& held, const Claim& wanted) {
  const bool path_fits =
      held.mode.limit() == 0 ? held.path.covers(wanted.path) : held.path == wanted.path;
  if (!path_fits || held.mode.is_exclusive()) return path_fits;
  return held.mode.same_group(wanted.mode) && held.mode.limit() == wanted.mode.limit() &&
         held.mode.weight() >= wanted.mode.weight();
}

// The first wanted claim that no held one may be weakened to, or null.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of time.
const Claim* find_uncovered(std::span<const Claim> held, std::span<const Claim> wanted) {
  const auto uncovered = [held](const Claim& claim) {
    return std::ranges::none_of(held, [&claim](const Claim& from) { return weakens(from, claim); });
  };
  const auto found = std::ranges::find_if(wanted, uncovered);
  return found == wanted.end() ? nullptr : &*found;
}

std::string more_than_held(std::span<const Claim> held, const Claim& wanted) {
  std::string out = wanted.text() + ": it claims more than is held (";
  for (const Claim& claim : held) {
    if (&claim != held.data()) out += " + ";
    out += claim.text();
  }
  return out + ")";
}

std::string downgrade_fault(std::span<const Claim> held, const Claim& wanted) {
  return "cannot downgrade to " + more_than_held(held, wanted) +
         "; a downgrade may drop claims, turn exclusive into a group, take less of a limit, or "
         "narrow a claim without a limit to a deeper path; for anything else, release and lock "
         "again";
}

std::size_t index_of(const Ticket& ticket, const Claim& claim) {
  return static_cast<std::size_t>(&claim - ticket.claims.data());
}

std::string shown(const Ticket& ticket, const Claim& claim) {
  return "ticket " + std::to_string(ticket.number.value) + " of " + ticket.owner.text() + " (" +
         claim.text() + ")";
}

std::string limit_fault(const Ticket& ticket, const Claim& claim, const Claim& limit) {
  return "cannot lower the limit of '" + limit.path.text() + "' to " +
         std::to_string(limit.mode.limit()) + ": " + shown(ticket, claim) + " takes " +
         std::to_string(claim.mode.weight()) +
         "; wait until it ends, evict it, or choose a larger limit";
}

std::string no_limit_fault(const Ticket& ticket, const Claim& claim) {
  return "cannot change the limit of '" + claim.path.text() + "': " + shown(ticket, claim) +
         " is in that group without a limit; a limit begins with the first request that has one";
}

}  // namespace

bool conflict(const Claim& a, const Claim& b) noexcept {
  return a.mode.excludes(b.mode) && (a.path.covers(b.path) || b.path.covers(a.path));
}

bool conflict(std::span<const Claim> a, std::span<const Claim> b) noexcept {
  return std::ranges::any_of(a, [b](const Claim& left) {
    return std::ranges::any_of(b, [&left](const Claim& right) { return conflict(left, right); });
  });
}

std::vector<Token> blockers(const Ticket& ticket, std::span<const Ticket> tickets) {
  std::vector<Token> found;
  for (const std::size_t i : waits_for(ticket, tickets, all)) found.push_back(tickets[i].number);
  std::ranges::sort(found);
  return found;
}

bool granted(const Ticket& ticket, std::span<const Ticket> tickets) {
  return !waits(ticket, tickets, all);
}

std::size_t position(const Ticket& ticket, std::span<const Ticket> tickets) {
  const std::vector<std::size_t> found = waits_for(ticket, tickets, all);
  if (found.empty()) return 0;
  const auto waiting =
      std::ranges::count_if(found, [&](std::size_t i) { return !granted(tickets[i], tickets); });
  return 1 + static_cast<std::size_t>(waiting);
}

std::optional<LimitClash> find_limit_clash(std::span<const Claim> claims,
                                           std::span<const Ticket> tickets) {
  for (const Claim& asked : claims) {
    for (const Ticket& ticket : tickets) {
      for (const Claim& live : ticket.claims) {
        if (live.path == asked.path && live.mode.same_group(asked.mode) &&
            live.mode.limit() != asked.mode.limit()) {
          return LimitClash{
              .asked = asked, .live = live, .number = ticket.number, .owner = ticket.owner};
        }
      }
    }
  }
  return std::nullopt;
}

std::expected<LimitChange, std::string> change_limit(const Claim& limit,
                                                     std::span<const Ticket> tickets) {
  LimitChange change;
  std::vector<Ticket> after{tickets.begin(), tickets.end()};
  for (Ticket& ticket : after) {
    for (Claim& claim : ticket.claims) {
      if (claim.path != limit.path || !claim.mode.same_group(limit.mode)) continue;
      ++change.members;
      if (claim.mode.limit() == 0) return std::unexpected(no_limit_fault(ticket, claim));
      if (claim.mode.weight() > limit.mode.limit()) {
        return std::unexpected(limit_fault(ticket, claim, limit));
      }
      claim.mode = claim.mode.with_limit(limit.mode.limit());
      ticket.kept &= ~(std::uint64_t{1} << index_of(ticket, claim));
    }
  }
  for (std::size_t i = 0; i < after.size(); ++i) {
    const Claim* const claim = member_claim(after[i], limit);
    if (claim == nullptr) continue;
    if (limit_reached(after[i], *claim, after, all) && granted(tickets[i], tickets)) {
      after[i].kept |= std::uint64_t{1} << index_of(after[i], *claim);
    }
    if (after[i] != tickets[i]) change.changed.push_back(after[i]);
  }
  return change;
}

std::optional<std::string> find_fault(std::span<const Claim> claims) {
  if (claims.empty()) return "the request has no claims: name at least one path";
  if (claims.size() > max_claims) {
    return "the request has " + std::to_string(claims.size()) + " claims: use at most " +
           std::to_string(max_claims) + ", or claim a path above them";
  }
  for (auto claim = claims.begin(); claim != claims.end(); ++claim) {
    const auto same_path = [&claim](const Claim& other) { return other.path == claim->path; };
    const auto earlier = std::find_if(claims.begin(), claim, same_path);
    if (earlier != claim) {
      return "the request claims the path '" + claim->path.text() + "' twice, as " +
             earlier->mode.text() + " and as " + claim->mode.text() + ": claim it once";
    }
  }
  return std::nullopt;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of time.
std::optional<std::string> find_downgrade_fault(std::span<const Claim> held,
                                                std::span<const Claim> wanted) {
  if (auto fault = find_fault(wanted)) return fault;
  const Claim* const claim = find_uncovered(held, wanted);
  if (claim == nullptr) return std::nullopt;
  return downgrade_fault(held, *claim);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of time.
std::optional<std::string> find_upgrade_fault(std::span<const Claim> held,
                                              std::span<const Claim> wanted) {
  if (auto fault = find_fault(wanted)) return fault;
  const auto limited = [](const Claim& claim) { return claim.mode.limit() != 0; };
  for (const std::span<const Claim> claims : {held, wanted}) {
    const auto found = std::ranges::find_if(claims, limited);
    if (found == claims.end()) continue;
    return "cannot upgrade " + found->text() + ": it has a limit; release, and lock again";
  }
  // NOLINTNEXTLINE(readability-suspicious-call-argument): what is held must be a part of the rest.
  const Claim* const claim = find_uncovered(wanted, held);
  if (claim == nullptr) return std::nullopt;
  return "cannot upgrade: the new claims do not cover " + claim->text() +
         ", which is held; an upgrade may turn a group into exclusive, widen a path, or add claims";
}

std::uint64_t kept_after_downgrade(const Ticket& held, std::span<const Claim> wanted) {
  std::uint64_t kept = 0;
  for (std::size_t i = 0; held.kept != 0 && i < wanted.size(); ++i) {
    const Claim* const from = member_claim(held, wanted[i]);
    if (from != nullptr && held.keeps(index_of(held, *from))) kept |= std::uint64_t{1} << i;
  }
  return kept;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): in the order of time.
std::optional<std::string> find_again_fault(std::span<const Claim> held,
                                            std::span<const Claim> wanted) {
  if (auto fault = find_fault(wanted)) return fault;
  const Claim* const claim = find_uncovered(held, wanted);
  if (claim == nullptr) return std::nullopt;
  return "cannot hold again " + more_than_held(held, *claim) +
         "; again() covers what is held, a deeper path, or sharing what is held exclusively; for "
         "anything else, lock it with a request of its own";
}

}  // namespace tenure
