#include "tenure/memory_store.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/memory/table.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using conformance::Bell;
using conformance::txn;
using Clock = MemoryStore::Clock;
using Fault = MemoryStore::Fault;

conformance::StoreUnderTest make_memory() {
  const auto store = std::make_shared<MemoryStore>();
  return {.open = [store] { return store; },
          .kill = [store](Session& session) { store->kill_session(session.id()); }};
}

}  // namespace

namespace conformance {

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance,
                         ::testing::Values(StoreKind{"memory", make_memory}), kind_name);

}  // namespace conformance

namespace {

Txn put(std::string key, std::string value = "") {
  return txn({}, {Write::put(std::move(key), std::move(value))});
}

std::string value_of(Store& store, const std::string& key) {
  const auto found = store.apply(txn({}, {}, {Range::key(key)})).reads.at(0);
  return found.empty() ? "none" : found[0].value;
}

WatchFor change_of(const std::string& key, Revision after) {
  WatchFor what;
  what.ranges.push_back(Range::key(key));
  what.after = after;
  return what;
}

WatchFor at(Instant until) {
  WatchFor what;
  what.until = until;
  return what;
}

struct MemoryStoreTest : ::testing::Test {
  MemoryStore store{Clock::virtual_time};
  std::atomic<int> told = 0;
  Store::Notice tell = [this] { ++told; };
};

TEST(StoreUrl, NamesAMemoryStore) {
  const auto first = store("memory:");
  const auto second = store("memory:");
  first->apply(put("a"));
  EXPECT_EQ(value_of(*second, "a"), "none");  // Each is a new store.
}

TEST(StoreUrl, SaysWhatThereIs) {
  for (const char* url : {"", "memory", "memory:x", "nonsense:/a", "MEMORY:"}) {
    try {
      (void)store(url);
      ADD_FAILURE() << url;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("'" + std::string{url} + "'"), std::string::npos) << message;
      EXPECT_NE(message.find("'memory:'"), std::string::npos) << message;
    }
  }
}

// --- the clock

TEST_F(MemoryStoreTest, AVirtualClockStandsStill) {
  EXPECT_EQ(store.now(), MemoryStore::virtual_start);
  store.apply(put("a"));
  EXPECT_EQ(store.now(), MemoryStore::virtual_start);
  store.advance(3s);
  store.advance(0s);
  EXPECT_EQ(store.now(), MemoryStore::virtual_start + 3s);
  EXPECT_THROW(store.advance(-1ns), BadRequest);
  EXPECT_EQ(store.now(), MemoryStore::virtual_start + 3s);
}

TEST_F(MemoryStoreTest, ARealClockIsNearWallTimeAndCannotBeMoved) {
  MemoryStore real;
  const Instant wall = std::chrono::system_clock::now();
  EXPECT_LT(std::chrono::abs(real.now() - wall), 1h);
  EXPECT_THROW(real.advance(1s), BadRequest);
}

TEST_F(MemoryStoreTest, AWatchFiresWhenTheClockReachesItsTime) {
  const auto watch = store.watch(at(store.now() + 10s), tell);
  store.settle();
  EXPECT_EQ(told, 0);
  store.advance(10s - 1ns);
  store.settle();
  EXPECT_EQ(told, 0);
  store.advance(1ns);
  store.settle();
  EXPECT_EQ(told, 1);
  store.advance(1h);
  store.settle();
  EXPECT_EQ(told, 1);
}

TEST_F(MemoryStoreTest, OneAdvanceReachesAllThatIsDue) {
  std::vector<std::unique_ptr<Watch>> watches;
  for (int i = 1; i <= 5; ++i) watches.push_back(store.watch(at(store.now() + i * 1s), tell));
  store.advance(3s);
  store.settle();
  EXPECT_EQ(told, 3);
  watches.clear();
  store.advance(1h);
  store.settle();
  EXPECT_EQ(told, 3);
}

// settle() itself looks for watches that are due, and would hide that the thread was not woken.
TEST_F(MemoryStoreTest, WhatBecomesDueWakesTheThread) {
  const auto session = store.open_session({});
  WatchFor death;
  death.session = session->id();
  Bell changed;
  Bell reached;
  Bell dead;
  const auto first = store.watch(change_of("a", {}), changed.notice());
  const auto second = store.watch(at(store.now() + 10s), reached.notice());
  const auto third = store.watch(death, dead.notice());
  const auto let_it_sleep = [&] {
    const auto now = store.watch(at(store.now()), tell);
    store.settle();
  };
  let_it_sleep();
  store.apply(put("a"));
  changed.wait();
  let_it_sleep();
  store.advance(10s);
  reached.wait();
  let_it_sleep();
  store.kill_session(session->id());
  dead.wait();
}

