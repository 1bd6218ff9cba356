// How much a run did, and how long it took: reported, never judged.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tenure/rule.hpp"
#include "tests/stress/checker.hpp"

namespace tenure::stress {
namespace {

// Shorter waits are not analysed.
constexpr std::int64_t long_wait = 50'000'000;

// Pauses of all processes, as one list without overlaps.
class Pauses {
 public:
  explicit Pauses(std::vector<Pause> pauses) {
    std::ranges::sort(pauses, {}, &Pause::from);
    for (const Pause& one : pauses) {
      if (merged_.empty() || merged_.back().to < one.from) {
        merged_.push_back(one);
      } else {
        merged_.back().to = std::max(merged_.back().to, one.to);
      }
    }
  }
  // How much of an interval no process was stopped.
  [[nodiscard]] std::int64_t running(std::int64_t from, std::int64_t to) const {
    std::int64_t time = to - from;
    auto at = std::ranges::lower_bound(merged_, from, {}, &Pause::to);
    for (; at != merged_.end() && at->from < to; ++at) {
      time -= std::max<std::int64_t>(0, std::min(to, at->to) - std::max(from, at->from));
    }
    return time;
  }

 private:
  std::vector<Pause> merged_;
};

bool could_block(const Asked& earlier, const Asked& later) {
  if (earlier.granted.has_value() && earlier.token > later.token) return false;
  if (conflict(earlier.claims, later.claims)) return true;
  return std::ranges::any_of(later.claims, [&earlier](const Claim& claim) {
    return claim.mode.limit() != 0 &&
           std::ranges::any_of(earlier.claims, [&claim](const Claim& other) {
             return other.path == claim.path && other.mode.same_group(claim.mode);
           });
  });
}

// `requests` in the order in which they were made; those before `first` had ended when `one` was
// made.
void take_apart(const History& history, const std::vector<const Asked*>& requests,
                std::size_t first, const Asked& one, const Pauses& pauses, Figures& sum) {
  std::int64_t free_at = one.asked;
  bool by_death = false;
  for (std::size_t i = first; i < requests.size() && requests[i]->asked < *one.granted; ++i) {
    const Asked& other = *requests[i];
    const std::int64_t over = history.over(other);
    if (&other == &one || over <= free_at || over >= *one.granted) continue;
    if (!could_block(other, one)) continue;
    free_at = over;
    by_death = !other.left.has_value() && !other.refused.has_value();
  }
  const std::int64_t delay = pauses.running(free_at, *one.granted);
  if (by_death) sum.worst_after_death = std::max(sum.worst_after_death, delay);
  if (delay <= sum.worst_hand_off) return;
  sum.worst_hand_off = delay;
  sum.slowest = history.name(one);
}

void take_long_waits_apart(const History& history, Figures& sum) {
  const Pauses pauses{history.pauses};
  std::vector<const Asked*> requests;
  for (const Asked& one : history.requests) requests.push_back(&one);
  std::ranges::sort(requests, {}, &Asked::asked);
  std::size_t first = 0;
  for (const Asked* one : requests) {
    while (history.over(*requests[first]) < one->asked) ++first;
    if (!one->granted.has_value() || *one->granted - one->asked < long_wait) continue;
    // The driver may sleep between writing down a kill and making it.
    if (history.over(*one) < *one->granted) continue;
    take_apart(history, requests, first, *one, pauses, sum);
  }
}

std::size_t most_at_once(const History& history) {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const Asked& one : history.requests) {
    if (!one.granted.has_value()) continue;
    const std::int64_t end = history.certain_end(one);
    if (end <= *one.granted) continue;
    changes.emplace_back(*one.granted, 1);
    changes.emplace_back(end, -1);
  }
  std::ranges::sort(changes);
  int now = 0;
  int most = 0;
  for (const auto& [time, change] : changes) most = std::max(most, now += change);
  return static_cast<std::size_t>(most);
}

std::string ms(std::int64_t time) { return std::to_string(time / 1'000'000) + " ms"; }

}  // namespace

Figures figures(const History& history) {
  Figures sum;
  sum.events = history.events;
  sum.requests = history.requests.size();
  sum.pauses = history.pauses.size();
  sum.evictions = history.evictions.size();
  for (const Process& worker : history.workers) sum.kills += worker.killed.has_value() ? 1 : 0;
  for (const Asked& one : history.requests) {
    const std::int64_t over = history.over(one);
    if (one.refused.has_value()) ++sum.refused[one.why];
    sum.narrowed += one.narrowings.size();
    if (one.left.has_value() && !one.was_held) ++sum.expired;
    const std::int64_t in_call = one.granted.value_or(over) - one.asked;
    if (one.granted.has_value() || over != std::numeric_limits<std::int64_t>::max()) {
      sum.worst_thread = std::max(sum.worst_thread, in_call);
    }
    if (!one.granted.has_value()) continue;
    ++sum.grants;
    sum.worst_wait = std::max(sum.worst_wait, in_call);
    if (over != std::numeric_limits<std::int64_t>::max()) {
      sum.worst_hold = std::max(sum.worst_hold, over - *one.granted);
    }
    if (history.workers[one.worker].killed.has_value() && !one.leaving.has_value()) {
      ++sum.killed_holding;
    }
  }
  sum.most_at_once = most_at_once(history);
  take_long_waits_apart(history, sum);
  return sum;
}

std::string text(const Figures& figures) {
  std::string out = std::to_string(figures.events) + " events, " +
                    std::to_string(figures.requests) + " requests, " +
                    std::to_string(figures.grants) + " grants (" +
                    std::to_string(figures.most_at_once) + " at once)";
  for (const auto& [why, count] : figures.refused) out += ", " + std::to_string(count) + ' ' + why;
  out += ", " + std::to_string(figures.narrowed) + " downgrades, " +
         std::to_string(figures.expired) + " expired, " + std::to_string(figures.evictions) +
         " evictions; " + std::to_string(figures.kills) + " kills (" +
         std::to_string(figures.killed_holding) + " of holders), " +
         std::to_string(figures.pauses) + " stops; worst wait " + ms(figures.worst_wait) +
         ", worst call " + ms(figures.worst_thread) + ", worst hold " + ms(figures.worst_hold) +
         ", worst hand-off " + ms(figures.worst_hand_off) + ", after a death " +
         ms(figures.worst_after_death) + '\n';
  if (!figures.slowest.empty()) out += "slowest hand-off: " + figures.slowest + '\n';
  return out;
}

}  // namespace tenure::stress
