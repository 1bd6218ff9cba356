#include "tenure/rule.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/rule_model.hpp"

namespace tenure {
namespace {

std::string deadlock(const std::vector<Ticket>& tickets) {
  return describe_cycle(find_cycle(tickets), tickets);
}

std::string deadlock_at_last(const std::vector<Ticket>& tickets) {
  return describe_cycle(find_cycle(tickets, tickets.back().number), tickets);
}

// --- The rule ---

TEST(Rule, GrantsInOrderAndNobodyOvertakes) {
  EXPECT_EQ(report(queue({
                "a book/1:shared",
                "b book/1:shared",
                "c book/1",
                "d book/1:shared",  // Could share with 1 and 2, but the writer came first.
                "e book/2",
            })),
            "1 holds; 2 holds; 3 waits for 1 2, position 1; 4 waits for 3, position 2; 5 holds");
}

TEST(Rule, CoversWhatIsBelowAndNothingBeside) {
  EXPECT_EQ(report(queue({"a book/1/page/2", "b book/1", "c book/10", "d book", "e page", "f /"})),
            "1 holds; 2 waits for 1, position 1; 3 holds; 4 waits for 1 2 3, position 2; 5 holds; "
            "6 waits for 1 2 3 4 5, position 3");
}

TEST(Rule, LetsOneGroupShareAndKeepsOthersOut) {
  EXPECT_EQ(report(queue({"a graph:pull", "b graph/x:pull", "c graph:observe", "d graph:pull"})),
            "1 holds; 2 holds; 3 waits for 1 2, position 1; 4 waits for 3, position 2");
}

TEST(Rule, CountsMembersOfALimitedGroupWaitingOnesIncluded) {
  EXPECT_EQ(report(queue(
                {"a api:permits(2)", "b api:permits(2)", "c api:permits(2)", "d api:permits(2)"})),
            "1 holds; 2 holds; 3 waits for 1 2, position 1; 4 waits for 1 2 3, position 2");
}

TEST(Rule, AddsUpWeightsAndLetsNoSmallRequestOvertakeALargeOne) {
  EXPECT_EQ(report(queue({"a api:permits(4)*3", "b api:permits(4)*2", "c api:permits(4)",
                          "d api:permits(4)*4"})),
            "1 holds; 2 waits for 1, position 1; 3 waits for 1 2, position 2; "
            "4 waits for 1 2 3, position 3");
  EXPECT_EQ(report(queue({"a api:permits(4)*3", "b api:permits(4)", "c api:permits(4)"})),
            "1 holds; 2 holds; 3 waits for 1 2, position 1");
}

TEST(Rule, AddsUpTheLargestWeights) {
  EXPECT_EQ(report(queue({"a api:permits(4294967295)*4294967295",
                          "b api:permits(4294967295)*4294967295", "c api:permits(4294967295)"})),
            "1 holds; 2 waits for 1, position 1; 3 waits for 1 2, position 2");
}

TEST(Rule, DoesNotAddUpLimitsOfDifferentPaths) {
  EXPECT_EQ(report(queue({"a api:permits(1)", "b api/eu:permits(1)", "c api/us:permits(1)",
                          "d api + api/eu:permits(1)"})),
            "1 holds; 2 holds; 3 holds; 4 waits for 1 2 3, position 1");
}

TEST(Rule, GrantsAllClaimsOrNone) {
  EXPECT_EQ(report(queue({"a x", "b x + y", "c y", "d z + z/1:shared"})),
            "1 holds; 2 waits for 1, position 1; 3 waits for 2, position 2; 4 holds");
}

TEST(Rule, TakesTicketsInAnyOrderAndWithoutTheOneThatAsks) {
  std::vector<Ticket> tickets = queue({"a x", "b x", "c x:shared"});
  const Ticket last = tickets.back();
  tickets.pop_back();
  std::ranges::reverse(tickets);
  EXPECT_EQ(blockers(last, tickets), (std::vector<Token>{{1}, {2}}));
  EXPECT_EQ(position(last, tickets), 2U);
  EXPECT_FALSE(granted(last, tickets));
}

// --- What is wrong with a request ---

std::string fault(std::string_view claims) {
  return find_fault(ticket_of(1, "a " + std::string{claims}).claims).value_or("none");
}

TEST(Fault, SaysWhatIsWrongWithARequestOnItsOwn) {
  EXPECT_EQ(fault("x + x/y + y:shared"), "none");
  EXPECT_EQ(fault(""), "the request has no claims: name at least one path");
  EXPECT_EQ(fault("x + y:shared + x:shared"),
            "the request claims the path 'x' twice, as exclusive and as shared: claim it once");
  std::vector<Claim> many;
  for (std::size_t i = 0; i < max_claims; ++i) many.emplace_back(Path::of(i));
  EXPECT_EQ(find_fault(many), std::nullopt);
  many.emplace_back(Path::of("one more"));
  EXPECT_EQ(find_fault(many).value(),
            "the request has 65 claims: use at most 64, or claim a path above them");
}

bool may_downgrade(std::string_view held, std::string_view wanted) {
  return !find_downgrade_fault(ticket_of(1, "a " + std::string{held}).claims,
                               ticket_of(1, "a " + std::string{wanted}).claims);
}

TEST(Fault, LetsADowngradeOnlyWeaken) {
  EXPECT_TRUE(may_downgrade("x", "x"));
  EXPECT_TRUE(may_downgrade("x + y", "y"));
  EXPECT_TRUE(may_downgrade("x", "x:shared"));
  EXPECT_TRUE(may_downgrade("x", "x:permits(2)"));
  EXPECT_TRUE(may_downgrade("x", "x/1 + x/2:shared"));
  EXPECT_TRUE(may_downgrade("x:shared", "x/1:shared"));
  EXPECT_TRUE(may_downgrade("x:permits(2)", "x:permits(2)"));
  EXPECT_TRUE(may_downgrade("x", "x:permits(3)*2"));
  EXPECT_TRUE(may_downgrade("x:permits(3)*3", "x:permits(3)*2"));

  EXPECT_FALSE(may_downgrade("x", ""));
  EXPECT_FALSE(may_downgrade("x", "x + x:shared"));
  EXPECT_FALSE(may_downgrade("x", "y"));
  EXPECT_FALSE(may_downgrade("x/1", "x"));
  EXPECT_FALSE(may_downgrade("x:shared", "x"));
  EXPECT_FALSE(may_downgrade("x:shared", "x:pull"));
  EXPECT_FALSE(may_downgrade("x:shared", "x:shared(2)"));
  EXPECT_FALSE(may_downgrade("x:permits(2)", "x:permits(3)"));
  EXPECT_FALSE(may_downgrade("x:permits(2)", "x:permits"));
  EXPECT_FALSE(may_downgrade("x:permits(3)", "x:permits(3)*2"));
  EXPECT_FALSE(may_downgrade("x:permits(3)*2", "x:permits(4)*2"));
  EXPECT_FALSE(may_downgrade("x:permits(2)", "x/1:permits(2)"));
  EXPECT_EQ(
      find_downgrade_fault(queue({"a x:shared + y"}).front().claims, queue({"a x"}).front().claims)
          .value(),
      "cannot downgrade to x: it claims more than is held (x:shared + y); a downgrade may drop "
      "claims, turn exclusive into a group, take less of a limit, or narrow a claim without a "
      "limit "
      "to a deeper path; for anything else, release and lock again");
}

TEST(Fault, LetsAHoldCoverWhatItHoldsOrLess) {
  const auto covered = [](std::string_view held, std::string_view wanted) {
    return !find_again_fault(ticket_of(1, "a " + std::string{held}).claims,
                             ticket_of(1, "a " + std::string{wanted}).claims);
  };
  EXPECT_TRUE(covered("x", "x"));
  EXPECT_TRUE(covered("x", "x/1:shared + x/2:permits(9)*3"));
  EXPECT_TRUE(covered("x:shared + y", "y/1 + x:shared"));
  EXPECT_TRUE(covered("x:permits(3)*2", "x:permits(3)"));
  EXPECT_FALSE(covered("x:shared", "x"));
  EXPECT_FALSE(covered("x/1", "x:shared"));
  EXPECT_FALSE(covered("x:permits(3)", "x:permits(3)*2"));
  EXPECT_FALSE(covered("x:permits(3)", "x/1:permits(3)"));
  EXPECT_FALSE(covered("x", "x + y"));
  EXPECT_FALSE(covered("x", ""));
}

TEST(Fault, FindsALiveClaimWithAnotherLimit) {
  const auto live = queue({"a api/eu:permits(2)", "b x + api:permits(3)"});
  const auto clash_with = [&live](std::string_view claim) {
    const auto clash = find_limit_clash(std::vector{claim_of(claim)}, live);
    if (!clash) return std::string{"none"};
    return clash->asked.text() + " against " + clash->live.text() + " of " + clash->owner.text() +
           ", ticket " + std::to_string(clash->number.value);
  };
  EXPECT_EQ(clash_with("api:permits(2)"), "api:permits(2) against api:permits(3) of b, ticket 2");
  EXPECT_EQ(clash_with("api:permits"), "api:permits against api:permits(3) of b, ticket 2");
  EXPECT_EQ(clash_with("api:permits(3)"), "none");
  EXPECT_EQ(clash_with("api:pull(2)"), "none");
  EXPECT_EQ(clash_with("api"), "none");
  EXPECT_EQ(clash_with("api/us:permits(9)"), "none");
}

// --- Deadlock ---

TEST(Deadlock, IsTwoOwnersThatWaitForEachOther) {
  const auto tickets = queue({"a x", "b y", "b x", "a y"});
  EXPECT_EQ(deadlock_at_last(tickets),
            "a (y, ticket 4) waits for b (y, ticket 2), b (x, ticket 3) waits for a (x, ticket 1)");
  EXPECT_EQ(deadlock(tickets), deadlock_at_last(tickets));
}

TEST(Deadlock, IsAnOwnerThatWaitsForItself) {
  EXPECT_EQ(deadlock_at_last(queue({"a x/1 + y:shared", "a x"})),
            "a (x, ticket 2) waits for a (x/1 + y:shared, ticket 1)");
  EXPECT_EQ(deadlock_at_last(queue({"a x:permits(1)", "a x:permits(1)"})),
            "a (x:permits(1), ticket 2) waits for a (x:permits(1), ticket 1)");
}

TEST(Deadlock, IsNotASecondShareUnlessSomebodyWaitsInBetween) {
  EXPECT_EQ(deadlock_at_last(queue({"a x:shared", "a x:shared"})), "");
  EXPECT_EQ(deadlock_at_last(queue({"a x:shared", "b x", "a x:shared"})),
            "a (x:shared, ticket 3) waits for b (x, ticket 2), "
            "b (x, ticket 2) waits for a (x:shared, ticket 1)");
  EXPECT_EQ(deadlock_at_last(queue({"a x:shared", "nobody x", "a x:shared"})),
            "a (x:shared, ticket 3) waits for nobody (x, ticket 2), "
            "nobody (x, ticket 2) waits for a (x:shared, ticket 1)");
}

TEST(Deadlock, IsNoneWhileOneMemberOfALimitedGroupCanFinish) {
  EXPECT_EQ(
      deadlock_at_last(queue({"a p:permits(2)", "b p:permits(2)", "c x", "a x", "c p:permits(2)"})),
      "");  // A cycle, a -> c -> a; but b does not wait, and will make room for c.
  EXPECT_EQ(deadlock_at_last(
                queue({"a p:permits(2)", "b p:permits(2)", "c x", "a x", "b x", "c p:permits(2)"})),
            "c (p:permits(2), ticket 6) waits for a (p:permits(2), ticket 1), "
            "a (x, ticket 4) waits for c (x, ticket 3)");
}

TEST(Deadlock, TakesWhatAncestorsHoldAsOnesOwn) {
  EXPECT_EQ(deadlock_at_last(queue({"job x", "job/step/1 x"})),
            "job/step/1 (x, ticket 2) waits for job (x, ticket 1)");
  EXPECT_EQ(deadlock_at_last(queue({"job x", "b y", "job/step y", "b x"})),
            "b (x, ticket 4) waits for job (x, ticket 1), "
            "job/step (y, ticket 3) waits for b (y, ticket 2)");
}

TEST(Deadlock, IsNoneAmongSiblingsOrFromAParentToItsChild) {
  EXPECT_EQ(deadlock_at_last(queue({"job/1 x", "job/2 x"})), "");
  EXPECT_EQ(deadlock_at_last(queue({"job/1 x", "job x"})), "");
  EXPECT_EQ(deadlock_at_last(queue({"job x", "job-2 x"})), "");
  EXPECT_EQ(deadlock_at_last(queue({"nobody x", "nobody x"})), "");
  EXPECT_EQ(deadlock_at_last(queue({"job/1 x", "job/2 y", "job/1 y", "job/2 x"})),
            "job/2 (x, ticket 4) waits for job/1 (x, ticket 1), "
            "job/1 (y, ticket 3) waits for job/2 (y, ticket 2)");
}

TEST(Deadlock, IsOnlySoughtWhereTheStartTakesPart) {
  const auto tickets = queue({"a x", "b y", "b x", "a y", "c x", "d z"});
  EXPECT_EQ(find_cycle(tickets, Token{5}), std::vector<Wait>{});  // Stuck, but not part of a cycle.
  EXPECT_EQ(find_cycle(tickets, Token{6}), std::vector<Wait>{});
  EXPECT_EQ(find_cycle(tickets, Token{7}), std::vector<Wait>{});  // There is no such ticket.
  EXPECT_EQ(find_cycle(tickets, Token{3}), (std::vector<Wait>{{.waiting = {3}, .blocker = {1}},
                                                              {.waiting = {4}, .blocker = {2}}}));
}

TEST(Deadlock, IsDescribedEvenWhereATicketIsGone) {
  EXPECT_EQ(describe_cycle(std::vector<Wait>{{.waiting = {1}, .blocker = {7}}}, queue({"a x"})),
            "a (x, ticket 1) waits for ticket 7");
}

// Goal: an append to a busy space stays cheap. Method: a search that looked at tickets it can't
// reach would compare each of 20,000 tickets with each other one, and exceed the time limit of the
// tests.
TEST(Deadlock, IsFoundAmongManyStrangers) {
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 1; i <= 20'000; ++i) {
    tickets.push_back({.number = {i},
                       .claims = {Path::of("other", i / 2)},
                       .owner = Owner{Path::of("stranger", i)}});
  }
  for (const std::string_view line : {"a x", "b y", "b x", "a y"}) {
    tickets.push_back(ticket_of(tickets.size() + 1, line));
  }
  EXPECT_EQ(deadlock_at_last(tickets),
            "a (y, ticket 20004) waits for b (y, ticket 20002), "
            "b (x, ticket 20003) waits for a (x, ticket 20001)");
}

// --- Properties ---

// Few enough paths to conflict, and mostly different, so that cycles are long.
rc::Gen<Path> any_path() {
  return rc::gen::map(rc::gen::elementOf(std::vector<std::string>{
                          "x", "x/1", "x/2", "x/2/a", "y", "y/1", "y/2", "z", "u", "v", "/"}),
                      [](const std::string& text) { return Path::parse(text).value(); });
}

rc::Gen<Claim> any_claim() {
  // The limits of one path and group agree, as find_limit_clash ensures.
  return rc::gen::apply(
      [](const Path& path, int mode) {
        switch (mode) {
          case 0: return path.exclusive();
          case 1: return path.shared();
          case 2: return path.group("pull");
          case 3: return path.group("few", 2);
          case 4: return path.group("few", 2).take(2);
          case 5: return path.permits(static_cast<std::uint32_t>(path.depth() + 1));
          default:
            return path.permits(static_cast<std::uint32_t>(path.depth() + 1))
                .take(1 + static_cast<std::uint32_t>(path.depth() / 2));
        }
      },
      any_path(), rc::gen::inRange(0, 7));
}

rc::Gen<Owner> any_owner() {
  return rc::gen::elementOf(std::vector<Owner>{Owner{}, Owner{"a"}, Owner{"a"}.child("1"),
                                               Owner{"a"}.child("2"), Owner{"b"}, Owner{"c"},
                                               Owner{"d"}.child("1"), Owner{"d"}.child("2")});
}

// One to three claims, on different paths.
rc::Gen<std::vector<Claim>> any_claims() {
  return rc::gen::mapcat(
      rc::gen::elementOf(std::vector<std::size_t>{1, 1, 1, 2, 3}), [](std::size_t size) {
        return rc::gen::uniqueBy<std::vector<Claim>>(
            size, any_claim(), [](const Claim& claim) { return claim.path.text(); });
      });
}

// Up to `most` tickets, with gaps in the numbers.
rc::Gen<std::vector<Ticket>> any_queue(std::size_t most) {
  using Request = std::pair<Owner, std::vector<Claim>>;
  const auto size = rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::size_t>(0, most + 1));
  const auto requests = [](std::size_t count) {
    return rc::gen::container<std::vector<Request>>(count,
                                                    rc::gen::pair(any_owner(), any_claims()));
  };
  const auto number = [](const std::vector<Request>& asked) {
    std::vector<Ticket> tickets;
    for (const auto& [owner, claims] : asked) {
      tickets.push_back({.number = {10 * (tickets.size() + 1)}, .claims = claims, .owner = owner});
    }
    return tickets;
  };
  return rc::gen::map(rc::gen::mapcat(size, requests), number);
}

