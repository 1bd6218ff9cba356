#include "tests/stress/checker.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <unordered_map>
#include <utility>

#include "space/latest_tokens.hpp"
#include "tenure/rule.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::stress {
namespace {

using Kind = Finding::Kind;

// What one hold certainly covered, and when.
struct Stretch {
  std::int64_t from = 0;
  std::int64_t to = 0;
  const Asked* of = nullptr;
  const std::vector<Claim>* claims = nullptr;
};

// A downgrade splits a hold: the old claims are certain until just before it, and the new claims,
// which the old ones cover, from then on.
std::vector<Stretch> stretches(const History& history) {
  std::vector<Stretch> found;
  for (const Asked& one : history.requests) {
    if (!one.granted.has_value()) continue;
    const std::int64_t end = history.certain_end(one);
    std::int64_t from = *one.granted;
    const std::vector<Claim>* claims = &one.claims;
    const auto add = [&](std::int64_t to) {
      if (from < to) found.push_back({.from = from, .to = to, .of = &one, .claims = claims});
    };
    for (const Narrowing& narrowing : one.narrowings) {
      add(std::min(narrowing.time, end));
      from = std::max(from, narrowing.time);
      claims = &narrowing.claims;
    }
    add(end);
  }
  std::ranges::sort(found, {}, &Stretch::from);
  return found;
}

const Claim* member(const std::vector<Claim>& claims, const Claim& like) {
  const auto found = std::ranges::find_if(claims, [&like](const Claim& claim) {
    return claim.path == like.path && claim.mode.same_group(like.mode);
  });
  return found == claims.end() ? nullptr : &*found;
}

// Judges an interval at its first moment, against those that are open then.
void judge(const History& history, const Stretch& next, const std::vector<Stretch>& open,
           std::vector<Finding>& findings) {
  for (const Stretch& other : open) {
    if (!conflict(*other.claims, *next.claims)) continue;
    findings.push_back({Kind::overlap, history.name(*other.of) + " and " + history.name(*next.of)});
  }
  for (const Claim& claim : *next.claims) {
    if (claim.mode.is_exclusive()) continue;
    std::uint64_t taken = claim.mode.weight();
    for (const Stretch& other : open) {
      const Claim* const same = member(*other.claims, claim);
      if (same == nullptr) continue;
      taken += same->mode.weight();
      if (same->mode.limit() == claim.mode.limit()) continue;
      findings.push_back({Kind::limit, "two limits: " + history.name(*other.of) + " and " +
                                           history.name(*next.of)});
    }
    if (claim.mode.limit() == 0 || taken <= claim.mode.limit()) continue;
    findings.push_back({Kind::limit, std::to_string(taken) + " taken of " + text(claim) + ": " +
                                         history.name(*next.of)});
  }
}

void find_overlaps(const History& history, std::vector<Finding>& findings) {
  std::vector<Stretch> open;
  for (const Stretch& next : stretches(history)) {
    std::erase_if(open, [&next](const Stretch& one) { return one.to <= next.from; });
    judge(history, next, open, findings);
    open.push_back(next);
  }
}

std::vector<const Asked*> granted_by_time(const History& history) {
  std::vector<const Asked*> granted;
  for (const Asked& one : history.requests) {
    if (one.granted.has_value()) granted.push_back(&one);
  }
  std::ranges::sort(granted, {}, [](const Asked* one) { return *one->granted; });
  return granted;
}

void find_swaps(const History& history, const std::vector<const Asked*>& granted,
                std::vector<Finding>& findings) {
  LatestTokens<const Asked*> latest;
  for (const Asked* one : granted) {
    // The time of the grant is known only for certain holds.
    if (history.certain_end(*one) <= *one->granted) continue;
    const auto* const earlier = latest.conflicting(one->claims);
    if (earlier != nullptr && earlier->token > one->token) {
      findings.push_back(
          {Kind::order, history.name(*earlier->of) + " held before " + history.name(*one)});
    }
    latest.add(one->claims, {.token = one->token, .of = one});
  }
}

// The largest token granted so far in each root; a request on / is in all of them.
class LatestInRoots {
 public:
  void add(const Asked& one) {
    for (const Claim& claim : one.claims) {
      const Asked*& latest =
          latest_[claim.path.prefix(std::min<std::size_t>(claim.path.depth(), 1))];
      if (latest == nullptr || one.token > latest->token) latest = &one;
    }
  }
  // Null: none in a root of this one.
  [[nodiscard]] const Asked* before(const Asked& one) const {
    const Asked* found = nullptr;
    for (const auto& [root, latest] : latest_) {
      const bool common = std::ranges::any_of(one.claims, [&root](const Claim& claim) {
        return root.is_root() || claim.path.is_root() || claim.path.prefix(1) == root;
      });
      if (common && (found == nullptr || latest->token > found->token)) found = latest;
    }
    return found;
  }

