// What becomes of tickets in a store when time passes, sessions die and applies fail. The clock is
// virtual, so nothing here waits for real time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <thread>
#include <utility>

#include "base/detached.hpp"
#include "space/any_space_test.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");
const Path film = Path::of("film");

class StoredFate : public ::testing::Test {
 protected:
  // A space of its own session: another process, as far as the store can tell.
  [[nodiscard]] Space other() { return open(store); }

  [[nodiscard]] std::string session_of(Token token) {
    for (const TicketInfo& info : space.inspect()) {
      if (info.ticket.number == token) return info.session;
    }
    return {};
  }
  void await_waiters(std::size_t count,
                     std::source_location where = std::source_location::current()) {
    tenure::await_waiters(space, count, where);
  }
  // Runs on a thread until it ends; the store's clock does not move meanwhile.
  [[nodiscard]] static std::jthread start(std::function<void()> work) {
    return std::jthread{std::move(work)};
  }
  static void await(const std::stop_token& token,
                    std::source_location where = std::source_location::current()) {
    kit::until([&token] { return token.stop_requested(); }, where);
  }
  [[nodiscard]] std::size_t entries() {
    Txn txn;
    txn.reads = {Range::prefix("\x01"), Range::prefix("\x02")};
    const Outcome outcome = store->apply(txn);
    return outcome.reads[0].size() + outcome.reads[1].size();
  }

  // It is made, whoever's it is; the answer gets lost.
  void lose_answer_of_next_append() {
    store->before_apply([this, next = std::make_shared<std::atomic<bool>>(true)](const Txn& txn) {
      if (txn.writes.empty() || txn.writes.front().kind != Write::Kind::append) return;
      if (!next->exchange(false)) return;
      store->apply(txn);
      throw StoreError("no answer", true);
    });
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Space space = open(store);
};

// ---- max_hold ----

TEST_F(StoredFate, ADeadlineBeginsAtTheGrant) {
  Hold first = space.lock(book);
  std::optional<Hold> second;
  std::jthread waiter = start([&] { second = space.max_hold(10s).lock(book); });
  await_waiters(1);
  store->advance(1h);  // However long it waits.
  first.release();
  waiter.join();
  EXPECT_EQ(second->deadline(), store->now() + 10s);
  EXPECT_EQ(first.deadline(), std::nullopt);
}

TEST_F(StoredFate, AnOverdueHoldIsLostAndPassedOn) {
  Hold hold = space.max_hold(10s).lock(book);
  const std::stop_token lost = hold.lost();
  std::optional<Hold> next;
  std::jthread waiter = start([&] { next = other().lock(book); });
  await_waiters(1);
  store->advance(8s);
  store->settle();
  EXPECT_FALSE(lost.stop_requested());
  store->advance(1s);
  await(lost);                                       // A margin before the next one gets in.
  EXPECT_FALSE(other().try_lock(book).has_value());  // Whoever looks removes what is overdue.
  ASSERT_EQ(space.inspect(book).size(), 2U);
  EXPECT_EQ(space.inspect(book).front().ticket.number, hold.token());
  EXPECT_TRUE(space.inspect(book).front().granted);
  store->advance(1s);
  waiter.join();
  EXPECT_TRUE(next.has_value());
  EXPECT_GT(next->token(), hold.token());
  EXPECT_FALSE(hold.renew());
  EXPECT_FALSE(hold.release());
}

TEST_F(StoredFate, RenewingBeginsTheTimeAnew) {
  Hold hold = space.max_hold(10s).lock(book);
  const std::stop_token lost = hold.lost();
  for (int i = 0; i < 5; ++i) {
    store->advance(8s);
    EXPECT_TRUE(hold.renew());
    store->settle();
  }
  EXPECT_EQ(hold.deadline(), store->now() + 10s);
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_FALSE(other().try_lock(book));
  store->advance(11s);
  EXPECT_FALSE(hold.renew()) << "too late, though nobody has taken it";
  Hold forever = space.lock(film);
  EXPECT_TRUE(forever.renew());
}

// The longest time that can be asked for ends when time does, not before it began.
TEST_F(StoredFate, TheLongestMaxHoldKeepsOthersOut) {
  Hold hold = space.max_hold(std::chrono::nanoseconds::max()).lock(book);
  const std::stop_token lost = hold.lost();
  EXPECT_EQ(hold.deadline(), Instant::max());
  EXPECT_FALSE(other().try_lock(book));
  EXPECT_TRUE(hold.renew());
  store->advance(24h * 365 * 100);
  store->settle();
  EXPECT_FALSE(other().try_lock(book));
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release());
}

