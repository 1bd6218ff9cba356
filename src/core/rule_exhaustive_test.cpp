// Exhaustive tests of small cases: the invariants of rule.hpp, deadlocks, downgrades.
//
// Goal: the rule holds for every sequence of requests and releases, not only for those we thought
// of. Method: a state is the list of live tickets. A release only removes a ticket from it, and
// removing a ticket never takes a grant away, so every state that a sequence with releases reaches
// is also the end of a sequence of requests alone. A depth-first walk over the requests therefore
// visits every state that any sequence can reach with that many live tickets. At each state the
// test plays every next request and every next release. If names are interchangeable (owners,
// groups, branches of the tree), a walk uses the second name only after the first: other sequences
// differ only by exchanged names.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/rule_model.hpp"
#include "tenure/rule.hpp"
#include "tests/kit/sanitized.hpp"

namespace tenure {
namespace {

using Set = RuleModel::Set;

using kit::sanitized;  // Short walks are enough to find a sanitizer's errors.

struct Count {
  std::uint64_t states = 0;
  std::uint64_t deadlocks = 0;  // Requests that were refused: they do not become states.
  std::uint64_t changes = 0;    // Limits that were changed.
  friend bool operator==(const Count&, const Count&) = default;
  friend void PrintTo(const Count& count, std::ostream* out) {
    *out << count.states << " states, " << count.deadlocks << " deadlocks, " << count.changes
         << " changes";
  }
};

class Walk {
 public:
  struct Plan {
    std::vector<std::string> owners;
    bool one_at_a_time = true;  // An owner that waits makes no other request.
    std::vector<std::string> claims;
    // Pairs of parts of "owner claim": the second is used only after the first.
    std::vector<std::pair<std::string, std::string>> alike;
    std::size_t most = 0;  // The maximum number of live tickets.
    // Limits that may be changed to these, once or several times in a sequence. Requests name the
    // limit that is in use.
    std::vector<std::string> limits{};
    std::size_t most_changes = 1;
    bool upgrades = false;  // Holders may ask for the same path exclusively.
  };

  explicit Walk(const Plan& plan)
      : one_at_a_time_(plan.one_at_a_time),
        most_(plan.most),
        changes_left_(plan.most_changes),
        upgrades_(plan.upgrades) {
    tickets_.reserve(plan.most);
    for (const std::string& limit : plan.limits) limits_.push_back(claim_of(limit));
    for (const std::string& owner : plan.owners) {
      for (const std::string& claim : plan.claims) {
        const std::string text = owner + " " + claim;
        Choice choice{.ticket = ticket_of(1, text)};
        for (std::size_t i = 0; i < plan.alike.size(); ++i) {
          if (text.contains(plan.alike[i].first)) choice.firsts |= 1U << i;
          if (text.contains(plan.alike[i].second)) choice.needs |= 1U << i;
        }
        choices_.push_back(choice);
      }
    }
  }

  Count run() {
    visit(0);
    return count_;
  }

 private:
  struct Choice {
    Ticket ticket;
    unsigned firsts = 0;  // Bits by index in Plan::alike.
    unsigned needs = 0;
  };

  void visit(unsigned firsts) {
    ++count_.states;
    if (changes_left_ != 0) visit_changes(firsts);
    if (tickets_.size() == most_) return;
    const Set held = granted_;
    for (const Choice& choice : choices_) {
      if ((choice.needs & ~firsts) != 0) continue;
      if (one_at_a_time_ && owner_waits(choice.ticket.owner)) continue;
      const std::optional<Ticket> ticket = as_agreed(choice.ticket);
      if (ticket) play(*ticket, held, firsts | choice.firsts);
      if (testing::Test::HasFailure()) return;
    }
    for (std::size_t i = 0; upgrades_ && i < tickets_.size(); ++i) {
      if (const std::optional<Ticket> ticket = upgrade_of(i)) play(*ticket, held, firsts);
      if (testing::Test::HasFailure()) return;
    }
  }

