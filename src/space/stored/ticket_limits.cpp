// Limits of groups on which all live tickets must agree, and why a transaction with an append in it
// was refused.
#include <algorithm>
#include <string>
#include <utility>

#include "space/stored/keys.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

std::string limit_text(std::uint32_t limit) {
  return limit == 0 ? std::string{"no limit"} : "limit " + std::to_string(limit);
}

bool has_own(const Row& row, Token own, const Range& line) {
  return own != Token{} && std::ranges::any_of(row.claims, [&](const Claim& held) {
           const std::string shadow = shadow_key(held, own);
           return line.holds(row_key(held, own)) || (!shadow.empty() && line.holds(shadow));
         });
}

}  // namespace

void Tickets::throw_anchor_lost(const Row& row) {
  if (row.anchored()) {
    throw AnchorLost(
        "the key '" + Path::of(row.anchor).text() +
        "' is not in the store, and without it no ticket that is anchored on it lives: "
        "put the key first");
  }
  throw SessionLost(
      "the store has ended the session of this process, so its locks are lost: "
      "open the space again");
}

// All live claims of a group on one path have the same limit, so reading the first is enough. While
// that claim is unchanged, or the path stays empty, no request with another limit can be appended:
// set_limit() writes all of them. While a claim with a limit is present, the line without a limit
// has only shadows.
bool Tickets::agree_on_limits(const Row& row, std::span<const Claim> claims, Token own,
                              Txn& txn) const {
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    if (claim.mode.limit() != 0) {
      const Agreement members = agree_in_line(row, claim, own, Range::prefix(line_of(claim)), txn);
      if (members == Agreement::again) return false;
      if (members == Agreement::same) continue;
    }
    const Range others = Range::prefix(other_limit_line(claim));
    if (!has_own(row, own, others)) {
      txn.guards.push_back(Guard::empty(others));
    } else if (agree_in_line(row, claim, own, others, txn) == Agreement::again) {
      return false;
    }
  }
  return true;
}

// A ticket that is being downgraded may itself be in the line, with the limit that it gives up.
Tickets::Agreement Tickets::agree_in_line(const Row& row, const Claim& claim, Token own,
                                          const Range& line, Txn& txn) const {
  Txn read;
  read.reads.push_back(line.first(2));
  Outcome outcome = store_->apply(read);
  std::vector<Entry>& found = outcome.reads.front();
  std::erase_if(found, [own](const Entry& entry) { return number_in(entry.key) == own; });
  if (found.empty()) {
    const bool alone = has_own(row, own, line);
    txn.guards.push_back(alone ? Guard::quiet(line, outcome.revision) : Guard::empty(line));
    return Agreement::nobody;
  }
  if (limit_clash(row, claim, found.front())) return Agreement::again;
  txn.guards.push_back(Guard::unchanged(found.front().key, found.front().changed));
  return Agreement::same;
}

// True: a dead ticket disagreed and was removed. Throws if a live one disagrees.
bool Tickets::limit_clash(const Row& row, const Claim& asked, const Entry& entry) const {
  const std::optional<Seen> seen = resolve(entry);
  if (!seen.has_value()) return true;
  const auto live = std::ranges::find_if(seen->row.claims, [&asked](const Claim& claim) {
    return claim.path == asked.path && claim.mode.same_group(asked.mode);
  });
  if (live == seen->row.claims.end() || live->mode.limit() == asked.mode.limit()) return false;
  if (overdue(seen->row)) {
    remove(*seen);
    return true;
  }
  if (!alive(seen->row)) {
    remove_dead(*seen);
    return true;
  }
  throw LimitMismatch("group '" + Path::of(asked.mode.name()).text() + "' of '" +
                      asked.path.text() + "' is used with different limits: " + row.owner.text() +
                      " asks for " + limit_text(asked.mode.limit()) + ", " +
                      seen->row.owner.text() + " (ticket " + std::to_string(seen->number.value) +
                      ") has " + limit_text(live->mode.limit()) +
                      "; use the same limit everywhere, or change it with set_limit() or "
                      "'tenure limit'");
}

void Tickets::explain_refusal(const Row& row, std::span<const Claim> claims, Token own) const {
  Txn txn;
  txn.guards.push_back(anchor_guard(row));
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    txn.reads.push_back(Range::prefix(other_limit_line(claim)).first(2));
  }
  const Outcome outcome = store_->apply(txn);
  if (!outcome.committed) throw_anchor_lost(row);
  std::size_t read = 0;
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    for (const Entry& entry : outcome.reads[read++]) {
      if (number_in(entry.key) != own) static_cast<void>(limit_clash(row, claim, entry));
    }
  }
}

}  // namespace tenure::stored
