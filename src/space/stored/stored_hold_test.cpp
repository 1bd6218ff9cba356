// What a hold is worth past its deadline, during an eviction, while its store can't be reached, and
// after a downgrade whose answer was lost.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using kit::until;

const Path job = Path::of("job");
const Path tool = Path::of("tool");

class StoredHold : public ::testing::Test {
 protected:
  [[nodiscard]] std::size_t tickets() const {
    Txn read;
    read.reads = {Range::prefix("\x01"), Range::prefix("\x02")};
    const Outcome outcome = store->apply(read);
    return outcome.reads[0].size() + outcome.reads[1].size();
  }
  void until_tickets(std::size_t count) const {
    until([&] { return here.inspect().size() == count; });
  }
  // Acts once, in the place of the next apply that writes so many entries or more.
  void instead_of_next_write(std::size_t writes, std::function<void(const Txn&)> act) const {
    store->before_apply([writes, act = std::move(act),
                         next = std::make_shared<std::atomic<bool>>(true)](const Txn& txn) {
      if (txn.writes.size() >= writes && next->exchange(false)) act(txn);
    });
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  Space here = open(store);
  Space there = open(store);
};

// ---- Past its deadline, and nobody has removed it yet ----

TEST_F(StoredHold, AnOverdueHoldOfTheSameOwnerIsNoDeadlock) {
  const Locker me = here.as("me");
  Hold old = me.max_hold(10s).lock(job);
  store->advance(10s);
  Hold again = me.lock(job);
  EXPECT_TRUE(again);
  EXPECT_FALSE(old.release());
}

TEST_F(StoredHold, AnOverdueHoldOfAThirdIsNoPartOfACycle) {
  const Locker x = here.as("x");
  const Locker y = there.as("y");
  const Hold of_x = x.max_hold(10s).lock(job);
  Hold of_y = y.lock(tool);
  store->advance(10s);
  std::jthread waiting{[&] { EXPECT_TRUE(x.lock(tool)); }};
  until([&] { return here.inspect(tool).size() == 2; });
  EXPECT_TRUE(y.lock(job));
  EXPECT_TRUE(of_y.release());
}

TEST_F(StoredHold, AnOverdueHoldsLimitBindsNobody) {
  const Hold old = here.max_hold(10s).lock(job.permits(1));
  store->advance(10s);
  EXPECT_TRUE(there.lock(job.permits(2)));
  const Hold older = here.max_hold(10s).lock(tool.permits(1));
  store->advance(10s);
  EXPECT_TRUE(there.try_lock(tool.permits(2)));
}

TEST_F(StoredHold, AnOverdueHoldIsNeitherReleasedNorRenewedNorNarrowed) {
  Hold released = here.max_hold(10s).lock(job);
  Hold renewed = here.max_hold(10s).lock(tool);
  Hold narrowed = here.max_hold(10s).lock(Path::of("x"));
  store->advance(10s - 1ns);
  EXPECT_TRUE(renewed.renew());
  store->advance(1ns);
  EXPECT_FALSE(released.release());
  EXPECT_THROW(narrowed.downgrade(Path::of("x").shared()), Evicted);
  store->advance(10s);
  EXPECT_FALSE(renewed.renew());
  EXPECT_EQ(tickets(), 0U) << "the first to meet it removes it";
}

TEST_F(StoredHold, WithTheGuardOfAnOverdueHoldNothingCommits) {
  const Hold old = here.max_hold(10s).lock(job);
  const auto write = [&] {
    Txn txn;
    txn.guards = old.guard();
    txn.writes = {Write::put("k", "v")};
    return store->apply(txn).committed;
  };
  store->advance(10s - 1ns);
  EXPECT_TRUE(write());
  store->advance(1ns);
  EXPECT_FALSE(write());
}

TEST_F(StoredHold, AnOverdueHoldIsNeitherShownNorEvicted) {
  const Hold shown = here.max_hold(10s).lock(job);
  const Hold evicted = here.max_hold(10s).lock(tool);
  store->advance(10s);
  EXPECT_FALSE(there.evict(evicted.token()));
  EXPECT_TRUE(there.inspect().empty());
  EXPECT_FALSE(there.evict_now(shown.token()));
  EXPECT_EQ(tickets(), 0U);
}

// The second that an evicted holder has is a deadline like any other.
TEST_F(StoredHold, AnEvictedHoldIsOverAfterItsSecond) {
  Hold hold = here.lock(job);
  const std::stop_token lost = hold.lost();
  EXPECT_TRUE(there.evict(hold.token()));
  until([&] { return lost.stop_requested(); });
  EXPECT_FALSE(there.evict(hold.token())) << "it is being evicted";
  store->advance(1s);
  Txn txn;
  txn.guards = hold.guard();
  txn.writes = {Write::put("k", "v")};
  EXPECT_FALSE(store->apply(txn).committed);
  EXPECT_FALSE(hold.release());
}

// Nothing in this process watches such a hold: its row tells.
TEST_F(StoredHold, AnEvictedHoldIsNotReleasedThoughItsHolderNeverAsked) {
  for (const bool posted : {false, true}) {
    for (const bool limited : {false, true}) {
      SCOPED_TRACE(std::string{posted ? "posted" : "applied"} + (limited ? ", limited" : ""));
      Hold hold = limited ? here.max_hold(1h).lock({job, tool}) : here.lock({job, tool});
      EXPECT_TRUE(there.evict(hold.token()));
      std::promise<bool> held;
      if (posted) {
        detail::HoldAccess::release_then(
            hold, [&](const std::exception_ptr&, bool was_held) { held.set_value(was_held); });
      } else {
        held.set_value(hold.release());
      }
      EXPECT_FALSE(held.get_future().get());
      EXPECT_EQ(tickets(), 0U);
    }
  }
}

TEST_F(StoredHold, AnEvictedHoldIsNotNarrowed) {
  Hold hold = here.lock(job);
  EXPECT_TRUE(there.evict(hold.token()));
  EXPECT_THROW(hold.downgrade(job.shared()), Evicted);
  EXPECT_FALSE(hold.release());
}

// What this process itself wrote, or saw, it need not read again.
TEST_F(StoredHold, AReleaseIsOneApply) {
  const auto release = [this](Hold hold) {
    std::atomic<int> applies = 0;
    store->before_apply([&](const Txn&) { ++applies; });
    EXPECT_TRUE(hold.release());
    store->before_apply(nullptr);
    return applies.load();
  };
  EXPECT_EQ(release(here.lock(job)), 1);
  EXPECT_EQ(release(here.max_hold(1h).lock(job)), 1);
  EXPECT_EQ(release(here.try_lock(job).value_or(Hold{})), 1);
  EXPECT_EQ(release(here.max_hold(1h).try_lock(job).value_or(Hold{})), 1);
  Hold renewed = here.max_hold(1h).lock({job, tool});
  EXPECT_TRUE(renewed.renew());
  EXPECT_EQ(release(std::move(renewed)), 1);
  Hold narrowed = here.lock({job, tool});
  narrowed.downgrade({tool.shared()});
  EXPECT_EQ(release(std::move(narrowed)), 1);
}

TEST_F(StoredHold, ADowngradeSeesALimitThatComesMeanwhile) {
  Hold hold = here.lock(job);
  std::jthread waiter;
  instead_of_next_write(2, [&](const Txn&) {  // Between the look of downgrade() and its write.
    waiter = std::jthread{[&] { EXPECT_TRUE(there.lock(job.permits(3))); }};
    until_tickets(2);
  });
  EXPECT_THROW(hold.downgrade(job.permits(2)), LimitMismatch);
  EXPECT_TRUE(hold.release());
}

// ---- Evicting a waiter whose turn comes meanwhile ----

TEST_F(StoredHold, AWaiterThatIsGrantedWhileItIsEvictedHasItsMargin) {
  for (const bool limited : {false, true}) {
    const Claim claim = limited ? job.permits(1) : Claim{job};
    Hold first = here.lock(claim);
    std::optional<Hold> second;
    std::optional<Hold> third;
    std::jthread next{[&] { second = there.lock(claim); }};
    until_tickets(2);
    std::jthread last{[&] { third = there.lock(claim); }};
    until_tickets(3);
    const Token token = here.inspect()[1].ticket.number;
    instead_of_next_write(1, [&](const Txn&) {  // Between the look of evict() and its removal.
      first.release();
      next.join();
    });
    EXPECT_TRUE(here.evict(token));
    store->before_apply(nullptr);
    ASSERT_EQ(here.inspect().size(), 2U);
    EXPECT_EQ(here.inspect().front().ticket.number, token) << "it has its second";
    store->settle();
    EXPECT_FALSE(third.has_value());
    EXPECT_FALSE(second->renew());
    const std::stop_token lost = second->lost();
    until([&] { return lost.stop_requested(); });
    store->advance(1s);
    last.join();
    EXPECT_FALSE(second->release());
    EXPECT_TRUE(third->release());
  }
}

TEST_F(StoredHold, AWaiterIsEvictedAtOnceThoughTheDeadAreBeforeIt) {
  Space dying = open(store);
  const Hold first = dying.lock(job);
  std::jthread next{[&] { EXPECT_THROW(static_cast<void>(there.lock(job)), Evicted); }};
  until_tickets(2);
  const std::vector<TicketInfo> all = here.inspect();
  store->hold_notices(true);  // Nobody removes the dead one.
  store->kill_session(all[0].session);
  EXPECT_TRUE(here.evict(all[1].ticket.number));
  store->hold_notices(false);
}

// ---- While the store can't be reached ----

TEST_F(StoredHold, AHolderThatIsCutOffIsToldBeforeTheNextGrant) {
  Hold hold = here.max_hold(10s).lock(job);
  const std::stop_token lost = hold.lost();
  store->settle();
  std::atomic<bool> cut = true;
  const auto me = std::this_thread::get_id();
  store->before_apply([&](const Txn&) {
    if (cut && std::this_thread::get_id() != me) throw StoreError("no route to host");
  });
  EXPECT_FALSE(there.try_lock(job));
  store->advance(9s);
  until([&] { return lost.stop_requested(); });
  EXPECT_FALSE(there.try_lock(job)) << "told, and a second later passed on";
  store->advance(1s);
  EXPECT_TRUE(there.try_lock(job));
  cut = false;
  store->before_apply(nullptr);
}

// No notice of the store's comes, either.
TEST(StoredHoldTimer, ADeadlineIsCountedDownWithoutTheStore) {
  const auto slow = std::make_shared<MemoryStore>();
  Space space = open(slow);
  const Hold hold = space.max_hold(100ms).lock(job);
  slow->hold_notices(true);
  const std::stop_token lost = hold.lost();
  until([&] { return lost.stop_requested(); });
  slow->hold_notices(false);
}

TEST_F(StoredHold, AskingForLostAsksTheStoreForNothing) {
  const Hold hold = here.max_hold(10s).lock(job);
  store->settle();
  const auto me = std::this_thread::get_id();
  std::atomic<int> asked = 0;
  store->before_apply([&](const Txn&) {
    if (std::this_thread::get_id() == me) ++asked;
  });
  static_cast<void>(hold.lost());
  store->before_apply(nullptr);
  EXPECT_EQ(asked, 0);
}

TEST_F(StoredHold, ASlowCallbackDelaysNoOtherHold) {
  const Hold slow = here.max_hold(10s).lock(job);
  const Hold quick = here.max_hold(11s).lock(tool);
  std::atomic<bool> go = false;
  std::atomic<bool> running = false;
  const std::stop_callback callback{slow.lost(), [&] {
                                      running = true;
                                      go.wait(false);
                                    }};
  const std::stop_token lost = quick.lost();
  store->advance(9s);
  until([&] { return running.load(); });
  store->advance(1s);
  until([&] { return lost.stop_requested(); });
  go = true;
  go.notify_all();
}

// ---- A downgrade whose answer was lost ----

class LostDowngrade : public StoredHold {
 protected:
  // Calls downgrade() with a fault in its write; `read_back`: what is asked after that fails, too.
  void lose_answer(Hold& hold, const Claim& claim, bool made, bool read_back) {
    std::atomic<bool> broken = false;
    std::atomic<bool> done = false;
    const auto me = std::this_thread::get_id();
    store->before_apply([&](const Txn& txn) {
      if (std::this_thread::get_id() != me) return;
      if (broken) throw StoreError("no route to host");
      if (txn.writes.size() < 2 || done.exchange(true)) return;
      if (made) store->apply(txn);
      broken = !read_back;
      throw StoreError("no answer", true);
    });
    if (made && read_back) {
      EXPECT_NO_THROW(hold.downgrade(claim));
    } else {
      try {
        hold.downgrade(claim);
        ADD_FAILURE() << "no error";
      } catch (const StoreError& error) {
        EXPECT_EQ(error.unknown(), !read_back) << error.what();
      }
    }
    store->before_apply(nullptr);
    store->settle();
  }
};

TEST_F(LostDowngrade, IsFoundOutAndLosesNothing) {
  for (const bool made : {true, false}) {
    for (const bool read_back : {true, false}) {
      for (const bool same_key : {true, false}) {
        SCOPED_TRACE(std::to_string(made) + std::to_string(read_back) + std::to_string(same_key));
        Hold hold = here.lock({job, tool});
        const std::stop_token lost = hold.lost();
        store->settle();
        const Claim claim = same_key ? Claim{job} : tool.shared();
        lose_answer(hold, claim, made, read_back);
        store->advance(1s);
        store->settle();
        EXPECT_FALSE(lost.stop_requested());
        Txn txn;
        txn.guards = hold.guard();
        txn.writes = {Write::put("k", "v")};
        EXPECT_TRUE(store->apply(txn).committed);
        EXPECT_EQ(there.try_lock(same_key ? tool : job).has_value(), made);
        EXPECT_EQ(tickets(), made ? 1U : 2U);
        EXPECT_TRUE(hold.renew());
        EXPECT_TRUE(hold.release());
        EXPECT_EQ(tickets(), 0U);
      }
    }
  }
}

TEST_F(LostDowngrade, LeavesNothingWhenTheHoldGoesBeforeItIsFoundOut) {
  for (const bool made : {true, false}) {
    for (const bool dropped : {true, false}) {
      SCOPED_TRACE(std::to_string(made) + std::to_string(dropped));
      Hold hold = here.lock({job, tool});
      lose_answer(hold, tool.shared(), made, false);
      if (dropped) {
        hold = {};
      } else {
        EXPECT_TRUE(hold.release());
      }
      store->settle();
      EXPECT_EQ(tickets(), 0U);
    }
  }
}

// It arrives when it was already found not to have been made.
TEST_F(LostDowngrade, ThatArrivesLateIsNotMade) {
  Hold hold = here.lock({job, tool});
  std::optional<Txn> late;
  instead_of_next_write(2, [&](const Txn& txn) {
    late = txn;
    throw StoreError("no answer", true);
  });
  EXPECT_THROW(hold.downgrade(tool), StoreError);
  store->before_apply(nullptr);
  ASSERT_TRUE(late.has_value());
  EXPECT_FALSE(store->apply(*late).committed);
  EXPECT_NO_THROW(hold.downgrade(tool));
  EXPECT_TRUE(hold.release());
}

}  // namespace
}  // namespace tenure::stored