  void play(const Ticket& ticket, Set held, unsigned firsts) {
    request(ticket, held);
    if (testing::Test::HasFailure()) return;
    if (admitted()) {
      visit(firsts);
    } else {
      ++count_.deadlocks;
    }
    tickets_.pop_back();
    model_.pop();
    granted_ = held;
  }

  // Null: it is not granted, exclusive already, or being upgraded.
  [[nodiscard]] std::optional<Ticket> upgrade_of(std::size_t i) const {
    const Ticket& held = tickets_[i];
    const Claim wanted{held.claims.front().path};
    if (!RuleModel::has(granted_, i) || held.claims.front().mode.is_exclusive()) return {};
    if (find_upgrade_fault(held.claims, {&wanted, 1})) return {};
    if (std::ranges::find(tickets_, held.number, &Ticket::replaces) != tickets_.end()) return {};
    return Ticket{.number = {}, .claims = {wanted}, .owner = held.owner, .replaces = held.number};
  }

  void visit_changes(unsigned firsts) {
    for (const Claim& limit : limits_) {
      const std::vector<Ticket> tickets = tickets_;
      const RuleModel model = model_;
      const Set held = granted_;
      if (change(limit)) {
        --changes_left_;
        visit(firsts);
        ++changes_left_;
      }
      tickets_ = tickets;
      model_ = model;
      granted_ = held;
      if (testing::Test::HasFailure()) return;
    }
  }

  // False: nothing is to be changed, or the change is refused.
  bool change(const Claim& limit) {
    const auto changed = change_limit(limit, tickets_);
    const bool too_large = std::ranges::any_of(tickets_, [&limit](const Ticket& ticket) {
      const Claim& claim = ticket.claims.front();
      return claim.path == limit.path && claim.mode.name() == limit.mode.name() &&
             claim.mode.weight() > limit.mode.limit();
    });
    EXPECT_EQ(changed.has_value(), !too_large) << limit.text() << ": " << state();
    if (!changed.has_value() || changed->changed.empty()) return false;
    const Set before = granted_;
    const auto was = tickets_;
    for (const Ticket& ticket : changed->changed) tickets_[ticket.number.value - 1] = ticket;
    model_.set_limit(limit);
    ++count_.changes;
    compare_all(limit);
    EXPECT_EQ(before & ~granted_, 0U) << "lost by " << limit.text() << ": " << state();
    for (const Ticket& ticket : changed->changed) {
      const Ticket& old = was[ticket.number.value - 1];
      if (old.claims.front().mode.limit() > limit.mode.limit()) {
        EXPECT_EQ(granted_, before) << "granted by a lower limit: " << state();
      }
    }
    return completes_no_deadlock(limit);
  }

  void compare_all(const Claim& limit) {
    const Set waiting = model_.waiting(model_.all());
    granted_ = 0;
    const std::vector<QueuePosition> positions = queue_positions(tickets_);
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
      Set blocking = 0;
      for (const Token number : blockers(tickets_[i], tickets_)) {
        blocking |= RuleModel::only(number.value - 1);
      }
      EXPECT_EQ(blocking, model_.blockers(i, model_.all())) << limit.text() << ": " << state();
      EXPECT_EQ(positions[i].blocked_by.empty(), blocking == 0) << state();
      EXPECT_EQ(positions[i].position, position(tickets_[i], tickets_)) << state();
      if (granted(tickets_[i], tickets_)) granted_ |= RuleModel::only(i);
    }
    EXPECT_EQ(granted_, model_.all() & ~waiting) << limit.text() << ": " << state();
  }

  // Whether everybody can finish; a deadlock must be found from a waiting member of the group.
  bool completes_no_deadlock(const Claim& limit) {
    const Set stuck = model_.endings().front();
    const bool found = std::ranges::any_of(tickets_, [&](const Ticket& ticket) {
      return ticket.claims.front().path == limit.path &&
             !find_cycle(tickets_, ticket.number).empty();
    });
    EXPECT_EQ(found, stuck != 0) << limit.text() << ": " << state();
    if (stuck != 0) ++count_.deadlocks;
    return stuck == 0;
  }