 private:
  std::map<Path, const Asked*> latest_;
};

// For all requests of a root, whether they conflict or not: their revisions only rise.
void find_old_tokens(const History& history, const std::vector<const Asked*>& granted,
                     std::vector<Finding>& findings) {
  std::vector<const Asked*> asked = granted;
  std::ranges::sort(asked, {}, &Asked::asked);
  std::size_t before = 0;
  LatestInRoots roots;
  for (const Asked* one : asked) {
    for (; before < granted.size() && *granted[before]->granted < one->asked; ++before) {
      roots.add(*granted[before]);
    }
    const Asked* const latest = roots.before(*one);
    if (latest == nullptr || latest->token <= one->token) continue;
    findings.push_back({Kind::order, history.name(*one) + " was asked for after " +
                                         history.name(*latest) + " was granted"});
  }
}

void find_reused(const History& history, const std::vector<const Asked*>& granted,
                 std::vector<Finding>& findings) {
  std::unordered_map<std::uint64_t, const Asked*> owners;
  for (const Asked* one : granted) {
    const auto [at, added] = owners.try_emplace(one->token.value, one);
    if (added && one->token != Token{}) continue;
    findings.push_back({Kind::token, history.name(*at->second) + " and " + history.name(*one)});
  }
}

// Why a request may return without a hold.
bool explained(const History& history, const Asked& one) {
  if (one.why == "busy") return one.way == "try_lock";
  if (one.why == "gave-up") return one.way != "try_lock" && one.way != "lock";
  if (one.why == "store") {
    return std::ranges::any_of(history.outages,
                               [&one](std::int64_t time) { return time < *one.refused; });
  }
  // A lease can expire merely because the process got no CPU time.
  if (one.why == "session-lost") return !history.outages.empty();
  if (one.why == "deadlock") return one.held != 0;
  if (one.why == "evicted") {
    // Waiters saw that it was granted, and its max_hold was over before it noticed itself. Or it
    // was evicted; the token of a waiter is in no log.
    return one.max_hold != 0 || std::ranges::any_of(history.evictions, [&one](const auto& item) {
             return one.asked < item.second && item.second < *one.refused;
           });
  }
  if (one.why == "mismatch") {
    return std::ranges::any_of(one.claims,
                               [](const Claim& claim) { return claim.path == quarrel(); });
  }
  return false;
}

void find_broken(const History& history, std::vector<Finding>& findings) {
  const auto found = [&](const Asked& one, const std::string& what) {
    findings.push_back({Kind::promise, what + ": " + history.name(one)});
  };
  for (const std::string& fault : history.faults) findings.push_back({Kind::promise, fault});
  for (const Asked& one : history.requests) {
    const Process& worker = history.workers[one.worker];
    const bool over = one.refused.has_value() || one.left.has_value();
    if (!over && !worker.killed.has_value()) found(one, "it never ended");
    if (one.refused.has_value() && !explained(history, one))
      found(one, "refused (" + one.why + ")");
    if (one.max_hold != 0 || history.evictions.contains(one.token.value)) continue;
    if (one.lost.has_value()) found(one, "told that it is lost, without a reason");
    if (one.left.has_value() && !one.was_held) found(one, "not there when it was released");
  }
  for (const Process& worker : history.workers) {
    if (!worker.killed.has_value() && !worker.ended) {
      findings.push_back({Kind::promise, worker.name + " did not end as it was told"});
    }
  }
}

}  // namespace

std::string name(Finding::Kind kind) {
  constexpr std::array names = {"overlap", "limit", "token", "order", "promise"};
  return names.at(static_cast<std::size_t>(kind));
}

std::vector<Finding> check(const History& history) {
  std::vector<Finding> findings;
  const std::vector<const Asked*> granted = granted_by_time(history);
  find_overlaps(history, findings);
  find_reused(history, granted, findings);
  find_swaps(history, granted, findings);
  find_old_tokens(history, granted, findings);
  find_broken(history, findings);
  return findings;
}

}  // namespace tenure::stress