TEST_F(StoredFate, AStoresClockStopsAtTheEndOfTime) {
  const Hold hold = space.max_hold(1h).lock(book);
  store->advance(std::chrono::nanoseconds::max());
  store->advance(1h);
  EXPECT_EQ(store->now(), Instant::max());
  EXPECT_TRUE(other().try_lock(book));
}

TEST_F(StoredFate, RenewingAfterTheHolderWasToldIsTooLate) {
  Hold hold = space.max_hold(10s).lock(book);
  const std::stop_token lost = hold.lost();
  store->advance(9s);
  await(lost);
  EXPECT_FALSE(hold.renew()) << "before its deadline, but the holder has been told";
  store->advance(1s);
  EXPECT_TRUE(other().try_lock(book));
}

// A process that is stopped when its turn comes does not start its own time: those who wait do.
TEST_F(StoredFate, TheTimeOfAStoppedHolderRunsToo) {
  Hold first = space.lock(book);
  Space stopped = other();
  std::optional<Hold> second;
  std::jthread waiter = start([&] { second = stopped.max_hold(10s).lock(book); });
  await_waiters(1);
  store->hold_notices(true);  // It does not run.
  first.release();
  const Token second_token = space.inspect(book).front().ticket.number;
  EXPECT_EQ(space.inspect(book).front().deadline, std::nullopt);
  EXPECT_FALSE(other().try_lock(book)) << "whoever looks starts the time";
  EXPECT_EQ(space.inspect(book).front().deadline, store->now() + 10s);
  EXPECT_EQ(space.inspect(book).front().ticket.number, second_token);
  store->hold_notices(false);
  waiter.join();
}

// ---- Eviction ----

TEST_F(StoredFate, AnEvictedHolderHasAMargin) {
  Hold hold = space.lock(book);
  const std::stop_token lost = hold.lost();
  Space elsewhere = other();
  std::optional<Hold> next;
  std::jthread waiter = start([&] { next = elsewhere.lock(book); });
  await_waiters(1);
  EXPECT_TRUE(elsewhere.evict(hold.token()));
  await(lost);
  EXPECT_FALSE(hold.renew());
  store->settle();
  EXPECT_FALSE(next.has_value());
  store->advance(1s);
  waiter.join();
  EXPECT_TRUE(next.has_value());
  EXPECT_FALSE(hold.release());
}

TEST_F(StoredFate, EvictNowPassesItOnAtOnce) {
  Hold hold = space.lock({book, film.shared()});
  const std::stop_token lost = hold.lost();
  Space elsewhere = other();
  std::jthread waiter = start([&] { EXPECT_TRUE(elsewhere.lock(film)); });
  await_waiters(1);
  EXPECT_TRUE(elsewhere.evict_now(hold.token()));
  waiter.join();
  await(lost);
  EXPECT_FALSE(hold.release());
  EXPECT_EQ(entries(), 0U);
}

// ---- Sessions ----

TEST_F(StoredFate, ADeadHolderIsClearedAway) {
  Space dead = other();
  const Hold hold = dead.lock({book, film.permits(2)});
  std::jthread waiter = start([&] { EXPECT_TRUE(space.lock(film)); });
  await_waiters(1);
  store->kill_session(session_of(hold.token()));
  waiter.join();
  EXPECT_TRUE(space.try_lock(book));
  EXPECT_EQ(entries(), 0U);
}

TEST_F(StoredFate, ADeadWaiterDelaysNobody) {
  Hold hold = space.lock(book);
  Space dead = other();
  std::jthread first = start([&] { EXPECT_THROW(static_cast<void>(dead.lock(book)), Error); });
  await_waiters(1);
  const std::string session = session_of(space.inspect(book).back().ticket.number);
  std::optional<Hold> next;
  std::jthread second = start([&] { next = space.lock(book); });
  await_waiters(2);
  store->kill_session(session);
  await_waiters(1);
  hold.release();
  second.join();
  EXPECT_TRUE(next.has_value());
}

