// Requests as forms build them, and answers as forms parse them: no server. Each answer is what
// etcd says to the request of the same form.
#include "store/etcd/form.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rpc.pb.h"
#include "store/conformance.hpp"
#include "store/etcd/numbers.hpp"

namespace tenure::etcd {
namespace {

using conformance::txn;

class EtcdForm : public ::testing::Test {
 protected:
  static constexpr std::int64_t put_at = 1000;   // etcd's revision of the head,
  static constexpr std::int64_t by_etcd = 2000;  // and of the transaction.

  void add_head(pb::ResponseOp& op, Revision revision) const {
    pb::KeyValue& kv = *op.mutable_response_range()->add_kvs();
    kv.set_key(layout.head());
    kv.set_value(head_value({.revision = revision, .time = {}}));
    kv.set_mod_revision(put_at);
  }
  void add_head(pb::ResponseOp& op) const { add_head(op, head); }
  static void add_entry(pb::ResponseOp& op, std::int64_t mod_revision) {
    pb::KeyValue& kv = *op.mutable_response_range()->add_kvs();
    kv.set_value(
        entry_value({.changed = Revision{apart}, .created = Revision{apart}, .bytes = ""}));
    kv.set_mod_revision(mod_revision);
  }
  [[nodiscard]] static pb::TxnResponse answer(bool succeeded) {
    pb::TxnResponse response;
    response.mutable_header()->set_revision(by_etcd);
    response.set_succeeded(succeeded);
    return response;
  }
  [[nodiscard]] static Proposal several(std::size_t count) {
    Proposal proposal{.shape = Shape::several_heads};
    for (std::size_t i = 0; i < count; ++i) proposal.heads.push_back((8 + i) * apart);
    return proposal;
  }

