// What one apply proposes, what it relies on, and when it gives up: no server.
#include "store/etcd/proposer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "store/etcd/numbers.hpp"

namespace tenure::etcd {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t wall_ns = 1'700'000'000 * second_ns;
constexpr std::uint64_t slot_of_wall = std::uint64_t{1'700'000'000} * heads_a_second;
constexpr std::uint64_t head_of_wall = (slot_of_wall * apart) + other_order;

// Time stands still.
std::int64_t boot_of_test() noexcept { return 7; }

class EtcdProposer : public ::testing::Test {
 protected:
  [[nodiscard]] Proposer::Shared shared() {
    return {.clock = clock, .orders = orders, .counts = counts};
  }
  // The first attempt of an apply.
  [[nodiscard]] Proposal propose(const Needs& needs) {
    Proposer proposer{shared()};
    EXPECT_TRUE(proposer.next_attempt());
    return proposer.propose(needs, {});
  }
  // This process put the head.
  void own_head() {
    orders.moved(other_order, {.head = {{.revision = Revision{own}, .time = {}}, 1000}});
  }
  [[nodiscard]] static Needs in(const Scope& scope) {
    return {.writes = true, .only_appends = true, .max_heads = 64, .scope = scope};
  }

  static constexpr std::uint64_t own = head_of_wall - (5 * apart);
  const Needs append = in({.other = true});
  const Needs put{.writes = true, .max_heads = 64, .scope = {.other = true}};

  Clock clock{{.boot_ns = &boot_of_test, .wall_ns = wall_ns, .tag = 3}};
  Orders orders;
  Contention& contention = orders[other_order].contention;
  Counts counts;
};

TEST_F(EtcdProposer, ProposesNothingForARead) {
  const Proposal proposal = propose({});
  EXPECT_EQ(proposal.shape, Shape::read);
  EXPECT_TRUE(proposal.heads.empty());
}

TEST_F(EtcdProposer, ProposesOneHeadByTheClockAndNeverTheSameTwice) {
  const Proposal first = propose(put);
  EXPECT_EQ(first.shape, Shape::one_head);
  EXPECT_EQ(first.heads, std::vector<std::uint64_t>{head_of_wall});
  const Proposal second = propose(put);
  EXPECT_EQ(second.heads, std::vector<std::uint64_t>{head_of_wall + apart});
  EXPECT_NE(first.time, second.time);
}

TEST_F(EtcdProposer, ProposesTheLastNumberOfABatch) {
  Needs batch = put;
  batch.transactions = 4;
  batch.max_heads = 1;
  EXPECT_EQ(propose(batch).heads, std::vector<std::uint64_t>{head_of_wall + (3 * apart)});
}

TEST_F(EtcdProposer, ReliesOnItsOwnHeadToAppendAndToRemove) {
  own_head();
  const Proposal proposal = propose(append);
  EXPECT_EQ(proposal.shape, Shape::sole_writer);
  ASSERT_TRUE(proposal.own);
  EXPECT_EQ(proposal.own->head.revision.value, own);
  EXPECT_EQ(proposal.heads, std::vector<std::uint64_t>{head_of_wall});
  EXPECT_EQ(propose(put).shape, Shape::one_head) << "the key may exist";
}

TEST_F(EtcdProposer, ReliesOnTheHeadOfItsOnlyOrder) {
  own_head();
  EXPECT_EQ(propose(in({.other = true, .roots = {7}})).shape, Shape::one_head);
  EXPECT_EQ(propose(in({.roots = {7}})).shape, Shape::one_head) << "not its own";
  EXPECT_EQ(propose(in({.all = true, .other = true})).shape, Shape::one_head);
  EXPECT_EQ(propose(append).shape, Shape::sole_writer);
}

// The order is in the number, so that two orders never use the same one.
TEST_F(EtcdProposer, NumbersContainTheFirstOrder) {
  EXPECT_EQ(propose(in({.roots = {7}})).heads.front(), (slot_of_wall * apart) + 7);
  EXPECT_EQ(propose(in({.roots = {8}})).heads.front(), (slot_of_wall * apart) + 8);
  EXPECT_EQ(propose(in({.roots = {8, 9}})).heads.front(), ((slot_of_wall + 1) * apart) + 8);
  EXPECT_EQ(propose(in({.roots = {9}})).heads.front(), ((slot_of_wall + 2) * apart) + 9);
  EXPECT_EQ(propose(in({.all = true})).heads.front(), (slot_of_wall + 3) * apart);
  EXPECT_EQ(propose(in({.roots = {7}})).heads.front(), ((slot_of_wall + 4) * apart) + 7);
  EXPECT_EQ(propose(append).heads.front(), head_of_wall) << "is not below the top";
}

TEST_F(EtcdProposer, StopsToRelyOnAHeadThatWasNotItsOwn) {
  own_head();
  Proposer proposer{shared()};
  EXPECT_TRUE(proposer.next_attempt());
  const Proposal first = proposer.propose(append, {});
  ASSERT_EQ(first.shape, Shape::sole_writer);
  EXPECT_EQ(proposer.judge(Verdict::head_not_ours, first, {}), Proposer::Next::retry);
  EXPECT_EQ(counts.head_not_ours.load(), 1U);
  EXPECT_TRUE(proposer.next_attempt());
  EXPECT_EQ(proposer.propose(append, {}).shape, Shape::one_head);
  EXPECT_EQ(propose(append).shape, Shape::one_head) << "nor does the next apply";
}

TEST_F(EtcdProposer, ProposesTheNextHeadsInARace) {
  orders.see(other_order, Revision{head_of_wall + (10 * apart)});
  contention.was_outrun();
  ASSERT_TRUE(contention.racing());
  const Proposal proposal = propose(append);
  EXPECT_EQ(proposal.shape, Shape::several_heads);
  ASSERT_EQ(proposal.heads.size(), contention.reach());
  for (std::size_t i = 0; i < proposal.heads.size(); ++i) {
    EXPECT_EQ(proposal.heads[i], head_of_wall + ((11 + i) * apart));
  }
  Needs large = append;
  large.max_heads = 1;
  EXPECT_EQ(propose(large).shape, Shape::one_head);
}

TEST_F(EtcdProposer, ProposesFarAheadAfterSeveralLostRaces) {
  Proposer proposer{shared()};
  std::uint64_t lead = 0;
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(proposer.next_attempt());
    const Proposal proposal = proposer.propose(append, {});
    lead = (proposal.heads.back() / apart) - orders.next({.other = true});
    EXPECT_EQ(proposer.judge(Verdict::outrun, proposal, {}), Proposer::Next::retry);
    orders.see(other_order, Revision{proposal.heads.back()});
  }
  EXPECT_GT(lead, contention.reach()) << "further than all that it knows of";
}

TEST_F(EtcdProposer, EndsWhereTheAnswerIsFinal) {
  Proposer proposer{shared()};
  EXPECT_TRUE(proposer.next_attempt());
  const Proposal proposal = proposer.propose(put, {});
  EXPECT_EQ(proposer.judge(Verdict::refused, proposal, {}), Proposer::Next::finish);
  EXPECT_EQ(proposer.judge(Verdict::no_head, proposal, {}), Proposer::Next::make_head);
  EXPECT_EQ(proposer.judge(Verdict::key_changed, proposal, {}), Proposer::Next::retry);
  EXPECT_EQ(proposer.judge(Verdict::guard_unclear, proposal, {}), Proposer::Next::retry);
  EXPECT_EQ(counts.commits.load(), 0U);
  EXPECT_EQ(proposer.judge(Verdict::committed, proposal, Revision{proposal.heads[0]}),
            Proposer::Next::finish);
  EXPECT_EQ(counts.commits.load(), 1U);
}

TEST_F(EtcdProposer, GivesUpAfterItsLastAttempt) {
  Proposer proposer{shared()};
  for (int i = 0; i < Proposer::max_attempts; ++i) ASSERT_TRUE(proposer.next_attempt());
  EXPECT_FALSE(proposer.next_attempt());
  for (int i = 0; i < Proposer::max_resolved; ++i) EXPECT_TRUE(proposer.may_resolve());
  EXPECT_FALSE(proposer.may_resolve());
}

TEST(EtcdContention, ForgetsARaceAfter64QuietCommits) {
  Contention contention;
  EXPECT_FALSE(contention.racing());
  contention.committed(3);
  for (int i = 0; i < 63; ++i) contention.committed(0);
  EXPECT_TRUE(contention.racing());
  contention.committed(0);
  EXPECT_FALSE(contention.racing());
}

TEST(EtcdContention, ReachRisesAtOnceAndFallsSlowly) {
  Contention contention;
  const std::size_t before = contention.reach();
  contention.committed(40);
  EXPECT_GE(contention.reach(), 40U);
  contention.committed(0);
  EXPECT_GT(contention.reach(), 40U);
  for (int i = 0; i < 200; ++i) contention.committed(0);
  EXPECT_LT(contention.reach(), before);
  for (int i = 0; i < 20; ++i) contention.was_outrun();
  EXPECT_EQ(contention.reach(), Contention::max_reach);
}

}  // namespace
}  // namespace tenure::etcd