TEST_F(StoredFate, ATryIsNotRefusedByTheDead) {
  Space dead = other();
  const Hold hold = dead.lock(book.permits(3));
  store->kill_session(session_of(hold.token()));
  EXPECT_TRUE(space.try_lock(book.permits(2))) << "nor is its limit";
  EXPECT_TRUE(space.try_lock(book));
}

TEST_F(StoredFate, ALostSessionTellsHoldersAndWaiters) {
  Space lost_space = other();
  const Hold hold = lost_space.lock(book);
  const std::stop_token lost = hold.lost();
  const Hold mine = space.lock(film);
  std::jthread waiter =
      start([&] { EXPECT_THROW(static_cast<void>(lost_space.lock(film)), SessionLost); });
  await_waiters(1);
  store->lose_session(session_of(hold.token()));
  await(lost);
  waiter.join();
  EXPECT_TRUE(space.try_lock(book));
}

TEST_F(StoredFate, OpeningSweepsWhatTheDeadLeft) {
  {
    Space dead = other();
    Hold hold = dead.lock(book);
    store->kill_session(session_of(hold.token()));
    EXPECT_EQ(entries(), 1U);
    const Space fresh = other();
    EXPECT_EQ(entries(), 0U);
    EXPECT_FALSE(hold.release());
  }
}

// ---- Guards ----

TEST_F(StoredFate, AGuardedWriteIsOneStepWithTheLock) {
  Hold hold = space.lock({book, film});
  Txn write;
  write.guards = hold.guard();
  write.writes = {Write::put("page", "1")};
  EXPECT_TRUE(store->apply(write).committed);
  hold.downgrade(film);
  EXPECT_FALSE(store->apply(write).committed) << "not with these claims any more";
  write.guards = hold.guard();
  EXPECT_TRUE(store->apply(write).committed);
  EXPECT_TRUE(space.evict(hold.token()));
  EXPECT_TRUE(store->apply(write).committed) << "it still stands";
  EXPECT_TRUE(space.evict_now(hold.token()));
  EXPECT_FALSE(store->apply(write).committed);
  EXPECT_THROW(static_cast<void>(open("local:").lock(book).guard()), BadRequest);
}

// ---- Faults ----

TEST_F(StoredFate, AFailedAppendLeavesNothing) {
  store->settle();
  store->fail_next(1, MemoryStore::Fault::before);
  EXPECT_THROW(static_cast<void>(space.lock({book, film})), StoreError);
  store->advance(1s);
  store->settle();
  EXPECT_EQ(entries(), 0U);
  EXPECT_TRUE(space.try_lock(book));
}

// The store took it and could not say so: it is found, and is a ticket like any other.
TEST_F(StoredFate, AnAppendThatWasMadeWithoutAWordIsKept) {
  Space elsewhere = other();
  lose_answer_of_next_append();
  Hold hold = space.lock({book, film});
  EXPECT_FALSE(elsewhere.try_lock(film));
  EXPECT_FALSE(hold.lost().stop_requested());
  lose_answer_of_next_append();
  std::optional<Hold> waited;
  std::jthread waiter = start([&] { waited = elsewhere.lock(book); });
  await_waiters(1);
  EXPECT_TRUE(hold.release());
  waiter.join();
  EXPECT_TRUE(waited->release());
  EXPECT_EQ(entries(), 0U);
}

TEST_F(StoredFate, ATryThatWasMadeWithoutAWordIsAHold) {
  lose_answer_of_next_append();
  std::optional<Hold> hold = space.try_lock(book);
  ASSERT_TRUE(hold);
  EXPECT_FALSE(other().try_lock(book));
  EXPECT_TRUE(hold->release());
  EXPECT_EQ(entries(), 0U);
}

