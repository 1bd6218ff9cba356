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
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/rule_model.hpp"
#include "tenure/rule.hpp"

namespace tenure {
namespace {

using Set = RuleModel::Set;

// The address sanitizer makes a walk ten times slower, and short walks are enough to find its
// errors.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
constexpr bool sanitized = __has_feature(address_sanitizer);

struct Count {
  std::uint64_t states = 0;
  std::uint64_t deadlocks = 0;  // Requests that were refused: they do not become states.
  friend bool operator==(const Count&, const Count&) = default;
  friend void PrintTo(const Count& count, std::ostream* out) {
    *out << count.states << " states, " << count.deadlocks << " deadlocks";
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
  };

  explicit Walk(const Plan& plan) : one_at_a_time_(plan.one_at_a_time), most_(plan.most) {
    tickets_.reserve(plan.most);
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
    if (tickets_.size() == most_) return;
    const Set held = granted_;
    for (const Choice& choice : choices_) {
      if ((choice.needs & ~firsts) != 0) continue;
      if (one_at_a_time_ && owner_waits(choice.ticket.owner)) continue;
      request(choice.ticket, held);
      if (testing::Test::HasFailure()) return;
      if (admitted()) {
        visit(firsts | choice.firsts);
      } else {
        ++count_.deadlocks;
      }
      tickets_.pop_back();
      model_.pop();
      granted_ = held;
    }
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
    EXPECT_GT(others, 1) << "a single request is in a deadlock: " << state();
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
      out += ticket.owner.text() + " " + ticket.claims.front().text() + "; ";
    }
    return out;
  }

  bool one_at_a_time_;
  std::size_t most_;
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
