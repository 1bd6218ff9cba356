#include "store/memory/orders.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tenure/memory_store.hpp"
#include "tenure/store.hpp"

namespace tenure::memory {
namespace {

// Keys as space/stored/keys.hpp writes them.
std::string exclusive(const std::string& path) { return "\x01" + path; }
std::string shared(const std::string& path) { return "\x02\x01" + path; }
const std::string root{"\0", 1};
const std::string book{"\1\4book\0", 7};
const std::string chapter{"\1\4book\1\1c\0", 10};
const std::string film{"\1\4film\0", 7};

Txn writing(const std::string& key) {
  Txn txn;
  txn.writes.push_back(Write::append(key, ""));
  return txn;
}
Txn reading(const Range& range) {
  Txn txn;
  txn.reads.push_back(range);
  return txn;
}

TEST(Orders, OfOneAreAllComparable) {
  Orders orders{MemoryStore::Order::one};
  EXPECT_EQ(orders.next(writing(exclusive(book))).value, 1U);
  EXPECT_EQ(orders.next(writing(exclusive(film))).value, 2U);
  EXPECT_EQ(orders.last(reading(Range::key("mine"))).value, 2U);
}

TEST(Orders, OfDifferentRootsAreUnrelated) {
  Orders orders{MemoryStore::Order::by_root};
  std::set<std::uint64_t> given;
  bool smaller = false;
  Revision books;
  Revision films;
  for (int i = 0; i < 100; ++i) {
    const Revision next_book = orders.next(writing(i % 2 == 0 ? exclusive(book) : shared(chapter)));
    EXPECT_GT(next_book, books);
    const Revision next_film = orders.next(writing(exclusive(film)));
    EXPECT_GT(next_film, films);
    smaller = smaller || next_film < next_book;  // Although it came later.
    books = next_book;
    films = next_film;
    given.insert(books.value);
    given.insert(films.value);
  }
  smaller = smaller || orders.next(writing(exclusive(book))) < films;
  EXPECT_TRUE(smaller);
  EXPECT_EQ(given.size(), 200U);
}

TEST(Orders, OfAnApplyAreThoseOfAllThatItTouches) {
  Orders orders{MemoryStore::Order::by_root};
  const Revision books = orders.next(writing(exclusive(book)));
  const Revision films = orders.next(writing(exclusive(film)));
  Txn both = writing(exclusive(book));
  both.reads.push_back(Range::prefix(shared(film)));
  const Revision revision = orders.next(both);
  EXPECT_GT(revision, books);
  EXPECT_GT(revision, films);
  EXPECT_GT(orders.next(writing(exclusive(film))), revision);
}

TEST(Orders, OfTheTopAreInEveryRoot) {
  Orders orders{MemoryStore::Order::by_root};
  const Revision books = orders.next(writing(exclusive(book)));
  const Revision films = orders.next(writing(exclusive(film)));
  const Revision top = orders.next(writing(exclusive(root)));
  EXPECT_GT(top, books);
  EXPECT_GT(top, films);
  EXPECT_GT(orders.next(writing(exclusive(book))), top);
  EXPECT_GT(orders.next(writing(exclusive("\1\3new") + root)), top) << "of a new root, too";
  const Revision seen = orders.last(reading(Range::prefix(exclusive("\1"))));
  EXPECT_GE(seen, top);
  EXPECT_GT(orders.next(writing(exclusive(film))), seen) << "whoever reads below / sees all";
}

}  // namespace
}  // namespace tenure::memory
