// rule_model.hpp: for tests: queues written as text, and a second, naive implementation of the
// rule.
//
// The model shares only Path::segments and the accessors of Mode with the rule. It compares lists
// of segments, keeps blockers as sets of tickets, and finds deadlocks by trying every order in
// which owners can finish.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/rule.hpp"

namespace tenure {

// Parses "book/3:permits(2)", "book/3:permits(10)*3".
inline Claim claim_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const Path path = Path::parse(text.substr(0, colon)).value();
  if (colon == std::string_view::npos) return path.exclusive();
  const std::string_view mode = text.substr(colon + 1);
  const std::size_t limit = mode.find('(');
  if (limit == std::string_view::npos) return path.group(mode);
  const auto number_at = [mode](std::size_t at) {
    return static_cast<std::uint32_t>(std::stoul(std::string{mode.substr(at)}));
  };
  const Claim claim = path.group(mode.substr(0, limit), number_at(limit + 1));
  const std::size_t weight = mode.find('*');
  return weight == std::string_view::npos ? claim : claim.take(number_at(weight + 1));
}

// "alice book/1 + book/2:shared": the owner, then the claims. "nobody" means no owner.
inline Ticket ticket_of(std::uint64_t number, std::string_view text) {
  const auto next_word = [&text] {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    return word;
  };
  Ticket ticket{.number = {number}, .claims = {}, .owner = {}};
  if (const auto owner = next_word(); owner != "nobody") {
    ticket.owner = Owner{Path::parse(owner).value()};
  }
  while (!text.empty()) {
    if (const auto word = next_word(); word != "+") ticket.claims.push_back(claim_of(word));
  }
  return ticket;
}

// Numbered from 1.
inline std::vector<Ticket> queue(std::initializer_list<std::string_view> lines) {
  std::vector<Ticket> tickets;
  for (const std::string_view line : lines) {
    tickets.push_back(ticket_of(tickets.size() + 1, line));
  }
  return tickets;
}

// The state of each ticket: "1 holds; 2 waits for 1, position 1".
inline std::string report(std::span<const Ticket> tickets) {
  std::string out;
  for (const Ticket& ticket : tickets) {
    if (!out.empty()) out += "; ";
    out += std::to_string(ticket.number.value);
    const std::vector<Token> found = blockers(ticket, tickets);
    out += granted(ticket, tickets) ? " holds" : " waits for";
    for (const Token blocker : found) out += " " + std::to_string(blocker.value);
    const std::size_t place = position(ticket, tickets);
    if (place != 0) out += ", position " + std::to_string(place);
  }
  return out;
}

// Up to 32 tickets, in the order of their numbers. A ticket is identified by its index in that
// order.
class RuleModel {
 public:
  using Set = std::uint32_t;  // A set of tickets.

  static constexpr Set only(std::size_t ticket) { return Set{1} << ticket; }
  static constexpr bool has(Set set, std::size_t ticket) { return (set & only(ticket)) != 0; }

  void push(const Ticket& ticket) {
    if (rows_.size() == size_) rows_.emplace_back();
    Row& row = rows_[size_];
    row.assign(ticket);
    row.replaces = ticket.replaces == Token{} ? size_ : ticket.replaces.value - 1;
    for (const auto& [path, mode] : row.claims) {
      Limit limit{.path = path,
                  .group = std::string{mode.name()},
                  .most = mode.limit(),
                  .weight = mode.weight(),
                  .members = 0,
                  .weights = {}};
      for (std::size_t i = 0; i < size_; ++i) {
        if (i == row.replaces) continue;
        for (const auto& [other_path, other_mode] : rows_[i].claims) {
          const bool related = covers(path, other_path) || covers(other_path, path);
          const bool together = !mode.is_exclusive() && !other_mode.is_exclusive() &&
                                mode.name() == other_mode.name();
          if (related && !together) row.excluded_by |= only(i);
          if (path != other_path || !together) continue;
          limit.members |= only(i);
          limit.weights[i] = other_mode.weight();
        }
      }
      if (limit.most != 0) row.limits.push_back(limit);
    }
    ++size_;
  }
  void pop() { --size_; }

  // Counts the members of a group under another limit. Who holds goes on holding.
  void set_limit(const Claim& claim) {
    Segments path;
    assign_segments(path, claim.path);
    const Set waiting_before = waiting(all());
    for (std::size_t i = 0; i < size_; ++i) {
      for (Limit& limit : rows_[i].limits) {
        if (limit.path != path || limit.group != claim.mode.name()) continue;
        limit.most = claim.mode.limit();
        limit.kept = !has(waiting_before, i);
      }
    }
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] Set all() const { return static_cast<Set>((std::uint64_t{1} << size_) - 1); }

