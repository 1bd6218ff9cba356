// Stores that fail, and entries that Tenure did not write.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/stored/keys.hpp"
#include "tests/museum/stored.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");
const Path film = Path::of("film");

// The message of an error; "none" if there was none.
template <class F>
std::string error_of(const F& ask) {
  try {
    ask();
  } catch (const StoreError& error) {
    return error.what();
  }
  return "none";
}

// ---- Errors that pass ----

// The holder's reads of its own entry fail repeatedly: that says nothing about its hold. A later
// loss is reported.
TEST_F(StoredMuseum, M25_AnErrorIsNotALoss) {
  Hold hold = space.max_hold(1h).lock(book);
  const std::stop_token lost = hold.lost();
  for (int i = 0; i < 20; ++i) {
    store->hold_notices(true);
    ASSERT_TRUE(hold.renew());  // The entry changes, so the holder is about to read it.
    store->fail_next(3, MemoryStore::Fault::before);
    store->hold_notices(false);
    store->settle();
    for (int second = 0; second < 5; ++second) move(1s);
    EXPECT_FALSE(lost.stop_requested());
  }
  EXPECT_TRUE(other().evict_now(hold.token()));
  until([&lost] { return lost.stop_requested(); });
  EXPECT_FALSE(hold.release());
}

// A waiter survives the errors as well, and keeps its position.
TEST_F(StoredMuseum, M25_AnErrorCostsAWaiterNothing) {
  Hold hold = space.lock(book);
  const Space elsewhere = other();
  std::vector<int> order;  // Guarded by the lock.
  std::vector<std::jthread> waiters;
  for (int i = 0; i < 2; ++i) {
    waiters.emplace_back([&, i] { elsewhere.with(book, [&] { order.push_back(i); }); });
    until_waiting(space, static_cast<std::size_t>(i) + 1);
  }
  store->settle();
  std::atomic<int> faults = 5;
  store->before_apply([&, test = std::this_thread::get_id()](const Txn&) {
    // Waiters read on the store's own thread.
    if (std::this_thread::get_id() != test && faults-- > 0) throw StoreError("not now");
  });
  hold.release();
  until([this] {
    move(100ms);
    return tickets() == 0;
  });
  store->before_apply({});
  waiters.clear();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

// ---- Entries that are not ours ----

// An invalid entry instead of a ticket on `book`: requests are refused with an error that names it;
// nothing is left behind; the entry is not touched until an operator evicts it; unrelated requests
// continue.
TEST_F(StoredMuseum, M26_ATicketThatIsNoneIsRefusedByName) {
  const std::vector<std::string> hostile = {
      "",
      "{",
      "null",
      "[]",
      "{}",
      "\xff\xfe",
      "{\"claims\":[]}",
      R"({"session":7,"request":0,"claims":[["book"]],"since":0})",
      R"({"session":"x","request":-1,"claims":"book","since":0})",
      R"({"session":"x","request":0,"claims":[["book",7]],"since":0})",
      R"({"session":"x","request":0,"claims":[["book","g",0]],"since":0})",
      R"({"session":"x","request":0,"claims":[["book","g",1e99]],"since":0})",
      R"({"session":"x","request":0,"claims":[["b%"]],"since":0})",
      R"({"session":"x","request":0,"claims":[["book"]],"since":"now"})",
      R"({"session":"x","request":0,"claims":[["book"]],"since":0,"deadline":{}})",
      R"({"session":"x","first":[]})",
      std::string(20'000, '['),
  };
  for (const std::string& value : hostile) {
    SCOPED_TRACE(value.substr(0, 80));
    Txn plant;
    plant.writes.push_back(Write::append(stored::line_of(book), value));
    const Token planted{store->apply(plant).revision.value};
    for (const std::string& said : {
             error_of([&] { static_cast<void>(space.try_lock(book)); }),
             error_of([&] { static_cast<void>(space.lock(book)); }),
             error_of([&] { static_cast<void>(space.lock(book / Path::of("page"))); }),
         }) {
      EXPECT_NE(said.find("not written by Tenure"), std::string::npos) << said;
      EXPECT_NE(said.find("'tenure evict " + std::to_string(planted.value) + "'"),
                std::string::npos)
          << said;
    }
    EXPECT_TRUE(space.lock(film).release());
    EXPECT_TRUE(space.as("somebody").lock(film).release());
    EXPECT_EQ(tickets(), 1U) << "the stranger's own";
    const std::vector<TicketInfo> infos = space.inspect(book);
    ASSERT_EQ(infos.size(), 1U);
    EXPECT_EQ(infos.front().ticket.number, planted);
    EXPECT_EQ(infos.front().ticket.claims, std::vector{book.exclusive()});
    EXPECT_NE(infos.front().fault, "");
    EXPECT_TRUE(space.evict(planted));
    EXPECT_TRUE(space.lock(book).release());
  }
}

// The entry of a claim whose ticket is missing, or belongs to another: otherwise nobody would ever
// remove it.
TEST_F(StoredMuseum, M26_AClaimWithoutATicketIsRefused) {
  for (const std::string& value :
       {std::string{R"({"session":"x","request":0,"claims":[["film"]],"since":0})"},
        std::string{R"({"session":"x","first":["nothing"]})"}}) {
    Txn plant;
    plant.writes.push_back(Write::put(stored::row_key(book, Token{1}), value));
    store->apply(plant);
    for (const std::string& said : {error_of([&] { static_cast<void>(space.try_lock(book)); }),
                                    error_of([&] { static_cast<void>(space.lock(book)); })}) {
      EXPECT_NE(said.find("not written by Tenure"), std::string::npos) << said;
    }
    EXPECT_EQ(tickets(), 1U) << "the stranger's own";
  }
}

// An invalid entry among the groups, whose group can't be determined: it blocks nobody, does not
// hide groups that sort after it, and stays until an operator evicts it.
TEST_F(StoredMuseum, M26_AnEntryOfNoGroupIsInNobodysWayAndHidesNothing) {
  for (const std::string& key : {std::string{"\x02"}, std::string{"\x02zz"}}) {
    Txn plant;
    plant.writes.push_back(Write::put(key, "{}"));
    store->apply(plant);
    EXPECT_TRUE(space.lock(book).release());
    EXPECT_TRUE(space.try_lock(book));
    {
      const Space reader = other();
      const Hold shared = reader.lock(book.shared());
      EXPECT_FALSE(space.try_lock(book));
      EXPECT_TRUE(space.try_lock(book.shared()));
      EXPECT_EQ(space.inspect().size(), 1U);
    }
    for (int i = 0; i < 5; ++i) move(1s);
    EXPECT_EQ(tickets(), 1U) << "the stranger's own";
    EXPECT_TRUE(space.evict(Token{}));
    EXPECT_FALSE(space.evict(Token{}));
    EXPECT_EQ(tickets(), 0U);
  }
}

}  // namespace
}  // namespace tenure::museum
