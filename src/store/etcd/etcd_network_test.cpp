// What a slow or broken network must not do to an etcd store: a proxy delays or loses what is sent.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/clock.hpp"
#include "store/etcd/etcd_store.hpp"
#include "store/etcd/keeper.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::etcd {
namespace {

using namespace std::chrono_literals;
using conformance::txn;
using kit::Etcd;
using kit::new_prefix;
using kit::Proxy;

class EtcdNetwork : public ::testing::Test {
 protected:
  [[nodiscard]] std::string far_url() const {
    return "etcd://127.0.0.1:" + std::to_string(network.port()) + "/" + prefix + "?timeout=2s";
  }
  [[nodiscard]] std::string near_url() const { return Etcd::instance().url(prefix); }

  const std::string prefix = new_prefix();
  Proxy network{std::stoi(Etcd::instance().endpoint().substr(10))};
};

// --- answers that do not come

std::vector<Entry> entries(Store& store) {
  return store.apply(txn({}, {}, {Range::prefix("line/")})).reads[0];
}

TEST_F(EtcdNetwork, ACommitWhoseAnswerIsLostIsFoundAndNotMadeAgain) {
  const auto store = open_etcd_alone(far_url());
  for (std::size_t made = 1; made <= 3; ++made) {
    network.swallow(Proxy::Way::to_client);
    const Outcome outcome =
        store->apply(txn({}, {Write::append("line/", "")}, {Range::prefix("line/")}));
    ASSERT_TRUE(outcome.committed);
    ASSERT_EQ(outcome.reads[0].size(), made) << "as of its own commit";
    EXPECT_EQ(outcome.reads[0].back().created, outcome.revision);
    EXPECT_EQ(entries(*open_etcd_alone(near_url())), outcome.reads[0]);
  }
}

TEST_F(EtcdNetwork, ARequestThatIsLostIsMadeOnce) {
  const auto store = open_etcd_alone(far_url());
  for (std::size_t made = 1; made <= 3; ++made) {
    network.swallow(Proxy::Way::to_server);
    const Outcome outcome = store->apply(txn({}, {Write::append("line/", "")}));
    ASSERT_TRUE(outcome.committed);
    const std::vector<Entry> all = entries(*open_etcd_alone(near_url()));
    ASSERT_EQ(all.size(), made);
    EXPECT_EQ(all.back().created, outcome.revision);
  }
}

// Neither the answer comes nor anybody who could be asked: the caller must not take it for refused.
TEST_F(EtcdNetwork, ACommitThatNobodyCanBeAskedAboutIsUnknown) {
  const auto store = open_etcd_alone(far_url());
  network.swallow(Proxy::Way::to_client);
  network.door(Proxy::Door::shut);
  try {
    static_cast<void>(store->apply(txn({}, {Write::append("line/", "")})));
    ADD_FAILURE() << "no answer came, and it was not noticed";
  } catch (const StoreError& error) {
    EXPECT_TRUE(error.unknown()) << error.what();
  }
  EXPECT_EQ(entries(*open_etcd_alone(near_url())).size(), 1U) << "it was made";
}

// --- the stream of changes

// Others write while the stream is asked for and is not there yet. The delay makes that time long
// enough for many writes.
TEST_F(EtcdNetwork, AWatchMissesNothingThatIsWrittenWhileItsStreamOpens) {
  constexpr std::size_t count = 300;
  const auto near = open_etcd_alone(near_url());
  const auto far = open_etcd_alone(far_url());
  network.delay(50ms);
  Revision newest = near->apply({}).revision;
  std::vector<std::unique_ptr<Watch>> watches;
  const auto watch_then_write = [&](const std::string& key, Store::Notice notice) {
    WatchFor what;
    what.ranges.push_back(Range::key(key));
    what.after = newest;
    watches.push_back(far->watch(what, std::move(notice)));
    newest = near->apply(txn({}, {Write::put(key, "")})).revision;
  };
  std::atomic<std::size_t> told = 0;
  for (std::size_t i = 0; i < count; ++i) {
    watch_then_write("key/" + std::to_string(i), [&] { ++told; });
  }
  // Notices come in the order of changes: after that of a later change, those of all others.
  std::atomic<bool> live = false;
  while (!live.load()) watch_then_write("last", [&] { live.store(true); });
  EXPECT_EQ(told.load(), count);
  watches.clear();
}

// --- leases

TEST(EtcdLease, IsTrustedForTwoThirdsOfItsTimeSinceItsRenewalWasSent) {
  Lease lease;
  lease.ttl = 9s;
  const std::int64_t sent = boot_clock_ns();
  lease.renewed(sent);
  EXPECT_EQ(std::chrono::nanoseconds{lease.trusted_until.load() - sent}, 6s);
  EXPECT_TRUE(lease.check());
  EXPECT_FALSE(lease.lost.stop_requested());
}

TEST(EtcdLease, IsLostForGoodWhenItsTimeIsOver) {
  Lease lease;
  lease.ttl = 9s;
  lease.renewed(boot_clock_ns() - std::chrono::nanoseconds{6s}.count());
  EXPECT_FALSE(lease.check());
  EXPECT_TRUE(lease.lost.stop_requested());
  lease.renewed(boot_clock_ns());  // An answer that comes late.
  EXPECT_FALSE(lease.check());
}

// The server counts from when it got the renewal, and its answer may have been on its way for long.
TEST_F(EtcdNetwork, ARenewalCountsFromWhenItWasSent) {
  constexpr auto delay = 30ms;
  const auto engine = std::make_shared<Engine>(parse_address(far_url()));
  const auto keeper = std::make_shared<Keeper>(engine);
  network.delay(delay);
  const auto lease = keeper->open(6s);
  const std::int64_t margin = std::chrono::nanoseconds{lease->ttl}.count() * 2 / 3;
  const auto expect_trust_began_before_the_round_trip = [&] {
    EXPECT_LE(lease->trusted_until.load() - margin,
              boot_clock_ns() - std::chrono::nanoseconds{2 * delay}.count());
  };
  expect_trust_began_before_the_round_trip();
  for (const std::int64_t granted = lease->trusted_until.load();
       lease->trusted_until.load() == granted && !lease->is_lost.load();) {
    std::this_thread::yield();
  }
  expect_trust_began_before_the_round_trip();
  EXPECT_FALSE(lease->lost.stop_requested());
  keeper->end(lease);
  keeper->stop();
}

}  // namespace
}  // namespace tenure::etcd
