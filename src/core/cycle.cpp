// The deadlock search of rule.hpp: a fixed point (which owners can never finish), then a shortest
// cycle.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <ranges>
#include <utility>

#include "core/waits.hpp"
#include "tenure/rule.hpp"

namespace tenure {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

// For each ticket, the number of the first one that it replaces, directly or not, and that is live:
// a ticket and its upgrade are released together, whoever owns them.
std::vector<Token> families_of(std::span<const Ticket> tickets) {
  std::map<Token, Token> replaced;
  for (const Ticket& ticket : tickets) replaced.emplace(ticket.number, ticket.replaces);
  std::vector<Token> families;
  families.reserve(tickets.size());
  for (const Ticket& ticket : tickets) {
    Token first = ticket.number;
    for (auto at = replaced.find(first); at->second != Token{} && replaced.contains(at->second);) {
      first = at->second;
      at = replaced.find(first);
    }
    families.push_back(first);
  }
  return families;
}

// Tickets and owners are identified by index. A ticket without an owner has an owner of its own,
// together with its upgrade.
class Search {
 public:
  explicit Search(std::span<const Ticket> tickets) : tickets_(tickets) { sort_owners(); }

  void add_all();
  void add_reachable(std::size_t start);
  // Lets every owner finish that can. Tickets that still wait then wait for ever.
  void let_finish();

  // A shortest cycle through `start`, or nothing.
  [[nodiscard]] std::vector<Wait> circle_through(std::size_t start) const;
  // Some ticket of a cycle, or `none`.
  [[nodiscard]] std::size_t any_on_circle() const;

 private:
  struct OwnerNode {
    std::size_t parent = none;  // The nearest ancestor that has tickets.
    // The tickets of the owner and its descendants: by_owner_[first, last).
    std::size_t first = 0;
    std::size_t last = 0;
    std::size_t waiting = 0;  // How many of these tickets wait. 0: the owner can finish.
    bool added = false;
  };

  void sort_owners();
  void add_waiting(std::size_t ticket);
  void remove_waiting(std::size_t ticket);
  [[nodiscard]] auto tickets_at_or_below(std::size_t ticket) const {
    const OwnerNode& owner = owners_[owner_of_[ticket]];
    return std::span{by_owner_}.subspan(owner.first, owner.last - owner.first);
  }
  // The owner of a ticket that was not added seems to be able to finish; but such tickets block
  // nothing that was added.
  [[nodiscard]] std::vector<std::size_t> remaining_blockers(std::size_t ticket) const {
    return waits_for(tickets_[ticket], tickets_, [this](std::size_t i) { return remains(i); });
  }
  [[nodiscard]] bool remains(std::size_t ticket) const {
    return owners_[owner_of_[ticket]].waiting > 0;
  }

  std::span<const Ticket> tickets_;
  std::vector<std::size_t> by_owner_;  // Descendants follow their owner: paths sort that way.
  std::vector<std::size_t> owner_of_;
  std::vector<OwnerNode> owners_;
  std::vector<std::uint8_t> waits_;  // By ticket: it was added, and still waits.
};

void Search::sort_owners() {
  const std::vector<Token> families = families_of(tickets_);
  waits_.resize(tickets_.size());
  owner_of_.resize(tickets_.size());
  by_owner_.resize(tickets_.size());
  for (std::size_t i = 0; i < by_owner_.size(); ++i) by_owner_[i] = i;
  std::ranges::sort(by_owner_, [&](std::size_t a, std::size_t b) {
    const Owner& one = tickets_[a].owner;
    const Owner& other = tickets_[b].owner;
    if (one.id != other.id) return one.id < other.id;
    return one.anonymous() && families[a] < families[b];
  });
  const auto ticket_at = [this](std::size_t position) -> const Ticket& {
    return tickets_[by_owner_[position]];
  };
  const auto is_same = [&](std::size_t a, std::size_t b) {
    const Ticket& one = ticket_at(a);
    const Ticket& other = ticket_at(b);
    if (one.owner != other.owner) return false;
    return !one.owner.anonymous() || families[by_owner_[a]] == families[by_owner_[b]];
  };
  std::size_t enclosing = none;  // The innermost owner that may have more descendants.
  for (std::size_t at = 0; at < by_owner_.size(); ++at) {
    while (enclosing != none && !is_same(at, owners_[enclosing].first) &&
           !ticket_at(at).owner.within(ticket_at(owners_[enclosing].first).owner)) {
      owners_[enclosing].last = at;
      enclosing = owners_[enclosing].parent;
    }
    const bool same = enclosing != none && is_same(at, owners_[enclosing].first);
    if (!same) {
      owners_.push_back({.parent = enclosing, .first = at, .last = by_owner_.size()});
      enclosing = owners_.size() - 1;
    }
    owner_of_[by_owner_[at]] = enclosing;
  }
}

void Search::add_waiting(std::size_t ticket) {
  waits_[ticket] = 1;
  for (std::size_t at = owner_of_[ticket]; at != none; at = owners_[at].parent) {
    ++owners_[at].waiting;
  }
}

void Search::remove_waiting(std::size_t ticket) {
  waits_[ticket] = 0;
  for (std::size_t at = owner_of_[ticket]; at != none; at = owners_[at].parent) {
    --owners_[at].waiting;
  }
}

void Search::add_all() {
  for (std::size_t i = 0; i < tickets_.size(); ++i) {
    if (!granted(tickets_[i], tickets_)) add_waiting(i);
  }
}

void Search::add_reachable(std::size_t start) {
  constexpr auto all = [](std::size_t) { return true; };
  std::vector<std::size_t> queue{start};
  add_waiting(start);
  while (!queue.empty()) {
    const std::size_t ticket = queue.back();
    queue.pop_back();
    for (const std::size_t blocker : waits_for(tickets_[ticket], tickets_, all)) {
      OwnerNode& owner = owners_[owner_of_[blocker]];
      if (std::exchange(owner.added, true)) continue;
      for (const std::size_t other : tickets_at_or_below(blocker)) {
        if (waits_[other] != 0 || granted(tickets_[other], tickets_)) continue;
        add_waiting(other);
        queue.push_back(other);
      }
    }
  }
}

void Search::let_finish() {
  // In ticket order: a queue of independent tickets then empties in one round.
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < tickets_.size(); ++i) {
    if (waits_[i] != 0) waiting.push_back(i);
  }
  std::ranges::sort(waiting, {}, [this](std::size_t i) { return tickets_[i].number; });
  const auto alive = [this](std::size_t i) { return remains(i); };
  std::size_t before = 0;
  do {
    before = waiting.size();
    std::erase_if(waiting, [&](std::size_t i) {
      if (waits(tickets_[i], tickets_, alive)) return false;
      remove_waiting(i);
      return true;
    });
  } while (waiting.size() < before);
}