  // The request with the limit that is in use; null: that is smaller than what it takes.
  [[nodiscard]] std::optional<Ticket> as_agreed(Ticket ticket) const {
    Claim& claim = ticket.claims.front();
    if (limits_.empty() || claim.mode.limit() == 0) return ticket;
    const auto clash = find_limit_clash(ticket.claims, tickets_);
    if (!clash) return ticket;
    if (claim.mode.weight() > clash->live.mode.limit()) return std::nullopt;
    claim.mode = claim.mode.with_limit(clash->live.mode.limit());
    return ticket;
  }

  // `held`: the tickets that were granted before.
  void request(const Ticket& ticket, Set held) {
    tickets_.push_back(ticket);
    tickets_.back().number = {tickets_.size()};
    model_.push(tickets_.back());
    compare_with_model();
    check_invariants(held);
  }

  // The blockers of earlier tickets were compared when those tickets were the last.
  void compare_with_model() {
    const Set waiting = model_.waiting(model_.all());
    const Ticket& last = tickets_.back();
    Set blocking = 0;
    for (const Token number : blockers(last, tickets_)) {
      blocking |= RuleModel::only(number.value - 1);
    }
    const auto ahead = static_cast<std::size_t>(std::popcount(blocking & waiting));
    ASSERT_EQ(blocking, model_.blockers(tickets_.size() - 1, model_.all())) << state();
    ASSERT_EQ(position(last, tickets_), blocking == 0 ? 0 : 1 + ahead) << state();
    granted_ = 0;
    for (std::size_t i = 0; i < tickets_.size(); ++i) {
      if (granted(tickets_[i], tickets_)) granted_ |= RuleModel::only(i);
    }
    ASSERT_EQ(granted_, model_.all() & ~waiting) << state();
  }

  // `before`: the tickets that were granted before the last request.
  void check_invariants(Set before) {
    ASSERT_TRUE(RuleModel::has(granted_, 0)) << "the earliest waits: " << state();
    ASSERT_EQ(granted_ & ~RuleModel::only(tickets_.size() - 1), before)
        << "a request changed what others have: " << state();
    ASSERT_TRUE(model_.within_limits(granted_)) << state();
    for (std::size_t later = 0; later < tickets_.size(); ++later) {
      if (!RuleModel::has(granted_, later)) continue;
      for (std::size_t earlier = 0; earlier < later; ++earlier) {
        ASSERT_FALSE(model_.conflict(earlier, later))
            << "granted together, or overtaken: " << state();
      }
    }
    for (std::size_t gone = 0; gone < tickets_.size(); ++gone) {
      const Set rest = model_.all() & ~RuleModel::only(gone);
      ASSERT_EQ(model_.waiting(rest) & granted_, 0U) << "lost by a release: " << state();
    }
  }

  // Whether the last request stands, or is refused as a deadlock; checks that this is right.
  bool admitted() {
    const std::vector<Set> endings = model_.endings();
    EXPECT_EQ(endings.size(), 1U) << "the order of finishing matters: " << state();
    const Set stuck = endings.front();
    const Token last = tickets_.back().number;
    const std::vector<Wait> here = find_cycle(tickets_, last);
    const std::vector<Wait> anywhere = find_cycle(tickets_);
    EXPECT_EQ(here.empty(), stuck == 0) << state();
    EXPECT_EQ(anywhere.empty(), stuck == 0) << state();
    if (stuck == 0) return true;
    EXPECT_TRUE(is_circle(here, stuck)) << state() << describe_cycle(here, tickets_);
    EXPECT_TRUE(is_circle(anywhere, stuck)) << state() << describe_cycle(anywhere, tickets_);
    EXPECT_EQ(here.front().waiting, last) << state();
    const auto others = std::ranges::count_if(
        tickets_, [&](const Ticket& ticket) { return tickets_.back().owner.within(ticket.owner); });
    EXPECT_TRUE(others > 1 || tickets_.back().replaces != Token{})
        << "a single request is in a deadlock: " << state();
    return false;
  }