// It is read, written again so that it lasts, and looked back from; each of these may fail too.
TEST_F(StoredFate, AnAppendThatCanNotBeKeptIsRemoved) {
  for (int fails = 2; fails <= 4; ++fails) {
    store->settle();
    store->fail_next(1, MemoryStore::Fault::after);
    int applies = 0;
    store->before_apply([&](const Txn& /*txn*/) {
      if (++applies == fails) throw StoreError("no answer");
    });
    EXPECT_THROW(static_cast<void>(space.lock({book, film})), StoreError) << fails;
    EXPECT_GE(applies, fails);
    store->before_apply(nullptr);
    store->advance(1s);
    store->settle();
    EXPECT_EQ(entries(), 0U) << fails;
  }
}

TEST_F(StoredFate, AnAppendThatMayBeThereIsLookedForUntilTheStoreCanBeRead) {
  store->settle();
  store->fail_next(1, MemoryStore::Fault::after);
  store->fail_next(3, MemoryStore::Fault::before);
  EXPECT_THROW(static_cast<void>(space.lock({book, film})), StoreError);
  for (int i = 0; i < 6; ++i) {
    store->advance(1s);
    store->settle();
  }
  EXPECT_EQ(entries(), 0U);
  EXPECT_TRUE(space.try_lock(book));
}

TEST_F(StoredFate, AReleaseThatFailsIsMadeLater) {
  Hold hold = space.lock(book);
  store->fail_next(1, MemoryStore::Fault::before);
  EXPECT_THROW(hold.release(), StoreError);
  EXPECT_FALSE(hold);
  {
    const Hold dropped = space.lock(film);
    const Hold again = space.lock(Path::of("x"));
    store->fail_next(1, MemoryStore::Fault::before);
  }
  store->settle();
  for (int i = 0; i < 5; ++i) {
    store->advance(1s);
    store->settle();
  }
  EXPECT_EQ(entries(), 0U);
}

// ---- the end of a space ----

base::Detached wait_until_closed(Locker locker, Request request, std::latch& closed) {
  try {
    const Hold hold = co_await locker.async_lock(request);
    ADD_FAILURE() << "granted";
  } catch (const Closed&) {
    closed.count_down();
  }
}

// In steps of at most 64 writes, which every store takes; no ticket is parted.
TEST_F(StoredFate, ManyWaitersLeaveInSeveralSteps) {
  constexpr int waiters = 100;
  const Hold hold = space.lock(book);
  for (const std::size_t faults : {0U, 1U, 2U}) {
    std::latch closed{waiters};
    std::atomic<std::size_t> largest = 0;
    std::atomic<bool> parted = false;
    {
      Space ours = other();
      for (int i = 0; i < waiters; ++i) wait_until_closed(ours, {book, film}, closed);
      ASSERT_EQ(entries(), 1U + 2 * waiters);
      store->before_apply([&](const Txn& txn) {
        if (txn.writes.size() > largest) largest = txn.writes.size();
        if (txn.writes.size() > 1 && txn.writes.size() % 2 != 0) parted = true;
      });
      store->fail_next(faults, MemoryStore::Fault::before);
    }
    closed.wait();
    store->before_apply(nullptr);
    for (int i = 0; i < 5; ++i) {
      store->settle();
      store->advance(1s);
    }
    EXPECT_EQ(largest, 64U);
    EXPECT_FALSE(parted);
    EXPECT_EQ(entries(), 1U) << faults << " faults";
  }
}

TEST_F(StoredFate, AWaitRidesOutErrors) {
  Hold hold = space.lock(book);
  std::atomic<bool> in = false;
  std::jthread waiter = start([&] {
    while (!in) {
      try {
        in = static_cast<bool>(other().lock(book));
      } catch (const StoreError&) {
        // The fault met the request itself, before it waited.
      }
    }
  });
  await_waiters(1);
  store->settle();
  store->hold_notices(true);
  hold.release();
  store->fail_next(2, MemoryStore::Fault::before);
  store->hold_notices(false);
  kit::until([&] {
    store->settle();
    store->advance(1s);
    return in.load();
  });
}

TEST_F(StoredFate, EntriesOfOthersAreRefusedByName) {
  Txn txn;
  txn.writes = {Write::append(std::string{"\x01\x01\x04"} + "book" + '\0', "{\"claims\":[[]]}")};
  store->apply(txn);
  try {
    static_cast<void>(space.try_lock(book));
    FAIL();
  } catch (const StoreError& error) {
    EXPECT_NE(std::string{error.what()}.find("not written by Tenure"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tenure::stored