  const Layout layout{"p"};
  const Revision head{7 * apart};
  Caches caches;
};

// --- removals

class EtcdRemoval : public EtcdForm {
 protected:
  [[nodiscard]] Verdict refused_by(std::int64_t oldest, std::uint64_t last = 8 * apart) {
    const Txn remove = txn({Guard::present("a")}, {Write::remove("a")});
    const Plan plan{layout, caches, remove};
    EXPECT_FALSE(plan.puts());
    const Proposal proposal{.shape = Shape::remove, .oldest = oldest, .last = last};
    pb::TxnResponse response = answer(false);
    add_head(*response.add_responses());
    return make_form(plan, proposal)->parse(response).verdict;
  }
};

TEST_F(EtcdRemoval, IsNumberedWhereTheHeadIsOld) {
  EXPECT_EQ(refused_by(1000), Verdict::head_too_old);
  EXPECT_EQ(refused_by(1500), Verdict::head_too_old);
}

TEST_F(EtcdRemoval, IsNumberedWhereTheHeadIsAsFarAsItMayBe) {
  EXPECT_EQ(refused_by(999, 7 * apart), Verdict::head_too_old);
}

TEST_F(EtcdRemoval, IsRefusedByItsGuardWhereTheHeadIsYoung) {
  EXPECT_EQ(refused_by(999), Verdict::refused);
}

TEST_F(EtcdRemoval, TakesItsRevisionFromTheTail) {
  const Txn remove = txn({}, {Write::remove("a"), Write::remove("b")}, {Range::key("c")});
  const Plan plan{layout, caches, remove};
  const Proposal proposal{.shape = Shape::remove, .oldest = 1, .last = 8 * apart};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  ASSERT_EQ(request.success_size(), 5) << "two removals, tail, head and tail, one read";
  pb::TxnResponse response = answer(true);
  for (int i = 0; i < 3; ++i) response.add_responses();
  pb::ResponseOp& both = *response.add_responses();
  add_head(both);
  pb::KeyValue& tail = *both.mutable_response_range()->add_kvs();
  tail.set_key(layout.tail());
  tail.set_mod_revision(put_at + 3);
  response.add_responses();
  const Answer parsed = form->parse(response);
  EXPECT_EQ(parsed.verdict, Verdict::committed);
  EXPECT_EQ(parsed.newest().value, head.value + 3);
  EXPECT_EQ(parsed.reads,
            std::vector<const pb::RangeResponse*>{&response.responses(4).response_range()});
}

// --- a sole writer

TEST_F(EtcdForm, ASoleWriterNumbersARemovalByItsHead) {
  const Txn remove = txn({Guard::present("a")}, {Write::remove("a")}, {Range::key("b")});
  const Plan plan{layout, caches, remove};
  Proposal proposal{.shape = Shape::sole_writer};
  proposal.own = SoleWriter::Use{.head = {{.revision = head, .time = {}}, put_at}, .empty = {true}};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  EXPECT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.success_size(), 2) << "the removal and the tail";
  EXPECT_EQ(request.failure_size(), 0);
  pb::TxnResponse response;
  response.mutable_header()->set_revision(put_at + 2);
  EXPECT_EQ(form->parse(response).verdict, Verdict::head_not_ours);
  response.set_succeeded(true);
  const Answer parsed = form->parse(response);
  EXPECT_EQ(parsed.verdict, Verdict::committed);
  EXPECT_EQ(parsed.newest().value, head.value + 2);
  EXPECT_EQ(parsed.reads, std::vector<const pb::RangeResponse*>{nullptr});
}

// --- one head

TEST_F(EtcdForm, OneHeadTellsAnOldHeadFromAChangedKeyFromAGuard) {
  caches.keys.put("a", {.mod_revision = 5, .created = Revision{apart}});
  const Txn put = txn({Guard::absent("g")}, {Write::put("a", "x")});
  const Plan plan{layout, caches, put};
  const Proposal proposal{.shape = Shape::one_head, .heads = {8 * apart}};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  EXPECT_EQ(request.compare_size(), 3) << "guard, head, key";
  EXPECT_EQ(request.failure_size(), 2) << "head and tail, key";
  const auto judged = [&](Revision found, std::int64_t mod_revision) {
    pb::TxnResponse response = answer(false);
    add_head(*response.add_responses(), found);
    add_entry(*response.add_responses(), mod_revision);
    return form->parse(response);
  };
  EXPECT_EQ(judged(Revision{8 * apart}, 5).verdict, Verdict::outrun);
  EXPECT_EQ(judged(head, 5).verdict, Verdict::refused);
  const Answer changed = judged(head, 6);
  EXPECT_EQ(changed.verdict, Verdict::key_changed);
  ASSERT_EQ(changed.keys.size(), 1U);
  EXPECT_EQ(changed.keys[0].key, "a");
  EXPECT_EQ(changed.keys[0].state.mod_revision, 6);
}

TEST_F(EtcdForm, OneHeadReportsAStoreWithoutAHead) {
  const Txn put = txn({}, {Write::append("a", "x")});
  const Plan plan{layout, caches, put};
  const Proposal proposal{.shape = Shape::one_head, .heads = {8 * apart}};
  pb::TxnResponse response = answer(false);
  response.add_responses();
  EXPECT_EQ(make_form(plan, proposal)->parse(response).verdict, Verdict::no_head);
}

// The first transaction of a batch has the smallest number: the head must be smaller than that.
TEST_F(EtcdForm, ABatchIsOutrunByItsSmallestNumber) {
  const Txn all = txn({}, {Write::append("a", ""), Write::append("a", "")});
  const Batch batch{.txn_of_write = {0, 1}, .count = 2};
  const Plan plan{layout, caches, all, nullptr, &batch};
  EXPECT_EQ(plan.needs().transactions, 2U);
  const Proposal proposal{.shape = Shape::one_head, .heads = {9 * apart}};
  const auto form = make_form(plan, proposal);
  const auto judged = [&](std::uint64_t found) {
    pb::TxnResponse response = answer(false);
    add_head(*response.add_responses(), Revision{found});
    return form->parse(response).verdict;
  };
  EXPECT_EQ(judged(8 * apart), Verdict::outrun);
  EXPECT_EQ(judged((8 * apart) - 1), Verdict::refused);
  const std::vector<stores::Change> changes = plan.changes(Revision{9 * apart});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].key, "a" + stamp(Revision{8 * apart}));
  EXPECT_EQ(changes[1].key, "a" + stamp(Revision{9 * apart}));
}

// --- several heads

// Runs a request as etcd would: down the tree of nested transactions, with `found` as the head.
void run(const pb::TxnRequest& request, const std::string& found, pb::TxnResponse& response) {
  bool holds = true;
  for (const pb::Compare& compare : request.compare()) {
    if (compare.target() == pb::Compare::VALUE) holds = holds && found < compare.value();
  }
  response.set_succeeded(holds);
  for (const pb::RequestOp& op : holds ? request.success() : request.failure()) {
    pb::ResponseOp& result = *response.add_responses();
    if (op.has_request_txn()) run(op.request_txn(), found, *result.mutable_response_txn());
  }
}