RC_GTEST_PROP(RuleProperty, FollowsTheModel, ()) {
  const std::vector<Ticket> tickets = *any_queue(20);
  RuleModel model;
  for (const Ticket& ticket : tickets) model.push(ticket);
  std::vector<Ticket> shuffled = tickets;
  std::ranges::reverse(shuffled);
  const RuleModel::Set waiting = model.waiting(model.all());
  const std::vector<QueuePosition> positions = queue_positions(shuffled);
  for (std::size_t i = 0; i < tickets.size(); ++i) {
    std::vector<Token> expected;
    std::size_t ahead = 0;
    const RuleModel::Set blocking = model.blockers(i, model.all());
    for (std::size_t k = 0; k < tickets.size(); ++k) {
      RC_ASSERT(i == k || conflict(tickets[i].claims, tickets[k].claims) == model.conflict(i, k));
      if (!RuleModel::has(blocking, k)) continue;
      expected.push_back(tickets[k].number);
      if (RuleModel::has(waiting, k)) ++ahead;
    }
    RC_ASSERT(blockers(tickets[i], shuffled) == expected);
    RC_ASSERT(granted(tickets[i], shuffled) == expected.empty());
    RC_ASSERT(position(tickets[i], shuffled) == (expected.empty() ? 0 : 1 + ahead));
    RC_ASSERT(positions[tickets.size() - 1 - i].blocked_by == expected);
    RC_ASSERT(positions[tickets.size() - 1 - i].position == (expected.empty() ? 0 : 1 + ahead));
  }
}

