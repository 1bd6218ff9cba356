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

  // Of the order that is in the number.
  static OrderId order_of(Revision revision) {
    return static_cast<OrderId>(revision.value % apart);
  }
  static constexpr std::uint64_t number(std::uint64_t slot, OrderId order = other_order) {
    return (slot * apart) + order;
  }
  void add_head(pb::ResponseOp& op, Revision revision) const {
    pb::KeyValue& kv = *op.mutable_response_range()->add_kvs();
    kv.set_key(layout.head(order_of(revision)));
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
  // The keys of exclusive claims on a path of one segment, and on /, without the stamp.
  static std::string line(const std::string& root) {
    return "\x01\x01" + std::string(1, static_cast<char>(root.size())) + root + '\0';
  }
  static std::string top_line() { return {"\x01\0", 2}; }
  [[nodiscard]] static pb::TxnResponse answer(bool succeeded) {
    pb::TxnResponse response;
    response.mutable_header()->set_revision(by_etcd);
    response.set_succeeded(succeeded);
    return response;
  }
  [[nodiscard]] static Proposal several(std::size_t count) {
    Proposal proposal{.shape = Shape::several_heads};
    for (std::size_t i = 0; i < count; ++i) proposal.heads.push_back(number(8 + i));
    return proposal;
  }

  const Layout layout{"p"};
  const Revision head{number(7)};
  Caches caches;
};

// --- a sole writer

TEST_F(EtcdForm, ASoleWriterReliesOnItsHead) {
  const Txn remove = txn({Guard::present("a")}, {Write::remove("a")}, {Range::key("b")});
  const Plan plan{layout, caches, remove};
  Proposal proposal{.shape = Shape::sole_writer, .heads = {number(8)}};
  proposal.own = SoleWriter::Use{.head = {{.revision = head, .time = {}}, put_at}, .empty = {true}};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  EXPECT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.success_size(), 2) << "the removal and the head";
  EXPECT_EQ(request.failure_size(), 0);
  pb::TxnResponse response;
  response.mutable_header()->set_revision(put_at + 2);
  EXPECT_EQ(form->parse(response).verdict, Verdict::head_not_ours);
  response.set_succeeded(true);
  const Answer parsed = form->parse(response);
  EXPECT_EQ(parsed.verdict, Verdict::committed);
  EXPECT_EQ(parsed.newest().value, number(8));
  EXPECT_EQ(parsed.replaced, head);
  EXPECT_EQ(parsed.reads, std::vector<const pb::RangeResponse*>{nullptr});
}

// A ticket on / is in every root, and does not move the head of any.
TEST_F(EtcdForm, ASoleWriterBelowTheTopReliesOnNothingNewOnTheTop) {
  const Txn append = txn({}, {Write::append(line("book"), "")});
  const Plan plan{layout, caches, append};
  ASSERT_TRUE(plan.scope().single());
  const OrderId root = plan.scope().first();
  Proposal proposal{.shape = Shape::sole_writer, .heads = {number(8, root)}, .order = root};
  proposal.own = SoleWriter::Use{.head = {{.revision = head, .time = {}}, put_at}, .empty = {}};
  pb::TxnRequest request;
  make_form(plan, proposal)->build(request);
  ASSERT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.compare(0).key(), layout.head(root));
  const pb::Compare& top = request.compare(1);
  EXPECT_EQ(top.key(), layout.head(top_order));
  EXPECT_EQ(top.target(), pb::Compare::MOD);
  EXPECT_EQ(top.result(), pb::Compare::LESS);
  EXPECT_EQ(top.mod_revision(), put_at + 1);
}

// --- one head