std::vector<Wait> Search::circle_through(std::size_t start) const {
  struct Step {
    std::size_t from = none;  // Index of the previous step.
    std::size_t waiting = 0;
    std::size_t blocker = 0;  // A blocker of the previous step, through which this one was reached.
  };
  std::vector<Step> steps{{.waiting = start}};
  std::vector<std::uint8_t> seen(tickets_.size());
  const auto unwind = [&](std::size_t last, std::size_t blocker) {
    std::vector<Wait> circle;
    for (std::size_t at = last; at != none; at = steps[at].from) {
      circle.push_back(
          {.waiting = tickets_[steps[at].waiting].number, .blocker = tickets_[blocker].number});
      blocker = steps[at].blocker;
    }
    std::ranges::reverse(circle);
    return circle;
  };
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const std::size_t waiting = steps[at].waiting;
    for (const std::size_t blocker : remaining_blockers(waiting)) {
      for (const std::size_t next : tickets_at_or_below(blocker)) {
        if (waits_[next] == 0) continue;
        if (next == start) return unwind(at, blocker);
        if (std::exchange(seen[next], 1) != 0) continue;
        steps.push_back({.from = at, .waiting = next, .blocker = blocker});
      }
    }
  }
  return {};
}

std::size_t Search::any_on_circle() const {
  const auto first = std::ranges::find(waits_, 1);
  if (first == waits_.end()) return none;
  // Every remaining ticket waits for a remaining one, so following the blockers must return to a
  // ticket that was seen.
  std::vector<std::uint8_t> seen(tickets_.size());
  auto at = static_cast<std::size_t>(first - waits_.begin());
  while (std::exchange(seen[at], 1) == 0) {
    const auto others = tickets_at_or_below(remaining_blockers(at).front());
    at = *std::ranges::find_if(others, [this](std::size_t i) { return waits_[i] != 0; });
  }
  return at;
}

// Whether a later ticket may have to wait for this one.
bool is_awaited(const Ticket& ticket, std::span<const Ticket> tickets) {
  return std::ranges::any_of(tickets, [&ticket](const Ticket& later) {
    if (later.number <= ticket.number) return false;
    return conflict(later.claims, ticket.claims) ||
           std::ranges::any_of(later.claims, [&ticket](const Claim& claim) {
             return claim.mode.limit() != 0 && weight_in(ticket, claim) != 0;
           });
  });
}

// A cycle returns to a ticket that can't be released before `start` goes on. Usually nobody waits
// for such a ticket, and that is far cheaper to find out than what `start` waits for.
bool may_come_back_to(const Ticket& start, std::span<const Ticket> tickets) {
  return std::ranges::any_of(tickets, [&](const Ticket& held) {
    const bool kept = held.number == start.number || held.number == start.replaces ||
                      start.owner.within(held.owner);
    return kept && is_awaited(held, tickets);
  });
}

std::string describe(Token number, std::span<const Ticket> tickets) {
  const auto ticket = std::ranges::find(tickets, number, &Ticket::number);
  std::string name = "ticket " + std::to_string(number.value);
  if (ticket == tickets.end()) return name;
  std::string out = ticket->owner.text() + " (";
  for (const Claim& claim : ticket->claims) {
    if (&claim != ticket->claims.data()) out += " + ";
    out += claim.text();
  }
  return out + ", " + name + ")";
}

}  // namespace

std::vector<Wait> find_cycle(std::span<const Ticket> tickets, std::optional<Token> start) {
  if (start) {
    const auto ticket = std::ranges::find(tickets, *start, &Ticket::number);
    if (ticket == tickets.end() || granted(*ticket, tickets)) return {};
    if (!may_come_back_to(*ticket, tickets)) return {};
    const auto index = static_cast<std::size_t>(ticket - tickets.begin());
    Search search{tickets};
    search.add_reachable(index);
    search.let_finish();
    return search.circle_through(index);
  }
  Search search{tickets};
  search.add_all();
  search.let_finish();
  const std::size_t ticket = search.any_on_circle();
  if (ticket == none) return {};
  std::vector<Wait> circle = search.circle_through(ticket);
  std::ranges::rotate(circle, std::ranges::max_element(circle, {}, &Wait::waiting));
  return circle;
}

std::string describe_cycle(std::span<const Wait> cycle, std::span<const Ticket> tickets) {
  std::string out;
  for (const Wait& wait : cycle) {
    if (!out.empty()) out += ", ";
    out += describe(wait.waiting, tickets) + " waits for " + describe(wait.blocker, tickets);
  }
  return out;
}

}  // namespace tenure
