// The durable semaphore: its rules alone, random scripts against a second account of them, and the
// same calls on a slot.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tenure/memory_store.hpp"
#include "tenure/state.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

Instant at(std::chrono::nanoseconds time) { return MemoryStore::virtual_start + time; }

class DurableLocks : public ::testing::Test {
 protected:
  [[nodiscard]] LockCall call(const std::string& holder, std::chrono::nanoseconds time) const {
    return {.holder = holder, .now = at(time)};
  }
  std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
  AtomicState<LockRecord> slot_{store_, slot::workflow("transfer", "account-42:lock")};
  DurableMutex mutex_;
  const Acquisition acquired_{.acquired = true, .position = -1};
  [[nodiscard]] static Acquisition waits(int position) {
    return {.acquired = false, .position = position};
  }
};

TEST_F(DurableLocks, ServeInTheOrderOfArrival) {
  EXPECT_EQ(mutex_.inspect(slot_), std::nullopt);
  EXPECT_EQ(mutex_.try_acquire(slot_, call("a", 0s)), acquired_);
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 1s)), waits(0));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("c", 2s)), waits(1));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 3s)), waits(0));
  EXPECT_TRUE(mutex_.release(slot_, call("a", 4s)));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("c", 5s)), waits(1));  // No barging.
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 6s)), acquired_);
}

TEST_F(DurableLocks, AHolderThatAcquiresAgainRenews) {
  EXPECT_EQ(mutex_.try_acquire(slot_, call("a", 0s)), acquired_);
  EXPECT_EQ(mutex_.try_acquire(slot_, call("a", 20s)), acquired_);
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 49s)), waits(0));
  EXPECT_EQ(mutex_.inspect(slot_)->holders,
            (std::vector<LockRecord::Party>{{.id = "a", .until = at(50s)}}));
}

TEST_F(DurableLocks, ALeaseIsOverAtItsEnd) {
  EXPECT_EQ(mutex_.try_acquire(slot_, call("a", 0s)), acquired_);
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 30s - 1ns)), waits(0));
  EXPECT_FALSE(mutex_.renew(slot_, call("a", 30s)));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 30s)), acquired_);
  EXPECT_FALSE(mutex_.renew(slot_, call("a", 31s)));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("a", 31s)), waits(0));
}

TEST_F(DurableLocks, RenewExtendsALeaseAndNeverShortensIt) {
  const DurableMutex mutex{{.lease = 10s}};
  EXPECT_FALSE(mutex.renew(slot_, call("a", 0s)));
  EXPECT_EQ(mutex.try_acquire(slot_, call("a", 0s)), acquired_);
  EXPECT_TRUE(mutex.renew(slot_, call("a", 5s)));
  EXPECT_EQ(mutex.inspect(slot_)->holders.front().until, at(15s));
  EXPECT_TRUE(mutex.renew(slot_, {.holder = "a", .now = at(6s), .lease = 1s}));
  EXPECT_EQ(mutex.inspect(slot_)->holders.front().until, at(15s));
  EXPECT_TRUE(mutex.renew(slot_, {.holder = "a", .now = at(6s), .lease = 1h}));
  EXPECT_EQ(mutex.inspect(slot_)->holders.front().until, at(6s + 1h));
}

TEST_F(DurableLocks, ReleaseTakesTheCallerOutOfBothListsAndMayBeRepeated) {
  EXPECT_FALSE(mutex_.release(slot_, call("a", 0s)));
  EXPECT_EQ(mutex_.inspect(slot_), std::nullopt);
  mutex_.try_acquire(slot_, call("a", 0s));
  mutex_.try_acquire(slot_, call("b", 1s));
  EXPECT_TRUE(mutex_.release(slot_, call("b", 2s)));
  EXPECT_FALSE(mutex_.release(slot_, call("b", 2s)));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("c", 3s)), waits(0));
  EXPECT_TRUE(mutex_.release(slot_, call("a", 4s)));
  EXPECT_FALSE(mutex_.release(slot_, call("a", 4s)));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("c", 5s)), acquired_);
}

TEST_F(DurableLocks, ASemaphoreHasSoManyPermits) {
  const DurableSemaphore vendor{{.permits = 3}};
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(vendor.try_acquire(slot_, call(id, 0s)), acquired_) << id;
  }
  EXPECT_EQ(vendor.try_acquire(slot_, call("d", 1s)), waits(0));
  EXPECT_EQ(vendor.try_acquire(slot_, call("e", 1s)), waits(1));
  vendor.release(slot_, call("a", 2s));
  vendor.release(slot_, call("b", 2s));
  // Two are free, and one waits ahead: its permit stays free for it.
  EXPECT_EQ(vendor.try_acquire(slot_, call("e", 3s)), acquired_);
  EXPECT_EQ(vendor.try_acquire(slot_, call("f", 3s)), waits(1));
  EXPECT_EQ(vendor.try_acquire(slot_, call("d", 3s)), acquired_);
}

