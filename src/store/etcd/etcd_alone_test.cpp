// What a sole writer leaves out, and that it notices other writers.
#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::new_prefix;

using conformance::txn;

// A sole writer reads nothing twice, but finds what another client put.
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
  EXPECT_EQ(one->executor().counts().head_not_ours.load(), 0U);

  const Outcome others = two->apply(txn({}, {Write::append("other/", "x")}));
  const Outcome last = one->apply(step);
  EXPECT_EQ(one->executor().counts().head_not_ours.load(), 1U);
  EXPECT_GT(last.revision, others.revision);
  ASSERT_EQ(last.reads[1].size(), 1U);
  EXPECT_EQ(last.reads[1][0].created, others.revision);
}

// A put of its own does not make a client read again: its next line is still known to be empty.
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
  EXPECT_EQ(store->executor().counts().head_not_ours.load(), 0U);
}

// Transactions that arrive while a request is under way share the next one. The callback of the
// first keeps the queue's thread busy until all others wait.
TEST(EtcdAlone, MakesInOneRequestWhatWaitsTogether) {
  constexpr std::size_t count = 100;
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  conformance::Bell first_made;
  conformance::Bell told;
  std::latch all_wait{1};
  store->apply_then(txn({}, {Write::put("first", "")}),
                    [&](const Outcome& /*outcome*/, const std::exception_ptr& /*error*/) {
                      first_made.ring();
                      all_wait.wait();
                    });
  first_made.wait();  // Else others could be in the first one's batch.
  const std::uint64_t before = store->executor().counts().round_trips.load();
  for (std::size_t i = 0; i < count; ++i) {
    store->apply_then(txn({}, {Write::put("k" + std::to_string(i), "")}),
                      [&](const Outcome& outcome, const std::exception_ptr& error) {
                        EXPECT_TRUE(outcome.committed && !error);
                        told.ring();
                      });
  }
  all_wait.count_down();
  told.wait(count);
  EXPECT_EQ(store->executor().counts().round_trips.load() - before, 1U);
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

// A put that is not an append may change an existing key: what was known of the range is forgotten.
TEST(EtcdAlone, FindsWhatItPutItself) {
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  const Txn step = txn({}, {Write::append("a/", "")}, {Range::prefix("b/")});
  EXPECT_TRUE(store->apply(step).reads[0].empty());
  static_cast<void>(store->apply(txn({}, {Write::put("b/1", "")})));
  EXPECT_EQ(store->apply(step).reads[0].size(), 1U);
  EXPECT_EQ(store->executor().counts().head_not_ours.load(), 0U);
}

}  // namespace
}  // namespace tenure::etcd
