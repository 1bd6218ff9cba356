// How a space ends: what close() waits for, and what it leaves.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/detached.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

const Path desk = Path::of("desk");

class StoredEnd : public ::testing::Test {
 protected:
  // Sessions and tickets.
  [[nodiscard]] std::size_t entries() const {
    return store->apply({.guards = {}, .writes = {}, .reads = {Range{}}}).reads.front().size();
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
};

TEST_F(StoredEnd, WhatWasDroppedIsGoneWhenCloseReturns) {
  for (int i = 0; i < 200; ++i) {
    Space space = open(store);
    {
      const Hold hold = space.lock(desk);
    }
    space.close();
    ASSERT_EQ(entries(), 0U) << i;
    EXPECT_THROW(static_cast<void>(space.lock(desk)), Closed);
    space.close();  // Once more does nothing.
    EXPECT_EQ(space.descriptor(), -1);
  }
}

TEST_F(StoredEnd, ASpaceEndsThoughALockerOutlivesIt) {
  std::optional<Space> space = open(store);
  const Locker me = space->as("me");
  const Mutex mutex = space->mutex(desk);
  space.reset();
  EXPECT_EQ(entries(), 0U);
  EXPECT_THROW(static_cast<void>(me.lock(desk)), Closed);
  EXPECT_THROW(static_cast<void>(me.try_lock(desk)), Closed);
}

TEST_F(StoredEnd, TheLastHoldEndsAClosedSpace) {
  for (const bool released : {true, false}) {
    std::optional<Space> space = open(store);
    Hold first = space->max_hold(10s).lock(desk);
    Hold last = space->lock(Path::of("x"));
    space.reset();
    EXPECT_EQ(entries(), 3U) << "two tickets, and the session that keeps them";
    const std::stop_token lost = first.lost();
    store->advance(9s);
    kit::until([&] { return lost.stop_requested(); });
    first = {};
    EXPECT_EQ(entries(), 2U) << "gone when its destructor returns, as in close()";
    if (released) {
      EXPECT_TRUE(last.release());
    } else {
      last = {};
    }
    EXPECT_EQ(entries(), 0U);
  }
}

// Both are threads that the end of the space waits for.
TEST_F(StoredEnd, ACallbackOfLostMayCloseItsSpace) {
  auto space = std::make_unique<Space>(open(store));
  Hold hold = space->max_hold(10s).lock(desk);
  std::latch closed{1};
  const std::stop_callback callback{hold.lost(), [&] {
                                      hold = {};
                                      space.reset();
                                      closed.count_down();
                                    }};
  store->advance(9s);
  closed.wait();
  kit::until([&] { return entries() == 0; });
}

base::Detached lock_then_close(std::unique_ptr<Space>& space, std::latch& closed) {
  {
    const Hold hold = co_await space->async_lock(desk);
    space.reset();
  }
  closed.count_down();
}

TEST_F(StoredEnd, ACoroutineMayCloseItsSpace) {
  Space other = open(store);
  Hold first = other.lock(desk);
  auto space = std::make_unique<Space>(open(store));
  std::latch closed{1};
  lock_then_close(space, closed);
  first.release();
  closed.wait();
  other.close();
  kit::until([&] { return entries() == 0; });
}

// The release that failed is tried again at once, not when the store's clock says so.
TEST_F(StoredEnd, CloseTriesAgainWhatFailed) {
  for (const std::size_t faults : {1U, 2U, 3U}) {
    Space space = open(store);
    Hold hold = space.lock(desk);
    store->settle();
    store->fail_next(faults, MemoryStore::Fault::before);
    EXPECT_THROW(hold.release(), StoreError);
    space.close();
    EXPECT_EQ(entries(), 0U) << faults;
  }
}

// It returns after ending_limit, and what was left is made when the store answers again.
TEST_F(StoredEnd, CloseGivesUpOnAStoreThatDoesNotAnswer) {
  Space space = open(store);
  Hold hold = space.lock(desk);
  store->fail_next(1, MemoryStore::Fault::before);
  EXPECT_THROW(hold.release(), StoreError);
  std::atomic<bool> answers = false;
  const auto me = std::this_thread::get_id();
  store->before_apply([&](const Txn&) {
    if (std::this_thread::get_id() != me) answers.wait(false);
  });
  space.close();
  EXPECT_EQ(entries(), 2U);
  answers = true;
  answers.notify_all();
  kit::until([&] { return entries() == 0; });
  store->before_apply(nullptr);
}

}  // namespace
}  // namespace tenure::stored
