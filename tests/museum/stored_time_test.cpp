// Time in a stored space: none passes unless a case advances the clock.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/museum/stored.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");
const Path film = Path::of("film");

constexpr std::chrono::hours century{24 * 365 * 100};

// ---- Sessions that ended while their request waited ----

// The waiter is not told that it counts as dead; its turn comes; it looks.
TEST_F(StoredMuseum, M01_AWaiterWhoseSessionIsGoneIsNotGranted) {
  Hold hold = space.lock(book);
  const Space lapsed = other();
  std::jthread waiter{[&] { EXPECT_THROW(static_cast<void>(lapsed.lock(book)), Error); }};
  until_waiting(space, 1);
  store->hold_notices(true);
  store->kill_session(session_of(space.inspect().back().ticket.number));
  const Space fresh = other();  // Removes what the dead session left.
  hold.release();
  Hold next = fresh.lock(book);
  store->hold_notices(false);
  waiter.join();
  EXPECT_EQ(space.inspect().size(), 1U);
  EXPECT_TRUE(next.release());
}

TEST_F(StoredMuseum, M01_AWaiterWhoseSessionIsLostIsToldThat) {
  Hold hold = space.lock(book);
  const Space lapsed = other();
  std::jthread waiter{[&] { EXPECT_THROW(static_cast<void>(lapsed.lock(book)), SessionLost); }};
  until_waiting(space, 1);
  store->lose_session(session_of(space.inspect().back().ticket.number));
  waiter.join();
  EXPECT_THROW(static_cast<void>(lapsed.lock(film)), SessionLost);
  EXPECT_THROW(static_cast<void>(lapsed.try_lock(film)), SessionLost);
  hold.release();
  EXPECT_TRUE(other().try_lock(book));
}

// ---- Holders that are told ----

TEST_F(StoredMuseum, M03_LostFiresBeforeTheEndByTheStoresClock) {
  for (const std::chrono::nanoseconds time : {3ms + 0ns, 1s + 0ns, 10s + 0ns, 24h + 0ns}) {
    Hold hold = space.max_hold(time).lock(book);
    const std::stop_token lost = hold.lost();
    std::atomic<Instant> told = Instant{};
    const std::stop_callback callback{lost, [&] { told = store->now(); }};
    const std::chrono::nanoseconds margin = std::min<std::chrono::nanoseconds>(1s, time / 3);
    move(time - margin - 1ns);
    EXPECT_FALSE(lost.stop_requested());
    store->advance(1ns);
    until([&] { return told.load() != Instant{}; });
    EXPECT_LT(store->now(), *hold.deadline());
    EXPECT_FALSE(other().try_lock(book)) << "not yet the next one's";
    move(margin);
    EXPECT_TRUE(other().try_lock(book));
    EXPECT_LT(told.load(), store->now()) << "told, then granted";
    EXPECT_FALSE(hold.release());
  }
}

// ---- Renewal ----

// Nothing must be renewed in time, so load can't make a renewal late: a hold costs the store
// nothing while it is held.
TEST_F(StoredMuseum, M04_AHoldIsKeptWithoutAnyRenewal) {
  Hold hold = space.lock(book);
  const std::stop_token lost = hold.lost();
  store->settle();
  const auto counts = count_applies();
  for (int i = 0; i < 100; ++i) move(century / 100);
  EXPECT_EQ(counts->applies, 0U);
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_TRUE(hold.release());
}

// A released hold stays released: a renewal does not bring it back, and none is under way.
TEST_F(StoredMuseum, M04_NothingIsRenewedAfterTheRelease) {
  Hold hold = space.max_hold(10s).lock(book);
  static_cast<void>(hold.lost());
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release());
  EXPECT_FALSE(hold.renew());
  store->settle();
  const auto counts = count_applies();
  for (int i = 0; i < 100; ++i) move(1s);
  EXPECT_EQ(counts->applies, 0U);
  EXPECT_EQ(tickets(), 0U);
}

// ---- Order ----

// All at one instant of the store's clock, which stands still: numbers do not come from the clock.
TEST_F(StoredMuseum, M14_RequestsOfOneInstantAreServedInTheOrderTheyCame) {
  constexpr std::size_t count = 32;
  std::vector<std::size_t> order;  // Guarded by the lock.
  {
    std::vector<std::jthread> threads;
    const Hold first = space.lock(book);
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] { other().with(book, [&] { order.push_back(i); }); });
      until_waiting(space, i + 1);
    }
    for (const TicketInfo& info : space.inspect()) EXPECT_EQ(info.since, store->now());
  }
  EXPECT_EQ(order.size(), count);
  EXPECT_TRUE(std::ranges::is_sorted(order));
}

// Two requests have two keys, whichever process makes them and when.
TEST_F(StoredMuseum, M38_RequestsThatAreEqualInEverythingAreTwo) {
  const Space twin = other();
  const Locker one = space.as("twin").label("same");
  const Locker two = twin.as("twin").label("same");
  std::vector<Hold> holds;
  for (int i = 0; i < 50; ++i) {
    holds.push_back(one.lock(book.shared()));
    holds.push_back(two.lock(book.shared()));
    holds.push_back(one.lock(book.shared()));
  }
  EXPECT_EQ(space.inspect().size(), holds.size());
  EXPECT_EQ(tickets(), holds.size());
}

// ---- Long ones ----