TEST_F(EtcdForm, OneHeadTellsAnOldHeadFromAChangedKeyFromAGuard) {
  caches.keys.put("a", {.mod_revision = 5, .created = Revision{apart}});
  const Txn put = txn({Guard::absent("g")}, {Write::put("a", "x")});
  const Plan plan{layout, caches, put};
  const Proposal proposal{.shape = Shape::one_head, .heads = {number(8)}};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  EXPECT_EQ(request.compare_size(), 3) << "guard, head, key";
  EXPECT_EQ(request.failure_size(), 2) << "head, key";
  const auto judged = [&](Revision found, std::int64_t mod_revision) {
    pb::TxnResponse response = answer(false);
    add_head(*response.add_responses(), found);
    add_entry(*response.add_responses(), mod_revision);
    return form->parse(response);
  };
  EXPECT_EQ(judged(Revision{number(8)}, 5).verdict, Verdict::outrun);
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
  const Proposal proposal{.shape = Shape::one_head, .heads = {number(8)}};
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
  const Proposal proposal{.shape = Shape::one_head, .heads = {number(9)}};
  const auto form = make_form(plan, proposal);
  const auto judged = [&](std::uint64_t found) {
    pb::TxnResponse response = answer(false);
    add_head(*response.add_responses(), Revision{found});
    return form->parse(response).verdict;
  };
  EXPECT_EQ(judged(number(8)), Verdict::outrun);
  EXPECT_EQ(judged(number(7)), Verdict::refused);
  const std::vector<stores::Change> changes = plan.changes(Revision{number(9)});
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].key, "a" + stamp(Revision{number(8)}));
  EXPECT_EQ(changes[1].key, "a" + stamp(Revision{number(9)}));
}

// --- several orders

TEST_F(EtcdForm, AWriteInSeveralOrdersComparesAndMovesAllOfTheirHeads) {
  const Txn both = txn({}, {Write::append(line("book"), ""), Write::append(line("film"), "")});
  const Plan plan{layout, caches, both};
  ASSERT_EQ(plan.scope().roots.size(), 2U);
  const Proposal proposal{.shape = Shape::one_head,
                          .heads = {number(8, plan.scope().first())},
                          .order = plan.scope().first()};
  const auto form = make_form(plan, proposal);
  pb::TxnRequest request;
  form->build(request);
  EXPECT_EQ(request.compare_size(), 3) << "both roots and the top";
  ASSERT_EQ(request.success_size(), 4);
  for (const int i : {0, 1}) {
    EXPECT_EQ(request.success(2 + i).request_put().key(),
              layout.head(plan.scope().roots[static_cast<std::size_t>(i)]));
  }
  const auto judged = [&](std::uint64_t first, std::uint64_t second, std::uint64_t top) {
    pb::TxnResponse response = answer(false);
    for (const std::uint64_t found : {number(top, top_order), number(first, plan.scope().roots[0]),
                                      number(second, plan.scope().roots[1])}) {
      add_head(*response.add_responses(), Revision{found});
    }
    return form->parse(response).verdict;
  };
  EXPECT_EQ(judged(7, 7, 7), Verdict::refused);
  EXPECT_EQ(judged(9, 7, 7), Verdict::outrun);
  EXPECT_EQ(judged(7, 9, 7), Verdict::outrun);
  EXPECT_EQ(judged(7, 7, 9), Verdict::outrun);
}

TEST_F(EtcdForm, ATicketOnTheTopIsComparedWithEveryRoot) {
  const Txn top = txn({}, {Write::append(top_line(), "")});
  const Plan plan{layout, caches, top};
  const Proposal proposal{
      .shape = Shape::one_head, .heads = {number(8, top_order)}, .order = top_order};
  pb::TxnRequest request;
  make_form(plan, proposal)->build(request);
  ASSERT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.compare(0).key(), layout.head(top_order));
  EXPECT_EQ(request.compare(1).key(), layout.head(no_root));
  EXPECT_EQ(request.compare(1).range_end(), layout.heads_end());
  ASSERT_EQ(request.success_size(), 2) << "the ticket and one head";
  EXPECT_EQ(request.success(1).request_put().key(), layout.head(top_order));
}