// --- a watch of one key fires only for that key, so that simulations are repeatable

TEST_F(MemoryStoreTest, AWatchFiresForItsOwnKeysOnly) {
  const Revision before = store.apply(put("b")).revision;
  const auto watch = store.watch(change_of("b", before), tell);
  store.apply(put("a"));
  store.apply(put("b!"));
  store.apply(txn({}, {Write::remove("c")}));
  store.apply(txn({Guard::absent("b")}, {Write::put("b", "")}));
  store.settle();
  EXPECT_EQ(told, 0);
  store.apply(put("b"));
  store.settle();
  EXPECT_EQ(told, 1);
}

TEST(MemoryTable, ForgetsWhatIsLongAgoAndThenSaysYes) {
  memory::Table table{2};
  const Revision first = table.apply(put("a")).revision;
  const Revision second = table.apply(put("b")).revision;
  EXPECT_TRUE(table.changed_since(Range::key("a"), {}));
  EXPECT_FALSE(table.changed_since(Range::key("a"), first));
  EXPECT_FALSE(table.changed_since(Range::key("x"), {}));
  table.apply(put("c"));
  EXPECT_TRUE(table.changed_since(Range::key("x"), {}));
  EXPECT_FALSE(table.changed_since(Range::key("x"), first));
  EXPECT_TRUE(table.changed_since(Range::key("c"), second));
}

// --- sessions

TEST_F(MemoryStoreTest, AKilledSessionIsToldNothing) {
  auto session = store.open_session({});
  const std::string id = session->id();
  WatchFor what;
  what.session = id;
  const auto watch = store.watch(what, tell);
  store.settle();
  EXPECT_EQ(told, 0);
  store.kill_session(id);
  store.settle();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(session->lost().stop_requested());
  EXPECT_FALSE(store.alive(id));
  EXPECT_THROW(store.kill_session(id), BadRequest);
  const Guard guard = session->guard();
  session.reset();  // A dead session removes nothing.
  EXPECT_TRUE(store.apply(txn({guard}, {})).committed);
}

TEST_F(MemoryStoreTest, ALostSessionIsToldOnAThreadOfItsOwn) {
  auto session = store.open_session({});
  const std::string id = session->id();
  WatchFor what;
  what.session = id;
  std::atomic<std::thread::id> noticed;
  const auto watch = store.watch(what, [&] { noticed = std::this_thread::get_id(); });
  std::atomic<std::thread::id> lost;
  const std::stop_callback on_lost{session->lost(), [&] {
                                     // The callback may use the store,
                                     EXPECT_FALSE(store.alive(id));
                                     EXPECT_THROW(store.settle(), BadRequest);
                                     lost = std::this_thread::get_id();
                                   }};
  store.lose_session(id);
  store.settle();
  EXPECT_TRUE(session->lost().stop_requested());
  EXPECT_NE(lost.load(), std::thread::id{});
  EXPECT_NE(lost.load(), std::this_thread::get_id());
  EXPECT_NE(lost.load(), noticed.load());
  const Guard guard = session->guard();
  EXPECT_TRUE(store.apply(txn({guard}, {})).committed);
  session.reset();
  EXPECT_FALSE(store.apply(txn({guard}, {})).committed);
}

TEST_F(MemoryStoreTest, SessionIdsAreTheSameInEveryRun) {
  EXPECT_EQ(store.open_session({})->id(), "0000000000000001");
  EXPECT_EQ(store.open_session({})->id(), "0000000000000002");
}

// --- faults

TEST_F(MemoryStoreTest, AnApplyFailsBeforeItIsMade) {
  const Revision before = store.apply({}).revision;
  store.fail_next(2, Fault::before);
  for (int i = 0; i < 2; ++i) {
    try {
      store.apply(put("a"));
      ADD_FAILURE();
    } catch (const StoreError& error) {
      EXPECT_FALSE(error.unknown());
    }
  }
  EXPECT_EQ(value_of(store, "a"), "none");
  EXPECT_EQ(store.apply({}).revision, before);
}

TEST_F(MemoryStoreTest, AnApplyFailsAfterItWasMade) {
  store.fail_next(1, Fault::after);
  const auto watch = store.watch(change_of("a", {}), tell);
  try {
    store.apply(put("a", "made"));
    ADD_FAILURE();
  } catch (const StoreError& error) {
    EXPECT_TRUE(error.unknown());
  }
  store.settle();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(value_of(store, "a"), "made");
}