  [[nodiscard]] bool is_circle(const std::vector<Wait>& circle, Set stuck) const {
    for (std::size_t i = 0; i < circle.size(); ++i) {
      const std::size_t waiting = circle[i].waiting.value - 1;
      const std::size_t blocker = circle[i].blocker.value - 1;
      const std::size_t next = circle[(i + 1) % circle.size()].waiting.value - 1;
      if (!RuleModel::has(stuck, waiting) || !model_.needs(blocker, next) ||
          !RuleModel::has(model_.blockers(waiting, stuck), blocker)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool owner_waits(const Owner& owner) const {
    return std::ranges::any_of(tickets_, [&](const Ticket& ticket) {
      return ticket.owner == owner && !RuleModel::has(granted_, ticket.number.value - 1);
    });
  }

  [[nodiscard]] std::string state() const {
    std::string out;
    for (const Ticket& ticket : tickets_) {
      out += ticket.owner.text() + " " + ticket.claims.front().text();
      if (ticket.replaces != Token{}) out += " for " + std::to_string(ticket.replaces.value);
      out += "; ";
    }
    return out;
  }

  bool one_at_a_time_;
  std::size_t most_;
  std::size_t changes_left_;
  bool upgrades_;
  std::vector<Claim> limits_;
  std::vector<Choice> choices_;
  Count count_;
  std::vector<Ticket> tickets_;
  RuleModel model_;
  Set granted_ = 0;
};

std::vector<std::string> every(const std::vector<std::string>& paths,
                               const std::vector<std::string>& modes) {
  std::vector<std::string> claims;
  for (const std::string& path : paths) {
    for (const std::string& mode : modes) claims.push_back(path + mode);
  }
  return claims;
}

TEST(RuleExhaustive, OnAChainOfPaths) {
  const Count count =
      Walk({.owners = {"o1", "o2", "o3"},
            .claims = every({"/", "a", "a/b"}, {"", ":shared", ":g", ":permits(2)"}),
            .alike = {{"o1", "o2"}, {"o2", "o3"}, {":shared", ":g"}},
            .most = sanitized ? 5 : 6})
          .run();
  EXPECT_EQ(count, (sanitized ? Count{.states = 38'017, .deadlocks = 106'164}
                              : Count{.states = 238'867, .deadlocks = 682'968}));
}

TEST(RuleExhaustive, OnAForkOfPaths) {
  const Count count =
      Walk({.owners = {"o1", "o2", "o3"},
            .claims = every({"a", "a/b", "a/c"}, {"", ":shared", ":g", ":permits(2)"}),
            .alike = {{"o1", "o2"}, {"o2", "o3"}, {":shared", ":g"}, {"a/b", "a/c"}},
            .most = sanitized ? 5 : 6})
          .run();
  EXPECT_EQ(count, (sanitized ? Count{.states = 52'574, .deadlocks = 119'328}
                              : Count{.states = 275'813, .deadlocks = 759'823}));
}

// As several threads of one owner do.
TEST(RuleExhaustive, WithOwnersThatAskWhileTheyWait) {
  const Count count =
      Walk({.owners = {"o1", "o2", "o3"},
            .one_at_a_time = false,
            .claims = every({"a", "a/b", "a/c"}, {"", ":shared", ":g", ":permits(2)"}),
            .alike = {{"o1", "o2"}, {"o2", "o3"}, {":shared", ":g"}, {"a/b", "a/c"}},
            .most = 4})
          .run();
  EXPECT_EQ(count, (Count{.states = 13'816, .deadlocks = 22'161}));
}

TEST(RuleExhaustive, WithAFamilyOfOwners) {
  const Count count = Walk({.owners = {"o", "o/1", "o/2", "p", "nobody"},
                            .one_at_a_time = false,
                            .claims = every({"x", "y"}, {"", ":shared", ":permits(2)"}),
                            .alike = {{" x", " y"}, {"o/1", "o/2"}},
                            .most = 4})
                          .run();
  EXPECT_EQ(count, (Count{.states = 132'848, .deadlocks = 45'665}));
}

TEST(RuleExhaustive, WithWeights) {
  const Count count = Walk({.owners = {"o1", "o2", "o3"},
                            .claims = every({"a", "a/b"}, {"", ":permits(3)", ":permits(3)*2",
                                                           ":permits(3)*3", ":g(2)*2"}),
                            .alike = {{"o1", "o2"}, {"o2", "o3"}},
                            .most = sanitized ? 4 : 5})
                          .run();
  EXPECT_EQ(count, (sanitized ? Count{.states = 10'623, .deadlocks = 18'748}
                              : Count{.states = 56'093, .deadlocks = 124'438}));
}

TEST(RuleExhaustive, WithUpgrades) {
  const Count count = Walk({.owners = {"nobody", "o1", "o2"},
                            .claims = every({"a", "a/b"}, {"", ":shared", ":g", ":permits(2)"}),
                            .alike = {{"o1", "o2"}, {":shared", ":g"}},
                            .most = sanitized ? 4 : 5,
                            .upgrades = true})
                          .run();
  EXPECT_EQ(count, (sanitized ? Count{.states = 14'141, .deadlocks = 9'644}
                              : Count{.states = 53'133, .deadlocks = 63'348}));
}

TEST(RuleExhaustive, WithLimitsThatAreChanged) {
  const Count count =
      Walk({.owners = {"o1", "o2", "o3"},
            .claims = every({"a", "a/b"}, {"", ":permits(2)", ":permits(2)*2"}),
            .alike = {{"o1", "o2"}, {"o2", "o3"}},
            .most = sanitized ? 4 : 5,
            .limits = every({"a", "a/b"}, {":permits(1)", ":permits(2)", ":permits(3)"}),
            .most_changes = 2})
          .run();
  EXPECT_EQ(count,
            (sanitized ? Count{.states = 120'201, .deadlocks = 76'938, .changes = 51'762}
                       : Count{.states = 815'333, .deadlocks = 843'864, .changes = 274'846}));
}

// A downgrade keeps the number, so it must take no grant from another ticket. Method: three tickets
// with each of 21 claims; the claim of each is changed to each of the others.
TEST(RuleExhaustive, DowngradeTakesNoGrantAway) {
  std::vector<Claim> claims;
  for (const std::string& text : every({"x", "x/1", "x/2"}, {"", ":shared", ":g", ":g(1)", ":g(2)",
                                                             ":g(2)*2", ":permits(2)"})) {
    claims.push_back(claim_of(text));
  }
  std::uint64_t downgrades = 0;
  const auto check = [&](const std::vector<Ticket>& before, std::size_t changed,
                         const Claim& wanted) {
    std::vector<Ticket> after = before;
    after[changed].claims = {wanted};
    if (find_downgrade_fault(before[changed].claims, after[changed].claims)) return;
    if (find_limit_clash(after[changed].claims, after)) return;
    ++downgrades;
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_TRUE(!granted(before[i], before) || granted(after[i], after))
          << "ticket " << i + 1 << " by " << changed + 1 << " -> " << wanted.text();
    }
  };
  for (const Claim& first : claims) {
    for (const Claim& second : claims) {
      for (const Claim& third : claims) {
        const std::vector<Ticket> tickets{{.number = {1}, .claims = {first}, .owner = {}},
                                          {.number = {2}, .claims = {second}, .owner = {}},
                                          {.number = {3}, .claims = {third}, .owner = {}}};
        for (std::size_t changed = 0; changed < tickets.size(); ++changed) {
          for (const Claim& wanted : claims) {
            ASSERT_NO_FATAL_FAILURE(check(tickets, changed, wanted));
          }
        }
      }
    }
  }
  EXPECT_EQ(downgrades, 68'502U);
}

}  // namespace
}  // namespace tenure