TEST_F(StoredMuseum, M15_HoldingAndWaitingForACenturyLosesNothing) {
  Hold hold = space.lock(book);
  const std::stop_token lost = hold.lost();
  const Space elsewhere = other();
  std::optional<Hold> next;
  std::jthread waiter{[&] { next = elsewhere.lock(book); }};
  until_waiting(space, 1);
  for (int i = 0; i < 100; ++i) move(century / 100);
  EXPECT_FALSE(lost.stop_requested());
  EXPECT_EQ(waiting(space), 1U);
  EXPECT_TRUE(hold.release());
  waiter.join();
  EXPECT_TRUE(next.has_value());
  EXPECT_EQ(next->deadline(), std::nullopt);
}

// The clock stands still, so a wait for a time would never end.
TEST_F(StoredMuseum, M17_EightJobsNeedNoTimeAtAll) {
  int done = 0;  // Guarded by the lock.
  {
    std::vector<std::jthread> jobs;
    for (int i = 0; i < 8; ++i) {
      jobs.emplace_back([&] {
        const Space own = other();
        for (int turn = 0; turn < 50; ++turn) own.with(book, [&] { ++done; });
      });
    }
  }
  EXPECT_EQ(done, 400);
  EXPECT_EQ(store->now(), MemoryStore::virtual_start);
}

// ---- Whose time, and since when ----

TEST_F(StoredMuseum, M23_AContendersOwnTimeSaysNothingAboutTheHolders) {
  Hold slow = space.max_hold(1h).lock(book);
  const Space hasty = other();
  std::optional<Hold> next;
  std::jthread waiter{[&] { next = hasty.max_hold(1s).lock(book); }};
  until_waiting(space, 1);
  move(59min);
  EXPECT_EQ(waiting(space), 1U);
  EXPECT_TRUE(slow.renew());
  move(59min);
  EXPECT_EQ(waiting(space), 1U);
  EXPECT_TRUE(slow.release());
  waiter.join();
  EXPECT_EQ(next->deadline(), store->now() + 1s);
  next->release();

  const Hold forever = space.lock(book);
  move(century / 2);
  EXPECT_FALSE(hasty.max_hold(1s).try_lock(book));
}

// ---- Pauses ----

// Runs once, inside the next apply that writes.
template <class F>
void in_next_write(MemoryStore& store, F act) {
  store.before_apply([&store, act](const Txn& txn) {
    if (txn.writes.empty()) return;
    store.before_apply({});
    act();
  });
}

// Between reading the clock and writing the result, the holder is stopped until another process has
// the lock.
TEST_F(StoredMuseum, M22_ARenewalThatWasPausedTooLongFails) {
  Hold hold = space.max_hold(10s).lock(book);
  const Space elsewhere = other();
  std::optional<Hold> next;
  move(5s);
  in_next_write(*store, [&] {
    store->advance(20s);
    next = elsewhere.try_lock(book);
  });
  EXPECT_FALSE(hold.renew());
  EXPECT_TRUE(next.has_value());
  EXPECT_FALSE(hold.release());
  EXPECT_FALSE(space.try_lock(book)) << "the next one's";
}

// No other process was there, but the requested time is over as well.
TEST_F(StoredMuseum, M22_ARenewalThatArrivesAfterItsOwnDeadlineIsNone) {
  Hold hold = space.max_hold(10s).lock(book);
  in_next_write(*store, [&] { store->advance(20s); });
  EXPECT_FALSE(hold.renew());
  EXPECT_TRUE(other().try_lock(book));
}

// The opposite: a waiter saw that the holder was overdue, and is stopped. The renewal was already
// on its way, and arrives first.
TEST_F(StoredMuseum, M22_ARemovalThatWasPausedTooLongFails) {
  Hold hold = space.max_hold(10s).lock(book);
  const Space elsewhere = other();
  std::atomic<bool> renewing = false;
  std::atomic<bool> judged = false;
  std::atomic<bool> renewed = false;
  move(9s);
  store->before_apply([&](const Txn& txn) {
    if (txn.writes.empty()) return;
    if (txn.writes.front().kind == Write::Kind::put) {
      renewing = true;
      until([&] { return judged.load(); });
    } else if (!judged.exchange(true)) {
      until([&] { return renewed.load(); });
    }
  });
  std::jthread holder{[&] {
    EXPECT_TRUE(hold.renew());
    renewed = true;
  }};
  until([&] { return renewing.load(); });
  store->advance(2s);
  EXPECT_FALSE(elsewhere.try_lock(book));
  holder.join();
  store->before_apply({});
  EXPECT_TRUE(hold.release());
}

// ---- Written once ----

base::Detached lock_and_release(Locker locker, Claim claim) {
  Hold hold = co_await locker.async_lock(claim);
  hold.release();
}

TEST_F(StoredMuseum, S10_AWaitingTicketIsWrittenOnce) {
  Hold hold = space.lock(book);
  const Space elsewhere = other();
  // Each call returns after its watch is armed; a waiting thread could still be about to look.
  for (int i = 0; i < 20; ++i) lock_and_release(elsewhere, book);
  store->settle();
  ASSERT_EQ(waiting(space), 20U);
  const Revision before = store->apply({}).revision;
  const auto counts = count_applies();
  for (int i = 0; i < 100; ++i) move(1h);
  EXPECT_EQ(counts->applies, 0U) << "nobody looks, either";
  store->before_apply({});
  EXPECT_EQ(store->apply({}).revision, before);
  Txn read;
  read.reads.push_back(Range::prefix("\x01"));
  const Outcome outcome = store->apply(read);
  for (const Entry& entry : outcome.reads.front()) {
    EXPECT_EQ(entry.changed, entry.created);
  }
  hold.release();
  until([&] { return space.inspect().empty(); });
}

}  // namespace
}  // namespace tenure::museum