// Row S07 of docs/museum.md.
TEST_F(DurableLocks, S07_AWaiterThatDiedBlocksNobodyBeyondItsLease) {
  mutex_.try_acquire(slot_, call("a", 0s));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("dead", 1s)), waits(0));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 2s)), waits(1));
  mutex_.release(slot_, call("a", 3s));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 31s - 1ns)), waits(1));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 31s)), acquired_);
}

TEST_F(DurableLocks, AWaiterThatAsksAgainKeepsItsPlace) {
  mutex_.try_acquire(slot_, {.holder = "a", .now = at(0s), .lease = 1h});
  mutex_.try_acquire(slot_, call("b", 1s));
  // Late, but nobody has removed it.
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 50s)), waits(0));
  EXPECT_EQ(mutex_.try_acquire(slot_, call("c", 51s)), waits(1));
}

// Row S09.
TEST_F(DurableLocks, S09_ContendersWhoDisagreeOnThePermitsAreTold) {
  const DurableSemaphore three{{.permits = 3}};
  mutex_.try_acquire(slot_, call("a", 0s));
  EXPECT_EQ(kit::message_of<LimitMismatch>([&] { three.try_acquire(slot_, call("b", 1s)); }),
            "this semaphore is used with different limits: the caller asks for 3 permits, its "
            "record has 1; use the same number everywhere");
  EXPECT_EQ(mutex_.inspect(slot_)->waiters.size(), 0U);
  mutex_.release(slot_, call("a", 2s));
  EXPECT_EQ(three.try_acquire(slot_, call("b", 3s)), acquired_);  // An empty record has no limit.
}

// Row S10: a poll that changes nothing writes nothing.
TEST_F(DurableLocks, S10_AWaiterWritesOnlyToRenewItsLease) {
  mutex_.try_acquire(slot_, {.holder = "a", .now = at(0s), .lease = 1h});
  mutex_.try_acquire(slot_, call("b", 0s));
  int writes = 0;
  store_->before_apply([&writes](const Txn& txn) { writes += txn.writes.empty() ? 0 : 1; });
  for (int second = 1; second <= 60; ++second) {
    EXPECT_EQ(mutex_.try_acquire(slot_, call("b", std::chrono::seconds{second})), waits(0));
  }
  EXPECT_EQ(writes, 4);  // At 15, 30, 45 and 60 s.
}

TEST_F(DurableLocks, BadOptionsThrow) {
  EXPECT_THROW(DurableSemaphore({.permits = 0}), BadRequest);
  EXPECT_THROW(DurableSemaphore({.permits = 1, .lease = 0s}), BadRequest);
  EXPECT_THROW(DurableMutex({.lease = -1s}), BadRequest);
  EXPECT_THROW(mutex_.try_acquire(slot_, {.holder = "a", .now = at(0s), .lease = 0s}), BadRequest);
  EXPECT_THROW(mutex_.renew(slot_, {.holder = "a", .now = at(0s), .lease = -1ns}), BadRequest);
  EXPECT_THROW(mutex_.try_acquire(slot_, call("", 0s)), BadRequest);
  EXPECT_THROW(mutex_.release(slot_, call("", 0s)), BadRequest);
}

TEST_F(DurableLocks, ALeaseMayBeLongerThanClocksCanTell) {
  mutex_.try_acquire(slot_,
                     {.holder = "a", .now = at(0s), .lease = std::chrono::nanoseconds::max()});
  EXPECT_EQ(mutex_.try_acquire(slot_, call("b", 24h * 365 * 100)), waits(0));
}

TEST_F(DurableLocks, TheRecordIsReadable) {
  const DurableSemaphore two{{.permits = 2}};
  for (const char* id : {"a", "b", "c"}) two.try_acquire(slot_, call(id, 0s));
  EXPECT_EQ(nlohmann::json(*two.inspect(slot_)).dump(),
            R"({"holders":[{"id":"a","until":946684830000000000},)"
            R"({"id":"b","until":946684830000000000}],"permits":2,)"
            R"("waiters":[{"id":"c","until":946684830000000000}]})");
}

// Random calls of a few parties, with time going by. Each party counts as holding from its
// acquisition until its release or the end of the lease that it knows of.
struct Step {
  enum class Call : std::uint8_t { acquire, release, renew };
  Call call;
  int party;
  int seconds;  // Since the step before.
};

void showValue(const Step& step,
               std::ostream& out) {  // NOLINT: the name that RapidCheck looks for.
  out << "after " << step.seconds << " s " << static_cast<char>('a' + step.party)
      << (step.call == Step::Call::acquire   ? " acquires"
          : step.call == Step::Call::release ? " releases"
                                             : " renews");
}

rc::Gen<std::vector<Step>> scripts() {
  return rc::gen::container<std::vector<Step>>(rc::gen::construct<Step>(
      rc::gen::weightedElement<Step::Call>(
          {{6, Step::Call::acquire}, {2, Step::Call::release}, {1, Step::Call::renew}}),
      rc::gen::inRange(0, 6), rc::gen::inRange(0, 4)));
}

class Account {
 public:
  Account(std::uint32_t permits, std::chrono::seconds lease) : options_{permits, lease} {}