// Of a read in several orders the last commit counts, whichever has the largest number.
TEST_F(EtcdForm, AReadInSeveralOrdersIsToldTheLastCommit) {
  const Txn read = txn({}, {}, {Range::prefix(line("book")), Range::prefix(line("film"))});
  const Plan plan{layout, caches, read};
  const Proposal proposal;
  pb::TxnResponse response = answer(true);
  add_head(*response.add_responses(), Revision{number(1, top_order)});
  add_head(*response.add_responses(), Revision{number(9, plan.scope().roots[0])});
  add_head(*response.add_responses(), Revision{number(5, plan.scope().roots[1])});
  response.mutable_responses(2)->mutable_response_range()->mutable_kvs(0)->set_mod_revision(put_at +
                                                                                            1);
  for (int i = 0; i < 2; ++i) response.add_responses()->mutable_response_range();
  const Answer parsed = make_form(plan, proposal)->parse(response);
  EXPECT_EQ(parsed.newest().value, number(5, plan.scope().roots[1]));
  EXPECT_EQ(parsed.heads->newest_at, put_at + 1);
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
      const Head before{.revision = Revision{proposal.heads[i] - apart}, .time = {}};
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
  Heads heads;
  heads.add({.order = other_order, .head = {.revision = head, .time = {}}, .put_at = put_at});
  plan.answer(by_etcd, heads);
  EXPECT_TRUE(plan.refusal_is_certain(Revision{number(9)}));
}

TEST_F(EtcdForm, ARefusalIsUnclearIfTheGuardIsAheadOfWhatWasAsked) {
  const Txn guarded = txn({Guard::quiet(Range::prefix("q"), Revision{number(9)})}, {});
  Plan plan{layout, caches, guarded};
  Heads heads;
  heads.add({.order = other_order, .head = {.revision = head, .time = {}}, .put_at = put_at});
  plan.answer(by_etcd, heads);
  EXPECT_TRUE(plan.refusal_is_certain(head)) << "nothing was put since";
  EXPECT_FALSE(plan.refusal_is_certain(Revision{number(8)}));
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
  const Proposal proposal{.shape = Shape::one_head, .heads = {number(8)}};
  pb::TxnResponse response = answer(true);
  for (int i = 0; i < 2; ++i) response.add_responses();  // The append and the head.
  add_entry(*response.add_responses(), by_etcd);
  add_entry(*response.add_responses(), 5);
  const Answer parsed = make_form(plan, proposal)->parse(response);
  const SoleWriter::Commit commit = own_commit(plan, proposal, parsed);
  EXPECT_EQ(commit.head.revision.value, number(8));
  EXPECT_EQ(commit.head.put_at, by_etcd);
  ASSERT_EQ(commit.empty.size(), 1U);
  EXPECT_EQ(commit.empty[0].from, "a");
}

// Its head says nothing of ranges in other orders.
TEST_F(EtcdForm, ACommitKnowsOnlyRangesOfItsOrder) {
  const Txn append = txn({}, {Write::append(line("book"), "")},
                         {Range::prefix(line("book")), Range::prefix(top_line()),
                          Range::prefix(line("film")), Range::prefix("mine")});
  const Plan plan{layout, caches, append};
  const OrderId root = plan.scope().first();
  const Proposal proposal{.shape = Shape::one_head, .heads = {number(8, root)}, .order = root};
  pb::TxnResponse response = answer(true);
  for (int i = 0; i < 2; ++i) response.add_responses();
  for (int i = 0; i < 4; ++i) response.add_responses()->mutable_response_range();
  const Answer parsed = make_form(plan, proposal)->parse(response);
  const SoleWriter::Commit commit = own_commit(plan, proposal, parsed);
  ASSERT_EQ(commit.empty.size(), 2U);
  EXPECT_EQ(commit.empty[0].from, line("book"));
  EXPECT_EQ(commit.empty[1].from, top_line());
}

}  // namespace
}  // namespace tenure::etcd
