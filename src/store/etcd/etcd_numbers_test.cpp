// Revisions of removals: between two heads, and not too far behind the first.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/numbers.hpp"
#include "tenure/space.hpp"
#include "tests/kit/etcd.hpp"

namespace tenure::etcd {
namespace {

using kit::Etcd;
using kit::new_prefix;

using conformance::txn;

TEST(EtcdNumbers, RiseWithEtcdsAndStayBelowTheNextHead) {
  const Revision head{7 * apart};
  EXPECT_EQ(revision_at(head, 100, 100), head);
  EXPECT_EQ(revision_at(head, 100, 101).value, head.value + 1);
  EXPECT_LT(revision_at(head, 100, 1'000'000'000).value, 8 * apart);
  EXPECT_TRUE(is_exact(100, 100 + max_age));
  EXPECT_FALSE(is_exact(100, 100 + static_cast<std::int64_t>(apart)));
}

TEST(EtcdNumbers, ARemovalMovesNoHeadAndIsNewerThanAllBefore) {
  const std::string url = Etcd::instance().url(new_prefix());
  const auto one = open_etcd_alone(url);
  const auto two = open_etcd_alone(url);
  Revision put;
  Revision second;
  // A client that was not scheduled for half a second does not know how old the head is, and moves
  // it: on a busy machine this may take a few rounds.
  for (int round = 0; second.value == 0 || second.value >= put.value + apart; ++round) {
    ASSERT_LT(round, 100);
    put = one->apply(txn({}, {Write::put("a", "")})).revision;
    Etcd::instance().etcdctl({"put", "somebody-elses", "1"});
    const Revision first = one->apply(txn({}, {Write::remove("a")})).revision;
    second = two->apply(txn({}, {Write::remove("a")})).revision;
    EXPECT_EQ(put.value % apart, 0U);
    EXPECT_GT(first, put);
    EXPECT_GT(second, first);
  }
  Etcd::instance().etcdctl({"put", "somebody-elses", "2"});
  EXPECT_EQ(one->apply({}).revision, second);
  EXPECT_GT(one->apply(txn({}, {Write::put("b", "")})).revision.value, put.value + apart - 1);
}

// Numbers follow the time, and pass 2^63 in 2038, or if one client's clock is ahead.
TEST(EtcdNumbers, TokensAboveTwoToThe63rdWorkInEveryCall) {
  const std::string url = Etcd::instance().url(new_prefix());
  const Path book = Path::of("book");
  const auto ahead = open_etcd_alone(url);
  ahead->executor().clock().see(Revision{std::uint64_t{1} << 63U});
  const Space one = open(ahead);
  const Space two = open(open_etcd_alone(url));
  Hold hold = one.lock({book, Path::of("film")});
  EXPECT_GT(hold.token().value, std::uint64_t{1} << 63U);
  EXPECT_FALSE(two.try_lock(book).has_value());
  hold.downgrade(book.shared());
  EXPECT_FALSE(two.try_lock(book).has_value());
  EXPECT_TRUE(two.try_lock(Path::of("film")).has_value());
  EXPECT_GT(two.lock(book.shared()).token(), hold.token());
  const std::vector<TicketInfo> all = two.inspect();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ticket.number, hold.token());
  EXPECT_TRUE(two.evict_now(hold.token()));
  EXPECT_FALSE(hold.release());
  EXPECT_TRUE(two.try_lock(book).has_value());
}

}  // namespace
}  // namespace tenure::etcd