  void play(const Step& step) {
    now_ += std::chrono::seconds{step.seconds};
    const LockCall call{.holder = std::string(1, static_cast<char>('a' + step.party)), .now = now_};
    std::erase_if(until_, [this](const auto& hold) { return hold.second <= now_; });
    switch (step.call) {
      case Step::Call::acquire: acquire(call); break;
      case Step::Call::release: release(call); break;
      case Step::Call::renew: renew(call); break;
    }
    check();
  }

 private:
  void acquire(const LockCall& call) {
    const bool held = until_.contains(call.holder);
    // Whoever came earlier, and still waits, has a permit left for it.
    const std::size_t ahead = live_before(
        static_cast<std::size_t>(std::ranges::find(queue_, call.holder) - queue_.begin()));
    const auto made = lock_rules::try_acquire(options_, call, record_);
    keep(made.kind, made.value);
    if (made.result.acquired) {
      if (!held) RC_ASSERT(until_.size() + ahead < options_.permits);
      until_[call.holder] = std::max(until_[call.holder], now_ + options_.lease);
      std::erase(queue_, call.holder);
      return;
    }
    RC_ASSERT(!held);
    if (std::ranges::find(queue_, call.holder) == queue_.end()) queue_.push_back(call.holder);
    waits_until_[call.holder] = now_ + options_.lease / 2;
    const auto& waiters = record_->waiters;
    const auto place = std::ranges::find(waiters, call.holder, &LockRecord::Party::id);
    RC_ASSERT(place != waiters.end());
    RC_ASSERT(made.result.position == place - waiters.begin());
  }
  void release(const LockCall& call) {
    const auto made = lock_rules::release(call, record_);
    keep(made.kind, made.value);
    RC_ASSERT(made.result || !until_.contains(call.holder));
    until_.erase(call.holder);
    std::erase(queue_, call.holder);
  }
  void renew(const LockCall& call) {
    const auto made = lock_rules::renew(options_, call, record_);
    keep(made.kind, made.value);
    RC_ASSERT(made.result == until_.contains(call.holder));
    if (made.result) until_[call.holder] = std::max(until_[call.holder], now_ + options_.lease);
  }

  void keep(auto kind, const std::optional<LockRecord>& value) {
    using Kind = decltype(kind);
    RC_ASSERT(kind != Kind::remove);
    if (kind == Kind::put) record_ = value;
    if (record_.has_value()) {
      RC_ASSERT(nlohmann::json(*record_).get<LockRecord>() == *record_);
    }
    // Those whom the record has dropped have lost their place.
    std::erase_if(queue_, [this](const std::string& id) {
      return !record_.has_value() ||
             std::ranges::find(record_->waiters, id, &LockRecord::Party::id) ==
                 record_->waiters.end();
    });
  }
  [[nodiscard]] std::size_t live_before(std::size_t place) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(place),
        [this](const std::string& id) { return waits_until_.at(id) > now_; }));
  }
  void check() const {
    RC_ASSERT(until_.size() <= options_.permits);
    if (!record_.has_value()) return;
    std::set<std::string> ids;
    for (const auto* list : {&record_->holders, &record_->waiters}) {
      for (const LockRecord::Party& party : *list) RC_ASSERT(ids.insert(party.id).second);
    }
    for (const auto& [id, until] : until_) {
      const auto holder = std::ranges::find(record_->holders, id, &LockRecord::Party::id);
      RC_ASSERT(holder != record_->holders.end());
      RC_ASSERT(holder->until == until);
    }
  }

  SemaphoreOptions options_;
  Instant now_ = MemoryStore::virtual_start;
  std::optional<LockRecord> record_;
  std::map<std::string, Instant> until_;        // Who holds, as told.
  std::vector<std::string> queue_;              // Who waits, in the order of arrival.
  std::map<std::string, Instant> waits_until_;  // At least; as of the last call of each.
};

RC_GTEST_PROP(DurableLockRules, KeepTheirPromises, ()) {
  Account account{*rc::gen::inRange<std::uint32_t>(1, 4),
                  std::chrono::seconds{*rc::gen::inRange(1, 8)}};
  for (const Step& step : *scripts()) account.play(step);
}

// Whoever asks often enough gets in, whatever the others do, if they do not renew for ever.
RC_GTEST_PROP(DurableLockRules, EveryWaiterGetsIn, ()) {
  const SemaphoreOptions options{.permits = *rc::gen::inRange<std::uint32_t>(1, 3), .lease = 3s};
  std::optional<LockRecord> record;
  Instant now = MemoryStore::virtual_start;
  const int others = *rc::gen::inRange(1, 20);
  for (int i = 0; i < others; ++i) {  // Each asks once and dies.
    const auto made = lock_rules::try_acquire(
        options, {.holder = "other" + std::to_string(i), .now = now}, record);
    record = made.value;
  }
  bool in = false;
  for (int second = 0; second < 8 && !in; ++second, now += 1s) {
    const auto made = lock_rules::try_acquire(options, {.holder = "me", .now = now}, record);
    if (made.kind == lock_rules::Acquired::Kind::put) record = made.value;
    in = made.result.acquired;
  }
  RC_ASSERT(in);
}

}  // namespace
}  // namespace tenure
