// Tickets that hang on a key, while sessions die and applies fail, in a store with a virtual clock;
// and what is written of them.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using kit::until;

const Path book = Path::of("book");
const Path film = Path::of("film");
const std::string order = "orders/7";

class AnchoredFate : public ::testing::Test {
 protected:
  void SetUp() override {
    Txn txn;
    txn.writes.push_back(Write::put(order, "open"));
    store->apply(txn);
  }
  [[nodiscard]] std::string session_of(const Space& space, Token token) const {
    for (const TicketInfo& info : space.inspect()) {
      if (info.ticket.number == token) return info.session;
    }
    return {};
  }
  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
};

TEST_F(AnchoredFate, TheDeathOfTheSessionIsNothingToIt) {
  const Space first = open(store);
  const Token token = first.anchored(order).lock(book).detach();
  const Token other = first.lock(film).token();
  static_cast<void>(other);
  store->kill_session(session_of(first, token));
  const Space second = open(store);  // Sweeps what dead sessions left.
  EXPECT_FALSE(second.try_lock(book).has_value());
  EXPECT_TRUE(second.try_lock(film).has_value());
  std::optional<Hold> hold = second.find(token);
  ASSERT_TRUE(hold.has_value());
  EXPECT_TRUE(hold->release());
}

TEST_F(AnchoredFate, ALostSessionLosesNoAnchoredHold) {
  const Space space = open(store);
  Hold hold = space.anchored(order).lock(book);
  const Hold own = space.lock(film);
  const std::stop_token lost = hold.lost();
  const std::stop_token own_lost = own.lost();
  store->lose_session(session_of(space, hold.token()));
  until([&] { return own_lost.stop_requested(); });
  store->settle();
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_FALSE(hold.lost().stop_requested());
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release());
}

TEST_F(AnchoredFate, ALostAnswerIsReadBackByTheRequestId) {
  const Space space = open(store);
  store->fail_next(1, MemoryStore::Fault::after);
  const Hold hold = space.anchored(order).request_id(5).lock(book);
  EXPECT_EQ(space.inspect().size(), 1U);
  EXPECT_EQ(space.inspect().front().ticket.number, hold.token());
}

TEST_F(AnchoredFate, ALostAnswerWithoutAnIdIsReadBackToo) {
  const Space space = open(store);
  store->fail_next(1, MemoryStore::Fault::after);
  const Hold hold = space.anchored(order).lock(book);
  EXPECT_EQ(space.inspect().size(), 1U);
}

TEST_F(AnchoredFate, AReleaseThatFailsIsRetriedAlthoughTheSessionIsLost) {
  const Space space = open(store);
  Hold hold = space.anchored(order).lock(book);
  store->lose_session(session_of(space, hold.token()));
  store->settle();
  store->fail_next(2, MemoryStore::Fault::before);
  EXPECT_THROW(hold.release(), StoreError);
  for (int i = 0; i < 3; ++i) {
    store->advance(200ms);
    store->settle();
  }
  EXPECT_TRUE(open(store).try_lock(book).has_value());
}

TEST_F(AnchoredFate, ADeadlineIsKeptByWhoeverFindsIt) {
  const Space first = open(store);
  const Token token = first.anchored(order).max_hold(10s).lock(book).detach();
  const Space second = open(store);
  std::optional<Hold> hold = second.find(token);
  ASSERT_TRUE(hold.has_value());
  EXPECT_EQ(hold->deadline(), store->now() + 10s);
  const std::stop_token lost = hold->lost();
  store->advance(9s);
  until([&] { return lost.stop_requested(); });
  store->advance(1s);
  EXPECT_FALSE(first.find(token).has_value());
  EXPECT_TRUE(first.try_lock(book).has_value());
}

// ---- The row

TEST(AnchoredRow, IsReadAsItWasWritten) {
  Row row;
  row.session = "0123456789abcdef";
  row.anchor = std::string{"\x11run/7 \xff\0", 9};
  row.request = 3;
  row.id = 9;
  row.claims = {book.exclusive(), film.shared()};
  row.since = Instant{1s};
  const std::string key = row_key(row.claims.front(), Token{5});
  const Parsed whole = parse_row({.key = key, .value = row.text(), .created = {5}, .changed = {5}});
  ASSERT_TRUE(whole.row.has_value());
  EXPECT_EQ(*whole.row, row);
  const Parsed part =
      parse_row({.key = key, .value = claim_text(row, 1), .created = {5}, .changed = {5}});
  ASSERT_TRUE(part.pointer.has_value());
  EXPECT_EQ(part.pointer->anchor, row.anchor);
  EXPECT_EQ(part.pointer->first, row.claims.front());
}

TEST(AnchoredRow, OneOfASessionHasNoFormat) {
  Row row;
  row.session = "0123456789abcdef";
  row.claims = {book.exclusive()};
  EXPECT_EQ(row.text(),
            R"({"session":"0123456789abcdef","request":0,"claims":[["book"]],"since":0})");
}

TEST(AnchoredRow, BadAnchorsAreRefused) {
  for (const std::string anchor :
       {R"("key")", R"([])", R"(["key"])", R"(["key",""])", R"(["key","a/b"])", R"(["key",7])"}) {
    const std::string value = R"({"format":2,"anchor":)" + anchor +
                              R"(,"by":"s","request":1,"claims":[["book"]],"since":1})";
    const auto read = read_row({.key = row_key(book.exclusive(), Token{5}),
                                .value = value,
                                .created = {5},
                                .changed = {5}});
    ASSERT_FALSE(read.has_value()) << anchor;
    EXPECT_FALSE(read.error().newer) << anchor;
  }
}

TEST(AnchoredLocal, ALocalSpaceHasNoAnchors) {
  const Space space = open("local:");
  EXPECT_THROW(static_cast<void>(space.anchored("a")), BadRequest);
  EXPECT_THROW(static_cast<void>(space.find(Token{1})), BadRequest);
  Hold hold = space.lock(book);
  EXPECT_THROW(hold.detach(), BadRequest);
  EXPECT_TRUE(hold.release());
}

}  // namespace
}  // namespace tenure::stored
