#include "store/postgres/buckets.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/conformance.hpp"

namespace tenure::postgres {
namespace {

using namespace std::string_literals;
using conformance::txn;

// Keys as space/stored/keys.hpp writes them.
std::string path(const std::string& root) {
  return "\1" + std::string{static_cast<char>(root.size())} + root;
}
std::string exclusive(const std::string& path) { return "\x01" + path + '\0'; }
std::string shared(const std::string& path) { return "\x02\x01" + path + '\0'; }
const std::string top{"\x01\0", 2};

std::optional<int> one(const Txn& txn) { return buckets_of(txn).one(); }
bool all(const Txn& txn) { return buckets_of(txn).all(); }
Txn write(const std::string& key) { return txn({}, {Write::put(key, "")}); }
Txn read(Range range) { return txn({}, {}, {std::move(range)}); }
Txn guard(Guard guard) { return txn({std::move(guard)}, {}); }

TEST(PostgresBuckets, ARootHasTheSameOneForever) {
  // Programs of different versions use one schema.
  EXPECT_EQ(one(write(exclusive(path("book")))), 50);
  EXPECT_EQ(one(write(shared(path("book") + path("c")))), 50);
  EXPECT_EQ(one(write(exclusive(path("film")))), 232);
  std::set<int> used;
  for (int i = 0; i < 2'000; ++i) {
    used.insert(one(write(exclusive(path("k" + std::to_string(i))))).value_or(-1));
  }
  EXPECT_EQ(used.size(), 252U) << "all but two";
  EXPECT_EQ(*used.begin(), 2);
}

TEST(PostgresBuckets, WorkflowsAndProgramsHaveTheirOwn) {
  EXPECT_EQ(one(write("mine")), plain_bucket);
  EXPECT_EQ(one(read(Range::prefix("m"))), plain_bucket);
  EXPECT_EQ(one(guard(Guard::empty(Range{.from = "a", .to = ""}))), plain_bucket);
  EXPECT_EQ(one(Txn{}), plain_bucket);
  EXPECT_EQ(one(write("\x11w")), flow_bucket);
  EXPECT_EQ(one(guard(Guard::quiet(Range::prefix("\x11i"), {}))), flow_bucket);
  EXPECT_EQ(one(write("\x05id")), flow_bucket);
  EXPECT_EQ(one(guard(Guard::present(exclusive(path("tenure") + path("flow"))))), flow_bucket);
}

TEST(PostgresBuckets, ThePathAboveAllLocksAll) {
  EXPECT_TRUE(all(write(top)));
  EXPECT_TRUE(all(read(Range::prefix("\x01\x01"))));
  EXPECT_TRUE(all(guard(Guard::quiet(Range{.from = "\x01", .to = "\x03"}, {}))));
  // Whoever writes there locks all, so a reader needs nothing but its own.
  EXPECT_EQ(one(txn({}, {Write::append(exclusive(path("book")), "")}, {Range::prefix(top)})), 50);
  // What is there at the moment.
  EXPECT_EQ(one(txn({}, {Write::append(exclusive(path("book")), "")}, {Range::prefix("\x02")})),
            50);
}

TEST(PostgresBuckets, SessionsAreGuardedInEveryOrder) {
  const std::string session = std::string{session_prefix} + "0123456789abcdef";
  const Txn append =
      txn({Guard::present(session)}, {Write::append(exclusive(path("book")), "")}, {});
  EXPECT_EQ(one(append), 50);
  EXPECT_EQ(one(write(session)), plain_bucket);
  const Txn remove = txn({}, {Write::remove(session)});
  EXPECT_TRUE(all(remove)) << "a ticket may be on its way that is guarded on it";
  EXPECT_EQ(buckets_of(remove, true).one(), plain_bucket);
  EXPECT_EQ(one(read(Range::prefix(std::string{session_prefix}))), plain_bucket);
  EXPECT_TRUE(all(write("\x04"s)));
  EXPECT_TRUE(all(write("\x07"s)));
  EXPECT_EQ(one(guard(Guard::unchanged("\x07", {}))), plain_bucket);
}

TEST(PostgresBuckets, OfSeveralKeysAreLockedInOrder) {
  const Txn both = txn({Guard::present(exclusive(path("film")))},
                       {Write::put(exclusive(path("book")), ""), Write::put("\x06owner", "")},
                       {Range::key("mine")});
  EXPECT_EQ(buckets_of(both).list(), (std::vector<int>{plain_bucket, 50, 232}));
  EXPECT_EQ(one(txn({}, {Write::put(exclusive(path("book")), ""), Write::put("\x06owner", "")})),
            50)
      << "an owner's entry goes with its ticket";
}

TEST(PostgresBuckets, AWatchIsToldByTheWritersOfItsKeys) {
  EXPECT_EQ(notice_bucket(Range::key(exclusive(path("book")))), 50);
  EXPECT_EQ(notice_bucket(Range::prefix(exclusive(path("book")))), 50);
  EXPECT_EQ(notice_bucket(Range::prefix(top)), plain_bucket);
  EXPECT_EQ(notice_bucket(Range{.from = "\x01", .to = "\x03"}), std::nullopt);
  EXPECT_EQ(notice_bucket(Range{}), std::nullopt);
  EXPECT_EQ(notice_bucket(std::string_view{"\x06owner"}), std::nullopt);
  EXPECT_EQ(notice_bucket(Range::prefix("\x06")), std::nullopt);
}

}  // namespace
}  // namespace tenure::postgres
