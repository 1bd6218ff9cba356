// Which orders transactions are in: no server.
#include "store/etcd/scope.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/orders.hpp"

namespace tenure::etcd {
namespace {

using conformance::txn;

// Keys as space/stored/keys.hpp writes them, without the stamp.
std::string below(const std::string& root) {
  return "\x01" + std::string(1, static_cast<char>(root.size())) + root;
}
std::string line(const std::string& root) { return "\x01" + below(root) + '\0'; }
std::string shared_line(const std::string& root) { return "\x02\x01" + below(root) + '\0'; }
const std::string top_line{"\x01\0", 2};
const std::string below_top{"\x01\x01", 2};

Scope writing(const std::vector<std::string>& keys) {
  Txn all;
  for (const std::string& key : keys) all.writes.push_back(Write::append(key, ""));
  return written_by(all);
}

TEST(EtcdScope, OfATicketIsItsRoot) {
  const Scope book = writing({line("book")});
  EXPECT_TRUE(book.single());
  EXPECT_GE(book.first(), first_root);
  EXPECT_EQ(writing({shared_line("book")}), book) << "in any region";
  EXPECT_EQ(writing({line("book").substr(0, 7) + "\1\1c" + '\0'}), book) << "at any depth";
  EXPECT_NE(writing({line("film")}), book);
  EXPECT_EQ(written_by(txn({}, {Write::remove(line("book") + "12345678")})), book);
}

// All clients must agree on it, of any version.
TEST(EtcdScope, OfARootNeverChanges) {
  EXPECT_EQ(writing({line("book")}).first(), 1687);
  EXPECT_EQ(writing({line("film")}).first(), 2773);
}

TEST(EtcdScope, SpreadsRoots) {
  std::set<OrderId> orders;
  for (int i = 0; i < 1000; ++i) orders.insert(writing({line("r" + std::to_string(i))}).first());
  EXPECT_GT(orders.size(), 800U);
}

TEST(EtcdScope, OfATicketOnTheTopIsEveryRoot) {
  const Scope top = writing({top_line, line("book")});
  EXPECT_TRUE(top.all);
  EXPECT_FALSE(top.other);
  EXPECT_EQ(top.moved(), std::vector<OrderId>{top_order});
}

TEST(EtcdScope, OfManyRootsIsEveryRoot) {
  EXPECT_EQ(writing({line("a"), line("b"), line("c"), line("d")}).roots.size(), 4U);
  EXPECT_TRUE(writing({line("a"), line("b"), line("c"), line("d"), line("e")}).all);
}

// etcd limits the operations of a transaction: such a request has room for one head.
TEST(EtcdScope, OfALargeRequestInTwoRootsIsEveryRoot) {
  Txn large;
  for (int i = 0; i < 62; ++i) {
    const std::string key = line(i % 2 == 0 ? "a" : "b");
    large.writes.push_back(Write::append(key, ""));
    large.guards.push_back(Guard::absent(key));
  }
  EXPECT_TRUE(written_by(large).all);
}

TEST(EtcdScope, OfWhatIsWrittenWithATicketIsTheTickets) {
  const Scope book = writing({line("book")});
  EXPECT_EQ(writing({line("book"), "\x06owner"}), book);
  EXPECT_EQ(writing({"\x05"
                     "id",
                     line("book")}),
            book);
  EXPECT_EQ(writing({"\x06owner"}), (Scope{.other = true}));
  for (const char* const key : {"\x03session", "\x10s", "\x11workflow", "mine", "\xff"}) {
    EXPECT_EQ(writing({key}), (Scope{.other = true})) << key;
    EXPECT_TRUE(writing({key, line("book")}).other) << key;
  }
}

TEST(EtcdScope, OfAReadIsWhatMayChangeInIt) {
  const Scope book = writing({line("book")});
  EXPECT_EQ(scope_of(Range::prefix(line("book"))), book);
  EXPECT_EQ(scope_of(Range::key(line("book") + "12345678")), book);
  EXPECT_EQ(scope_of(Range::prefix(top_line)), (Scope{.top = true}));
  EXPECT_EQ(scope_of(Range::key(top_line + "1234567\1")), (Scope{.top = true}));
  EXPECT_EQ(scope_of(Range::prefix(below_top)), (Scope{.all = true}));
  EXPECT_EQ(scope_of(Range{.from = top_line, .to = "\x02"}), (Scope{.all = true}))
      << "from the top on";
  EXPECT_EQ(scope_of(Range::prefix("mine")), (Scope{.other = true}));
  EXPECT_EQ(scope_of(Range::key("mine")), (Scope{.other = true}));
  const Scope everything{.all = true, .other = true};
  EXPECT_EQ(scope_of(Range::prefix("\x02")), everything) << "a whole region";
  EXPECT_EQ(scope_of(Range{}), everything);
  EXPECT_EQ(scope_of(Range::prefix("\x06owner")), everything) << "written in any order";
  EXPECT_EQ(scope_of(Range{.from = "\x03", .to = ""}), everything) << "among others";
  EXPECT_EQ(touched_by({}), everything);
}

// The anchor of a ticket is guarded when conflicts are read, and watched from there.
TEST(EtcdScope, OfAReadIsThatOfItsGuardsToo) {
  Scope expected = writing({line("book")});
  const std::vector<Range> reads{Range::prefix(line("book"))};
  EXPECT_EQ(touched_by(txn({Guard::present("\x03session")}, {}, reads)), expected);
  expected.other = true;
  EXPECT_EQ(touched_by(txn({Guard::present("anchor")}, {}, reads)), expected);
}

TEST(EtcdScope, KnowsWhatAHeadTellsOf) {
  const OrderId book = writing({line("book")}).first();
  EXPECT_TRUE(is_in(book, Range::prefix(line("book"))));
  EXPECT_TRUE(is_in(book, Range::prefix(top_line)));
  EXPECT_FALSE(is_in(book, Range::prefix(line("film"))));
  EXPECT_FALSE(is_in(book, Range::prefix(below_top)));
  EXPECT_FALSE(is_in(book, Range::prefix("mine")));
  EXPECT_TRUE(is_in(other_order, Range::prefix("mine")));
  EXPECT_FALSE(is_in(other_order, Range::prefix("\x06owner")));
  EXPECT_FALSE(is_in(other_order, Range::prefix(top_line)));
}

// --- slots

TEST(EtcdOrders, ProposeLargerSlotsThanInAnyOrderOfTheScope) {
  Orders orders;
  orders.see(7, Revision{50 * apart});
  orders.see(8, Revision{60 * apart});
  EXPECT_EQ(orders.propose({.roots = {7}}, 10), 51U);
  EXPECT_EQ(orders.propose({.roots = {7, 8}}, 10), 61U);
  EXPECT_EQ(orders.propose({.roots = {7}}, 10), 62U) << "it was proposed there, too";
  EXPECT_EQ(orders.propose({.roots = {9}}, 10), 10U);
  EXPECT_EQ(orders.propose({.other = true}, 10), 10U);
  EXPECT_EQ(orders.propose({.all = true}, 10), 63U);
  EXPECT_EQ(orders.propose({.roots = {9}}, 10), 64U) << "later than the top";
  EXPECT_EQ(orders.propose({.other = true}, 10), 11U) << "is not below the top";
  EXPECT_EQ(orders.next({.roots = {7}}), 51U) << "only what was seen";
}

// A process that uses many roots keeps what it knows of some only.
TEST(EtcdOrders, ForgetTheOldestOfManySoleWriters) {
  Orders orders;
  for (OrderId id = first_root; id < first_root + 300; ++id) {
    orders.moved(id, {.head = {{.revision = Revision{apart + id}, .time = {}}, 1}});
  }
  EXPECT_FALSE(orders[first_root].sole_writer.use({}));
  EXPECT_TRUE(orders[first_root + 299].sole_writer.use({}));
  orders.forget({.all = true});
  EXPECT_FALSE(orders[first_root + 299].sole_writer.use({}));
}

}  // namespace
}  // namespace tenure::etcd
