// The rule for many tickets at once: finds claims by their paths instead of scanning all tickets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tenure/rule.hpp"

namespace tenure {
namespace {

// Claims by path. Paths sort segment by segment, so the paths below a path follow it directly.
class ClaimsByPath {
 public:
  explicit ClaimsByPath(std::span<const Ticket> tickets)
      : tickets_(tickets), order_(tickets.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::ranges::sort(order_, {}, [tickets](std::size_t i) { return tickets[i].number; });
  }

  // In ticket order, so that by_path_ contains exactly the earlier tickets.
  [[nodiscard]] std::vector<QueuePosition> judge() {
    std::vector<QueuePosition> all(tickets_.size());
    for (const std::size_t i : order_) {
      const std::vector<std::size_t> found = waits_for(tickets_[i]);
      for (const std::size_t j : found) {
        all[i].blocked_by.push_back(tickets_[j].number);
        if (all[j].position > 0) ++all[i].position;
      }
      if (!found.empty()) ++all[i].position;
      for (const Claim& claim : tickets_[i].claims)
        by_path_[claim.path].push_back({i, &claim.mode});
    }
    return all;
  }

 private:
  struct EarlierClaim {
    std::size_t ticket;
    const Mode* mode;
  };

  [[nodiscard]] std::vector<std::size_t> waits_for(const Ticket& ticket) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < ticket.claims.size(); ++i) {
      look_from(ticket.claims[i], ticket.keeps(i), found);
    }
    const auto number = [this](std::size_t i) { return tickets_[i].number; };
    std::erase_if(found, [&](std::size_t i) { return number(i) == ticket.replaces; });
    std::ranges::sort(found, {}, number);
    const auto [rest, end] = std::ranges::unique(found);
    found.erase(rest, end);
    return found;
  }

  void look_from(const Claim& claim, bool kept, std::vector<std::size_t>& found) const {
    for (std::size_t depth = 0; depth < claim.path.depth(); ++depth) {
      const auto above = by_path_.find(claim.path.prefix(depth));
      if (above != by_path_.end()) add_excluded(claim.mode, above->second, found);
    }
    for (auto at = by_path_.lower_bound(claim.path);
         at != by_path_.end() && claim.path.covers(at->first); ++at) {
      add_excluded(claim.mode, at->second, found);
    }
    if (claim.mode.limit() != 0 && !kept) add_members(claim, found);
  }

  static void add_excluded(const Mode& mode, const std::vector<EarlierClaim>& claims,
                           std::vector<std::size_t>& found) {
    for (const EarlierClaim& other : claims) {
      if (mode.excludes(*other.mode)) found.push_back(other.ticket);
    }
  }

  void add_members(const Claim& claim, std::vector<std::size_t>& found) const {
    const auto here = by_path_.find(claim.path);
    if (here == by_path_.end()) return;
    std::vector<std::size_t> members;
    std::uint64_t taken = claim.mode.weight();
    for (const EarlierClaim& other : here->second) {
      if (!claim.mode.same_group(*other.mode)) continue;
      members.push_back(other.ticket);
      taken += other.mode->weight();
    }
    if (taken > claim.mode.limit()) {
      found.insert(found.end(), members.begin(), members.end());
    }
  }

  std::span<const Ticket> tickets_;
  std::vector<std::size_t> order_;
  std::map<Path, std::vector<EarlierClaim>> by_path_;
};

}  // namespace

std::vector<QueuePosition> queue_positions(std::span<const Ticket> tickets) {
  return ClaimsByPath{tickets}.judge();
}

}  // namespace tenure
