// What a process leaves out while nobody else puts anything, and that it notices who does.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/plan.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::new_prefix;

using conformance::txn;
using Kind = Plan::Result::Kind;

// A client alone reads nothing twice; and what another put is found all the same.
TEST(EtcdAlone, FindsWhatOthersPut) {
  const std::string url = Etcd::instance().url(new_prefix());
  const auto one = open_etcd_alone(url);
  const auto two = open_etcd_alone(url);
  Range line = Range::prefix("line/");
  line.before = this_apply;
  const Txn step = txn({}, {Write::append("line/", "")}, {line, Range::prefix("other/")});
  const Outcome first = one->apply(step);
  EXPECT_TRUE(first.reads[0].empty());
  const std::string key = "line/" + stamp(first.revision);
  EXPECT_EQ(one->apply(step).reads[0].size(), 1U) << "its own is there still";
  const Outcome gone =
      one->apply(txn({Guard::present(key)}, {Write::remove(key)}, {Range::prefix("other/")}));
  EXPECT_TRUE(gone.committed);
  EXPECT_EQ(two->apply({}).revision, gone.revision);
  EXPECT_EQ(one->executor().counts().disturbed, 0U);

  const Outcome others = two->apply(txn({}, {Write::append("other/", "x")}));
  const Outcome last = one->apply(step);
  EXPECT_EQ(one->executor().counts().disturbed, 1U);
  EXPECT_GT(last.revision, others.revision);
  ASSERT_EQ(last.reads[1].size(), 1U);
  EXPECT_EQ(last.reads[1][0].created, others.revision);
}

// A put of its own does not make it read again: its next line is still known to be empty.
TEST(EtcdAlone, KnowsWhatIsEmptyBehindAPutOfItsOwn) {
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  Range line = Range::prefix("line/");
  line.before = this_apply;
  const Txn step = txn({}, {Write::append("line/", "")}, {line, Range::prefix("other/")});
  for (int i = 0; i < 50; ++i) {
    const Outcome made = store->apply(step);
    ASSERT_TRUE(made.committed);
    EXPECT_TRUE(made.reads[0].empty() && made.reads[1].empty());
    const std::string key = "line/" + stamp(made.revision);
    EXPECT_TRUE(store->apply(txn({Guard::present(key)}, {Write::remove(key)})).committed);
    const auto use = store->executor().knows(step.reads);
    ASSERT_TRUE(use) << i;
    EXPECT_EQ(*use, (std::vector<bool>{true, true})) << i;
    store->apply(txn({}, {Write::put("user/" + std::to_string(i % 7), "")}));
    EXPECT_EQ(store->executor().knows(step.reads), use) << i;
  }
  EXPECT_EQ(store->executor().counts().disturbed, 0U);
}

// What waits while another is made goes with the next request. The callback of the first keeps the
// queue's thread until all others wait.
TEST(EtcdAlone, MakesInOneRequestWhatWaitsTogether) {
  constexpr std::size_t count = 100;
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  conformance::Bell told;
  std::latch all_wait{1};
  std::atomic<std::uint64_t> before = 0;
  store->apply_then(txn({}, {Write::put("first", "")}),
                    [&](const Outcome& /*outcome*/, const std::exception_ptr& /*error*/) {
                      all_wait.wait();
                      before = store->executor().counts().round_trips;
                    });
  for (std::size_t i = 0; i < count; ++i) {
    store->apply_then(txn({}, {Write::put("k" + std::to_string(i), "")}),
                      [&](const Outcome& outcome, const std::exception_ptr& error) {
                        EXPECT_TRUE(outcome.committed && !error);
                        told.ring();
                      });
  }
  all_wait.count_down();
  told.wait(count);
  EXPECT_EQ(store->executor().counts().round_trips - before, 1U);
}

TEST(EtcdAlone, IsRefusedByAGuardAndReadsAllTheSame) {
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  const Txn step = txn({}, {Write::append("a/", "")}, {Range::prefix("b/")});
  static_cast<void>(store->apply(step));
  const std::string key = "a/" + stamp(store->apply(step).revision);
  const Txn remove = txn({Guard::present(key)}, {Write::remove(key)}, {Range::prefix("a/")});
  EXPECT_TRUE(store->apply(remove).committed);
  const Outcome refused = store->apply(remove);
  EXPECT_FALSE(refused.committed);
  EXPECT_EQ(refused.reads[0].size(), 1U);
}

// A put that is no append may be of a key that was there: what was known is known no more.
TEST(EtcdAlone, FindsWhatItPutItself) {
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  const Txn step = txn({}, {Write::append("a/", "")}, {Range::prefix("b/")});
  EXPECT_TRUE(store->apply(step).reads[0].empty());
  static_cast<void>(store->apply(txn({}, {Write::put("b/1", "")})));
  EXPECT_EQ(store->apply(step).reads[0].size(), 1U);
  EXPECT_EQ(store->executor().counts().disturbed, 0U);
}

// What etcd says to a request that relied on the head, which was put at its revision 1000.
TEST(EtcdAlone, NumbersARemovalByItsHead) {
  const Layout layout{"p"};
  Memo memo;
  const Txn remove = txn({Guard::present("a")}, {Write::remove("a")}, {Range::key("b")});
  const Plan plan{layout, memo, remove, nullptr};
  Plan::Proposal proposal;
  proposal.own = SoleWriter::Use{.head = {{.revision = Revision{7 * apart}, .time = {}}, 1000},
                                 .empty = {true}};
  pb::TxnRequest request;
  plan.request(proposal, request);
  EXPECT_EQ(request.compare_size(), 2);
  EXPECT_EQ(request.success_size(), 2) << "the removal and the tail";
  EXPECT_EQ(request.failure_size(), 0);
  pb::TxnResponse response;
  response.mutable_header()->set_revision(1002);
  EXPECT_EQ(plan.result(response, proposal, memo).kind, Kind::disturbed);
  response.set_succeeded(true);
  const Plan::Result result = plan.result(response, proposal, memo);
  EXPECT_EQ(result.kind, Kind::committed);
  EXPECT_EQ(result.at.value, 7 * apart + 2);
  EXPECT_EQ(result.reads, std::vector<const pb::RangeResponse*>{nullptr});
}

}  // namespace
}  // namespace tenure::etcd