  // The tickets that `ticket` waits for if only those in `live` exist.
  [[nodiscard]] Set blockers(std::size_t ticket, Set live) const {
    Set found = rows_[ticket].excluded_by & live;
    for (const Limit& limit : rows_[ticket].limits) {
      if (limit.exceeded(live)) found |= limit.members & live;
    }
    return found;
  }
  [[nodiscard]] bool waits(std::size_t ticket, Set live) const {
    return blockers(ticket, live) != 0;
  }
  [[nodiscard]] Set waiting(Set live) const {
    Set found = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      if (has(live, i) && waits(i, live)) found |= only(i);
    }
    return found;
  }
  // Whether `a` and `b` exclude each other, regardless of limits.
  [[nodiscard]] bool conflict(std::size_t a, std::size_t b) const {
    return has(rows_[std::max(a, b)].excluded_by, std::min(a, b));
  }
  // Whether no limit is exceeded among `held`.
  [[nodiscard]] bool within_limits(Set held) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (!has(held, i)) continue;
      for (const Limit& limit : rows_[i].limits) {
        if (limit.exceeded(held)) return false;
      }
    }
    return true;
  }

  // Whether `ticket` can't be released while `other` waits: `other` belongs to the same owner, or
  // to a descendant.
  [[nodiscard]] bool needs(std::size_t ticket, std::size_t other) const {
    if (family(ticket) == family(other)) return true;
    const Segments& owner = rows_[ticket].owner;
    return !owner.empty() && covers(owner, rows_[other].owner);
  }

  // What can remain when owners that do not wait finish one after another, in any order, until none
  // can: one set per outcome. If the empty set is among them, everybody can finish.
  [[nodiscard]] std::vector<Set> endings() const {
    std::vector<Set> found;
    std::vector<Set> reached{all()};
    for (std::size_t at = 0; at < reached.size(); ++at) {
      const Set live = reached[at];
      const Set waiting_now = waiting(live);
      bool ended = true;
      for (std::size_t i = 0; i < size(); ++i) {
        if (!has(live, i) || holds_back(i, waiting_now)) continue;
        const Set rest = live & ~tickets_of_owner(i);
        if (std::ranges::find(reached, rest) == reached.end()) reached.push_back(rest);
        ended = false;
      }
      if (ended) found.push_back(live);
    }
    return found;
  }

 private:
  using Segments = std::vector<std::string>;
  struct Limit {
    Segments path;
    std::string group;
    std::uint32_t most = 0;
    std::uint32_t weight = 1;
    bool kept = false;  // It held when the limit was changed.
    Set members = 0;    // Earlier tickets.
    std::array<std::uint32_t, 32> weights{};

    [[nodiscard]] bool exceeded(Set live) const {
      if (kept) return false;
      std::uint64_t taken = weight;
      for (Set rest = members & live; rest != 0; rest &= rest - 1) {
        taken += weights.at(static_cast<std::size_t>(std::countr_zero(rest)));
      }
      return taken > most;
    }
  };
  // Of a ticket and its upgrade: the first.
  [[nodiscard]] std::size_t family(std::size_t ticket) const { return rows_[ticket].replaces; }

  struct Row {
    Segments owner;
    std::size_t replaces = 0;  // The ticket that this one upgrades, or itself.
    std::vector<std::pair<Segments, Mode>> claims;
    Set excluded_by = 0;  // Earlier tickets.
    std::vector<Limit> limits;

    // Reuses the old buffers: a walk pushes and pops millions of tickets without allocating.
    void assign(const Ticket& ticket) {
      assign_segments(owner, ticket.owner.id);
      claims.resize(ticket.claims.size());
      for (std::size_t i = 0; i < claims.size(); ++i) {
        assign_segments(claims[i].first, ticket.claims[i].path);
        claims[i].second = ticket.claims[i].mode;
      }
      excluded_by = 0;
      limits.clear();
    }
  };

  static void assign_segments(Segments& to, const Path& path) {
    to.resize(path.depth());
    std::size_t i = 0;
    for (const std::string_view segment : path.segments()) to[i++] = segment;
  }
  static bool covers(const Segments& a, const Segments& b) {
    return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
  }
  // Whether the owner of `ticket` can't finish while these wait.
  [[nodiscard]] bool holds_back(std::size_t ticket, Set waiting_now) const {
    for (std::size_t i = 0; i < size(); ++i) {
      if (has(waiting_now, i) && needs(ticket, i)) return true;
    }
    return false;
  }
  [[nodiscard]] Set tickets_of_owner(std::size_t ticket) const {
    Set found = only(ticket);
    for (std::size_t i = 0; i < size(); ++i) {
      if (family(i) == family(ticket)) found |= only(i);
      if (!rows_[i].owner.empty() && rows_[i].owner == rows_[ticket].owner) found |= only(i);
    }
    return found;
  }

  std::size_t size_ = 0;
  std::vector<Row> rows_;  // Those from size_ on are unused.
};

}  // namespace tenure