TEST_F(MemoryStoreTest, FaultsComeInTheOrderTheyWereAskedFor) {
  store.fail_next(1, Fault::after);
  store.fail_next(1, Fault::before);
  EXPECT_THROW(store.apply(put("a", "1")), StoreError);
  EXPECT_THROW(store.apply(put("a", "2")), StoreError);
  EXPECT_EQ(value_of(store, "a"), "1");
}

TEST_F(MemoryStoreTest, APostFailsToo) {
  std::vector<std::string> said;
  const auto say = [&](const Outcome& outcome, const std::exception_ptr& error) {
    if (!error) {
      said.push_back(outcome.committed ? "made" : "refused");
      return;
    }
    try {
      std::rethrow_exception(error);
    } catch (const StoreError& failure) {
      said.push_back(failure.unknown() ? "unknown" : "failed");
    }
  };
  store.fail_next(1, Fault::before);
  store.fail_next(1, Fault::after);
  store.post(put("a", "1"), say);
  store.post(put("a", "2"), say);
  store.post(put("b", "3"), say);
  store.post(put("c"), nullptr);
  store.settle();
  EXPECT_EQ(said, (std::vector<std::string>{"failed", "unknown", "made"}));
  EXPECT_EQ(value_of(store, "a"), "2");
  EXPECT_EQ(value_of(store, "b"), "3");
}

TEST_F(MemoryStoreTest, NoticesAreHeldBack) {
  store.hold_notices(true);
  const auto watch = store.watch(change_of("a", {}), tell);
  auto dropped = store.watch(change_of("a", {}), tell);
  store.apply(put("a"));
  store.settle();
  EXPECT_EQ(told, 0);
  dropped.reset();
  store.hold_notices(false);
  store.settle();
  EXPECT_EQ(told, 1);
}

TEST_F(MemoryStoreTest, AHookComesBetweenTheDecisionAndTheApply) {
  store.apply(put("a", "1"));
  const auto seen = store.apply(txn({}, {}, {Range::key("a")})).reads[0][0];
  bool interfered = false;
  store.before_apply([&](const Txn& next) {
    if (std::exchange(interfered, true)) return;
    EXPECT_EQ(next.writes.at(0).value, "2");
    store.apply(put("a", "stolen"));
  });
  const Txn swap = txn({Guard::unchanged("a", seen.changed)}, {Write::put("a", "2")});
  EXPECT_FALSE(store.apply(swap).committed);
  EXPECT_EQ(value_of(store, "a"), "stolen");
}

TEST_F(MemoryStoreTest, AHookMayThrow) {
  store.before_apply([](const Txn&) { throw StoreError("no"); });
  EXPECT_THROW(store.apply(put("a")), StoreError);
  std::exception_ptr failed;
  store.post(put("a"), [&](const Outcome&, const std::exception_ptr& error) { failed = error; });
  EXPECT_NE(failed, nullptr);
  store.before_apply(nullptr);
  EXPECT_EQ(value_of(store, "a"), "none");
}

// --- lifetimes

TEST_F(MemoryStoreTest, WatchesAndSessionsMayOutliveTheStore) {
  auto brief = std::make_unique<MemoryStore>();
  auto session = brief->open_session({});
  auto watch = brief->watch(change_of("a", {}), tell);
  brief.reset();
  session.reset();
  watch.reset();
  EXPECT_EQ(told, 0);
}

TEST_F(MemoryStoreTest, ANoticeMayDestroyTheStore) {
  Bell gone;
  auto brief = std::make_shared<MemoryStore>();
  Bell assigned;
  std::unique_ptr<Watch> watch;
  watch = brief->watch(change_of("a", {}), [&] {
    assigned.wait();
    watch.reset();
    brief.reset();
    gone.ring();
  });
  brief->apply(put("a"));
  assigned.ring();
  gone.wait();
}

TEST_F(MemoryStoreTest, SettleOnTheStoresOwnThreadIsRefused) {
  std::atomic<bool> refused = false;
  const auto watch = store.watch(at(store.now()), [&] {
    try {
      store.settle();
    } catch (const BadRequest&) {
      refused = true;
    }
  });
  store.settle();
  EXPECT_TRUE(refused);
}

TEST_F(MemoryStoreTest, SettleWaitsForWhatANoticeStarts) {
  std::unique_ptr<Watch> second;
  const auto first = store.watch(at(store.now()), [&] {
    second = store.watch(at(store.now()), tell);
    store.post(put("a", "posted"), nullptr);
  });
  store.settle();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(value_of(store, "a"), "posted");
}

}  // namespace
}  // namespace tenure
