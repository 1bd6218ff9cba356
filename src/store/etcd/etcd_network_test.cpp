// An etcd store on a slow or broken network: a proxy delays or drops messages.
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

#include "store/common/lease_renewer.hpp"
#include "store/conformance.hpp"
#include "store/etcd/clock.hpp"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/patience.hpp"
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

// Neither the answer arrives nor can the cluster be asked: the caller must not take the transaction
// for refused.
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

// The same for transactions in one batch; each has its own revision.
TEST_F(EtcdNetwork, ABatchWhoseAnswerIsLostIsFoundAndNotMadeAgain) {
  constexpr std::size_t count = 200;
  const auto store = open_etcd_alone(far_url());
  std::vector<Revision> revisions;
  conformance::Bell told;
  network.swallow(Proxy::Way::to_client);
  for (std::size_t i = 0; i < count; ++i) {
    store->apply_then(txn({}, {Write::append("line/", std::to_string(i))}),
                      [&](const Outcome& outcome, const std::exception_ptr& error) {
                        EXPECT_TRUE(outcome.committed && !error);
                        revisions.push_back(outcome.revision);
                        told.ring();
                      });
    if (i == count / 2) network.swallow(Proxy::Way::to_client);
  }
  told.wait(count);
  const std::vector<Entry> all = entries(*open_etcd_alone(near_url()));
  ASSERT_EQ(all.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(all[i].value, std::to_string(i));
    EXPECT_EQ(all[i].created, revisions[i]);
    EXPECT_EQ(stamp_of(all[i].key), revisions[i]);
  }
}

// Each callback gets "unknown" or "not committed", and each is called once.
TEST_F(EtcdNetwork, ABatchThatNobodyCanBeAskedAboutIsUnknown) {
  constexpr std::size_t count = 100;
  const auto store = open_etcd_alone(far_url());
  network.swallow(Proxy::Way::to_client);
  network.door(Proxy::Door::shut);
  std::size_t unknown = 0;
  conformance::Bell told;
  for (std::size_t i = 0; i < count; ++i) {
    store->apply_then(txn({}, {Write::append("line/", "")}),
                      [&](const Outcome& /*outcome*/, const std::exception_ptr& error) {
                        try {
                          if (error) std::rethrow_exception(error);
                          ADD_FAILURE() << "no answer came, and it was not noticed";
                        } catch (const StoreError& why) {
                          unknown += why.unknown() ? 1 : 0;
                        }
                        told.ring();
                      });
  }
  told.wait(count);
  EXPECT_GE(unknown, entries(*open_etcd_alone(near_url())).size());
  network.door(Proxy::Door::open);
  EXPECT_THROW(store->flush(), StoreError);
  store->flush();
}

// --- the stream of changes

// Other clients write while the stream is being opened. The delay makes that period long enough for
// many writes.
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
  // Each key has an etcd watch of its own, so a notice of a later change may come first.
  std::atomic<bool> live = false;
  while (!live.load()) watch_then_write("last", [&] { live.store(true); });
  kit::until([&] { return told.load() == count; });
  watches.clear();
}

// --- leases

// The server counts from when it received the renewal, and its answer may have been under way for
// long.
TEST_F(EtcdNetwork, ARenewalCountsFromWhenItWasSent) {
  constexpr auto delay = 30ms;
  const auto store = open_etcd_alone(far_url());
  network.delay(delay);
  const auto lease = store->grant(6s);
  const std::int64_t margin = std::chrono::nanoseconds{lease->ttl}.count() * 2 / 3;
  const auto expect_trust_began_before_the_round_trip = [&] {
    EXPECT_LE(lease->trusted_until.load() - margin,
              boot_ns() - std::chrono::nanoseconds{2 * delay}.count());
  };
  expect_trust_began_before_the_round_trip();
  const std::int64_t granted = lease->trusted_until.load();
  kit::until([&] { return lease->trusted_until.load() != granted || lease->is_lost.load(); });
  expect_trust_began_before_the_round_trip();
  EXPECT_FALSE(lease->lost.stop_requested());
}

}  // namespace
}  // namespace tenure::etcd
