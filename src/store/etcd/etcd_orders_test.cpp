// Orders of roots: what revisions promise within one, and that they promise nothing between two.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/numbers.hpp"
#include "store/etcd/requests.hpp"
#include "store/etcd/scope.hpp"
#include "tenure/space.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::etcd {
namespace {

using conformance::Bell;
using conformance::txn;
using kit::Etcd;
using kit::new_prefix;

// The line of exclusive claims on a path of one segment; on /, if it is empty.
std::string line(const std::string& root) {
  std::string key{"\x01"};
  if (!root.empty()) key += "\x01" + std::string(1, static_cast<char>(root.size())) + root;
  return key + '\0';
}

using Stores = std::vector<std::shared_ptr<EtcdStore>>;
Stores open_several(std::size_t count, const std::string& prefix = new_prefix()) {
  Stores stores;
  for (std::size_t i = 0; i < count; ++i) {
    stores.push_back(open_etcd_alone(Etcd::instance().url(prefix)));
  }
  return stores;
}

Revision append(Store& store, const std::vector<std::string>& lines) {
  Txn one;
  for (const std::string& key : lines) one.writes.push_back(Write::append(key, ""));
  return store.apply(one).revision;
}

// A ticket as etcd has it.
struct Ticket {
  std::string line;
  std::uint64_t number;
  std::int64_t made_at;  // etcd's revision.
};
std::vector<Ticket> tickets(EtcdStore& store) {
  pb::RangeRequest request;
  request.set_key(store.executor().layout().key("\x01"));
  request.set_range_end(store.executor().layout().key("\x02"));
  pb::RangeResponse response;
  store.executor().client().range(request, response);
  std::vector<Ticket> found;
  for (const pb::KeyValue& kv : response.kvs()) {
    const std::string key{store.executor().layout().entry_at(kv.key()).value()};
    found.push_back({.line = key.substr(0, key.size() - stamp_size),
                     .number = stamp_of(key).value,
                     .made_at = kv.mod_revision()});
  }
  return found;
}

// Tickets of several clients, whose clocks are hours apart, on some roots, on several at once and
// on /: of two that can conflict, the later one has the larger number. No number is used twice.
TEST(EtcdOrders, NumbersOfARootRiseInTheOrderOfCommits) {
  const Stores stores = open_several(4);
  const std::vector<std::string> roots{"a", "b", "c", "d", "e"};
  for (std::size_t i = 0; i < 2; ++i) {
    // Of one order only: this client is ahead of all others there.
    const Scope scope = scope_of(Range::prefix(line(roots[i])));
    const std::uint64_t slot = stores[i]->executor().clock().slot();
    stores[i]->executor().orders().see(scope.first(),
                                       Revision{(slot + (3600 * heads_a_second)) * apart});
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    threads.emplace_back([&, i] {
      std::minstd_rand random{static_cast<unsigned>(i) + 1};
      for (int n = 0; n < 60; ++n) {
        const std::string& one = roots[random() % roots.size()];
        const std::string& other = roots[random() % roots.size()];
        switch (random() % 8) {
          case 0: append(*stores[i], {line("")}); break;
          case 1: append(*stores[i], {line(one), line(other)}); break;
          case 2: append(*stores[i], {line(one), "mine/"}); break;
          case 3:
            for (const std::string& root : roots) append(*stores[i], {line(root), line("")});
            break;
          default: append(*stores[i], {line(one)}); break;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<Ticket> all = tickets(*stores[0]);
  std::ranges::sort(all, {}, &Ticket::made_at);
  std::map<std::uint64_t, std::int64_t> made;  // By number.
  std::map<std::string, std::uint64_t> newest;
  bool unrelated = false;
  std::uint64_t last = 0;
  for (const Ticket& ticket : all) {
    const auto [at, first] = made.try_emplace(ticket.number, ticket.made_at);
    EXPECT_EQ(at->second, ticket.made_at) << "a number is used twice";
    const bool top = ticket.line == line("");
    for (const auto& [other, number] : newest) {
      if (top || other == line("") || other == ticket.line) {
        EXPECT_LE(number, ticket.number);
      }
    }
    newest[ticket.line] = std::max(newest[ticket.line], ticket.number);
    unrelated = unrelated || ticket.number < last;
    last = ticket.number;
  }
  EXPECT_TRUE(unrelated) << "an order of all roots would hide what this test is about";
}

// Removals have numbers of their own, and are later than what they remove.
TEST(EtcdOrders, ARemovalIsNewerThanAllBeforeIt) {
  const Stores stores = open_several(2);
  Revision last;
  for (int i = 0; i < 20; ++i) {
    const Revision put = append(*stores[0], {line("book")});
    EXPECT_GT(put, last);
    const Txn remove = txn({}, {Write::remove(line("book") + stamp(put))});
    const Revision removed = stores[1]->apply(remove).revision;
    EXPECT_GT(removed, put);
    last = stores[0]->apply(remove).revision;
    EXPECT_GT(last, removed) << "though there is nothing left to remove";
    EXPECT_EQ(stores[1]->apply(txn({}, {}, {Range::prefix(line("book"))})).revision, last);
  }
}

// --- clients of different roots do not meet

TEST(EtcdOrders, AWriteInAnotherRootIsNoRace) {
  const Stores stores = open_several(2);
  for (const std::string& key : {line("book"), line("film"), std::string{"mine/"}}) {
    append(*stores[0], {key});
    append(*stores[1], {line("other")});
  }
  const Counts& counts = stores[0]->executor().counts();
  const std::uint64_t before = counts.round_trips.load();
  for (int i = 0; i < 20; ++i) {
    append(*stores[0], {line("book")});
    append(*stores[1], {line("other")});
    append(*stores[1], {"yours/"});
    append(*stores[0], {line("film")});
  }
  EXPECT_EQ(counts.round_trips.load() - before, 40U);
  EXPECT_EQ(counts.head_not_ours.load(), 0U);
}

TEST(EtcdOrders, ASoleWriterFindsATicketOnTheTop) {
  const Stores stores = open_several(2);
  const Txn step = txn({}, {Write::append(line("book"), "")}, {Range::prefix(line(""))});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(stores[0]->apply(step).reads[0].empty());
  const std::vector<bool> known{true, false};
  ASSERT_EQ(stores[0]->executor().knows({step.reads[0], Range::prefix(line("book"))}), known);
  const Revision top = append(*stores[1], {line("")});
  const Outcome next = stores[0]->apply(step);
  ASSERT_EQ(next.reads[0].size(), 1U);
  EXPECT_EQ(next.reads[0][0].created, top);
  EXPECT_GT(next.revision, top);
}

// --- reads of several roots

class EtcdRoots : public ::testing::Test {
 protected:
  // Numbers of `film` are hours ahead of those of `book`.
  void SetUp() override {
    Executor& executor = stores[1]->executor();
    const Scope film = scope_of(Range::prefix(line("film")));
    executor.orders().see(film.first(),
                          Revision{(executor.clock().slot() + (3600 * heads_a_second)) * apart});
    book = line("book") + stamp(append(*stores[0], {line("book")}));
    film_ = append(*stores[1], {line("film")});
  }
  Outcome read_both() {
    const Outcome both =
        stores[0]->apply(txn({}, {}, {Range::prefix(line("book")), Range::prefix(line("film"))}));
    EXPECT_EQ(both.revision, film_) << "the last commit";
    return both;
  }
  void remove_book() {
    const Revision removed = stores[1]->apply(txn({}, {Write::remove(book)})).revision;
    EXPECT_LT(removed, film_) << "later, and smaller";
  }

  const Stores stores = open_several(2);
  std::string book;
  Revision film_;
};

TEST_F(EtcdRoots, AWatchIsToldOfASmallerNumberThatIsLater) {
  const Outcome both = read_both();
  Bell early;
  const auto watch =
      stores[0]->watch({.ranges = {Range::key(book)}, .after = both.revision}, early.notice());
  remove_book();
  early.wait();
  Bell late;
  const auto again =
      stores[0]->watch({.ranges = {Range::key(book)}, .after = both.revision}, late.notice());
  late.wait();
}

TEST_F(EtcdRoots, AWatchOfARangeIsToldOfASmallerNumberThatIsLater) {
  const Outcome both = read_both();
  const WatchFor what{.ranges = {Range::prefix(line("book"))}, .after = both.revision};
  Bell early;
  const auto watch = stores[0]->watch(what, early.notice());
  remove_book();
  early.wait();
  Bell late;
  const auto again = stores[0]->watch(what, late.notice());
  late.wait();
}

// What is in the range when it is read is no reason, whatever its number.
TEST_F(EtcdRoots, AWatchIsNotToldOfALargerNumberThatIsEarlier) {
  const Revision mine = append(*stores[0], {line("book")});
  const Outcome both =
      stores[0]->apply(txn({}, {}, {Range::prefix(line("book")), Range::prefix(line("film"))}));
  ASSERT_EQ(both.revision, mine);
  ASSERT_LT(mine, film_);
  std::atomic<bool> told = false;
  const std::string film_key = line("film") + stamp(film_);
  const auto watch = stores[0]->watch({.ranges = {Range::key(film_key)}, .after = both.revision},
                                      [&] { told = true; });
  Bell bell;
  const auto fence =
      stores[0]->watch({.ranges = {Range::key(book)}, .after = both.revision}, bell.notice());
  remove_book();
  bell.wait();
  EXPECT_FALSE(told);
}

TEST_F(EtcdRoots, AQuietRangeIsJudgedByTheOrderOfCommits) {
  const Range books = Range::prefix(line("book"));
  const Range films = Range::prefix(line("film"));
  const auto quiet = [&](const Range& range, Revision since) {
    return stores[0]->apply(txn({Guard::quiet(range, since)}, {})).committed;
  };
  const Outcome both = read_both();
  EXPECT_TRUE(quiet(books, both.revision));
  EXPECT_TRUE(quiet(films, both.revision));
  const Revision mine = append(*stores[1], {line("book")});
  ASSERT_LT(mine, film_);
  EXPECT_FALSE(quiet(books, both.revision)) << "changed later, by a smaller number";
  const Revision now = stores[0]->apply(txn({}, {}, {books, films})).revision;
  EXPECT_EQ(now, mine);
  EXPECT_TRUE(quiet(films, now)) << "changed before, by a larger number";
  EXPECT_TRUE(quiet({.from = "\x01", .to = "\x02"}, now));
  // This client knows neither number: numbers of several roots can't be compared.
  const auto fresh = open_several(1, stores[0]->executor().client().address().prefix).front();
  EXPECT_FALSE(
      fresh->apply(txn({Guard::quiet({.from = "\x01", .to = "\x02"}, film_)}, {})).committed);
  EXPECT_TRUE(fresh->apply(txn({Guard::quiet(films, film_)}, {})).committed);
  EXPECT_TRUE(
      fresh->apply(txn({Guard::quiet({.from = "\x01", .to = "\x02"}, this_apply)}, {})).committed);
}

// --- lost answers

TEST(EtcdOrders, ALostCommitInSeveralOrdersIsFoundAndNotMadeAgain) {
  const std::string prefix = new_prefix();
  kit::Proxy network{std::stoi(Etcd::instance().endpoint().substr(10))};
  const auto store = open_etcd_alone("etcd://127.0.0.1:" + std::to_string(network.port()) + "/" +
                                     prefix + "?timeout=2s");
  for (const std::vector<std::string>& lines :
       {std::vector{line("book"), line("film")}, std::vector{line("")},
        std::vector{line("book"), std::string{"mine/"}}, std::vector{line("book")}}) {
    const std::size_t before = tickets(*store).size();
    Revision last;
    for (const auto way : {kit::Proxy::Way::to_client, kit::Proxy::Way::to_server}) {
      network.swallow(way);
      const Revision next = append(*store, lines);
      EXPECT_GT(next, last);
      last = next;
    }
    const auto added = static_cast<std::size_t>(
        std::ranges::count_if(lines, [](const std::string& key) { return key != "mine/"; }));
    EXPECT_EQ(tickets(*store).size(), before + (2 * added));
  }
}

// --- other versions

TEST(EtcdOrders, AProgramOfAnotherVersionAndThisOneRefuseEachOther) {
  const std::string prefix = new_prefix();
  const Layout layout{prefix};
  Client client{parse_address(Etcd::instance().url(prefix))};
  // What version 2 had.
  pb::TxnRequest old;
  const std::string head = head_value({.revision = Revision{7}, .time = {}});
  add_put(*old.mutable_success(), layout.version(), head.substr(0, head.size() - 1) + '\x02');
  pb::TxnResponse response;
  client.txn(old, response, true);
  try {
    static_cast<void>(open_etcd_alone(Etcd::instance().url(prefix)));
    ADD_FAILURE() << "opened";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string{error.what()}.find("layout version 2,"), std::string::npos);
  }
  // Version 2 commits if its head is smaller than its number, and reads its version otherwise.
  const auto store = open_several(1).front();
  pb::RangeRequest request;
  request.set_key(store->executor().layout().version());
  pb::RangeResponse found;
  store->executor().client().range(request, found);
  ASSERT_EQ(found.kvs_size(), 1);
  EXPECT_GE(found.kvs(0).value(), stamp(this_apply));
  EXPECT_EQ(found.kvs(0).value().size(), (2 * stamp_size) + 1);
  EXPECT_EQ(found.kvs(0).value().back(), static_cast<char>(layout_version));
}

// Numbers follow the time, and pass 2^63 in 2038, or if one client's clock is ahead.
TEST(EtcdOrders, TokensAboveTwoToThe63rdWorkInEveryCall) {
  const std::string url = Etcd::instance().url(new_prefix());
  const Path book = Path::of("book");
  const auto ahead = open_etcd_alone(url);
  ahead->executor().orders().see(top_order, Revision{std::uint64_t{1} << 63U});
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