// Checks that `circle` is a cycle of real waits among tickets that can never be granted.
void check_circle(const std::vector<Wait>& circle, const std::vector<Ticket>& tickets,
                  const RuleModel& model, RuleModel::Set stuck) {
  const auto index_of = [&tickets](Token number) {
    const auto found = std::ranges::find(tickets, number, &Ticket::number);
    RC_ASSERT(found != tickets.end());
    return static_cast<std::size_t>(found - tickets.begin());
  };
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const std::size_t waiting = index_of(circle[i].waiting);
    const std::size_t blocker = index_of(circle[i].blocker);
    const std::size_t next = index_of(circle[(i + 1) % circle.size()].waiting);
    RC_ASSERT(RuleModel::has(stuck, waiting));
    RC_ASSERT(RuleModel::has(model.blockers(waiting, stuck), blocker));
    RC_ASSERT(model.needs(blocker, next));
    RC_ASSERT(std::ranges::count(circle, circle[i].waiting, &Wait::waiting) == 1);
  }
}

RC_GTEST_PROP(RuleProperty, FindsADeadlockExactlyWhereNoOrderLetsAllFinish, ()) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const std::vector<Ticket> requests = *any_queue(14);
    RuleModel model;
    std::vector<Ticket> tickets;
    for (const Ticket& ticket : requests) {
      tickets.push_back(ticket);
      model.push(ticket);
      const std::vector<RuleModel::Set> endings = model.endings();
      RC_ASSERT(endings.size() == 1U);  // The order in which owners finish makes no difference.
      const RuleModel::Set stuck = endings.front();
      const std::vector<Wait> anywhere = find_cycle(tickets);
      const std::vector<Wait> here = find_cycle(tickets, ticket.number);
      RC_ASSERT(anywhere.empty() == (stuck == 0));
      RC_ASSERT(here.empty() == (stuck == 0));
      if (stuck == 0) continue;
      check_circle(anywhere, tickets, model, stuck);
      check_circle(here, tickets, model, stuck);
      RC_ASSERT(here.front().waiting == ticket.number);
      tickets.pop_back();  // Refused, and leaves nothing behind.
      model.pop();
    }
  }
}

}  // namespace
}  // namespace tenure