TEST_F(EtcdForm, SeveralHeadsCommitTheFirstThatIsLargerThanTheHead) {
  const Txn put = txn({}, {Write::append("a", "x")}, {Range::key("r")});
  const Plan plan{layout, caches, put};
  for (const std::size_t count : {2U, 3U, 7U, 64U}) {
    const Proposal proposal = several(count);
    const auto form = make_form(plan, proposal);
    pb::TxnRequest request;
    form->build(request);
    for (std::size_t i = 0; i < count; ++i) {
      const Head before{.revision = Revision{proposal.heads[i] - 1}, .time = {}};
      pb::TxnResponse response;
      response.mutable_header()->set_revision(by_etcd);
      run(request, head_value(before), response);
      const Answer parsed = form->parse(response);
      EXPECT_EQ(parsed.verdict, Verdict::committed);
      EXPECT_EQ(parsed.newest().value, proposal.heads[i]) << count << " heads";
      ASSERT_EQ(parsed.reads.size(), 1U);
    }
  }
}

TEST_F(EtcdForm, SeveralHeadsAreOutrunByAHeadBeyondTheLast) {
  const Txn put = txn({}, {Write::append("a", "x")});
  const Plan plan{layout, caches, put};
  const Proposal proposal = several(2);
  pb::TxnResponse response = answer(true);
  pb::TxnResponse& first = *response.add_responses()->mutable_response_txn();
  pb::TxnResponse& last = *first.add_responses()->mutable_response_txn();
  add_head(*last.add_responses(), Revision{proposal.heads.back()});
  EXPECT_EQ(make_form(plan, proposal)->parse(response).verdict, Verdict::outrun);
}

// --- questions

TEST_F(EtcdForm, AQuestionIsRefusedByANewerEntryOnly) {
  const Txn guarded = txn({Guard::quiet(Range::prefix("q"), Revision{apart})}, {});
  Plan plan{layout, caches, guarded};
  ASSERT_EQ(plan.open_questions().size(), 1U);
  const auto asked = [&](Revision guard) {
    const Txn other = txn({Guard::quiet(Range::prefix("q"), guard)}, {});
    const Plan one{layout, caches, other};
    pb::TxnResponse response = answer(true);
    add_head(*response.add_responses());
    add_entry(*response.add_responses(), 5);
    return QuestionForm{one}.parse(response).verdict;
  };
  EXPECT_EQ(asked(Revision{apart}), Verdict::committed);
  EXPECT_EQ(asked(Revision{apart - 1}), Verdict::refused);
  // The guard is not ahead of the newest revision, so a later refusal is certain.
  plan.answer(by_etcd, {.head = {.revision = head, .time = {}},
                        .put_at = put_at,
                        .newest = head,
                        .newest_at = put_at});
  EXPECT_TRUE(plan.refusal_is_certain(Revision{9 * apart}));
}

TEST_F(EtcdForm, ARefusalIsUnclearIfTheGuardIsAheadOfWhatWasAsked) {
  const Txn guarded = txn({Guard::quiet(Range::prefix("q"), Revision{9 * apart})}, {});
  Plan plan{layout, caches, guarded};
  plan.answer(by_etcd, {.head = {.revision = head, .time = {}},
                        .put_at = put_at,
                        .newest = head,
                        .newest_at = put_at});
  EXPECT_TRUE(plan.refusal_is_certain(head)) << "nothing was put since";
  EXPECT_FALSE(plan.refusal_is_certain(Revision{8 * apart}));
}

// --- the head

TEST_F(EtcdForm, PassingTheHeadReturnsWhereItIs) {
  EXPECT_EQ(PassHeadForm::parse(answer(true)), by_etcd);
  pb::TxnResponse passed = answer(false);
  add_head(*passed.add_responses());
  EXPECT_EQ(PassHeadForm::parse(passed), put_at);
  pb::TxnResponse none = answer(false);
  none.add_responses()->mutable_response_range();
  EXPECT_EQ(PassHeadForm::parse(none), std::nullopt);
}

// --- what a commit teaches

TEST_F(EtcdForm, ACommitKnowsTheRangesThatHaveNothingButItsOwn) {
  const Txn append = txn({}, {Write::append("a", "")}, {Range::prefix("a"), Range::prefix("b")});
  const Plan plan{layout, caches, append};
  const Proposal proposal{.shape = Shape::one_head, .heads = {8 * apart}};
  pb::TxnResponse response = answer(true);
  for (int i = 0; i < 2; ++i) response.add_responses();  // The append and the head.
  add_entry(*response.add_responses(), by_etcd);
  add_entry(*response.add_responses(), 5);
  const Answer parsed = make_form(plan, proposal)->parse(response);
  const SoleWriter::Commit commit = own_commit(plan, proposal, parsed);
  EXPECT_EQ(commit.head.revision.value, 8 * apart);
  EXPECT_EQ(commit.head.put_at, by_etcd);
  ASSERT_EQ(commit.empty.size(), 1U);
  EXPECT_EQ(commit.empty[0].from, "a");
}

}  // namespace
}  // namespace tenure::etcd
