// Several processes on an etcd store. This one opens no store, so that it can fork.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>

#include "store/common/lease_renewer.hpp"
#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/no_threads.hpp"
#include "tests/kit/process.hpp"

namespace tenure::etcd {
namespace {

using conformance::Bell;
using kit::Etcd;
using kit::Line;
using kit::new_prefix;
using kit::Process;

conformance::StoreUnderTest make_etcd() {
  return {.open = [url = Etcd::instance().url(new_prefix())] { return open_etcd_alone(url); }};
}

// A client that was stopped for longer than its lease learns that its session is lost.
TEST(EtcdProcesses, AStoppedClientFindsItsSessionLost) {
  const std::string url = Etcd::instance().url(new_prefix());
  const Process client{[&](const Line& line) {
    const auto store = open_etcd_alone(url);
    const auto session = store->open_session({.label = {}, .ttl = std::chrono::seconds{2}});
    Bell lost;
    const std::stop_callback callback{session->lost(), [&] { lost.ring(); }};
    line.say(session->id());
    lost.wait();
    line.say(store->alive(session->id()) ? "lost, and alive" : "lost");
  }};
  const Process observer{[&](const Line& line) {
    const std::string id = line.hear().value();
    const auto store = open_etcd_alone(url);
    Bell dead;
    WatchFor death;
    death.session = id;
    const auto watch = store->watch(death, dead.notice());
    dead.wait();
    line.say(store->alive(id) ? "alive" : "dead");
  }};
  const std::string id = client.hear();
  client.stop();
  EXPECT_EQ(observer.ask(id), "dead");
  client.go_on();
  EXPECT_EQ(client.hear(), "lost");
}

// Without a thread that renews it, a lease would expire while its session is trusted.
TEST(EtcdProcesses, ASessionThatNoThreadCanRenewIsNotOpened) {
  const Etcd server;
  const Process client{[&](const Line& line) {
    kit::give_up_root();
    const auto store = open_etcd_alone(server.url("p"));
    {
      const kit::NoNewThreads limit;
      try {
        static_cast<void>(store->open_session({}));
        line.say("opened");
      } catch (const std::system_error&) {
        line.say("refused");
      }
    }
    static_cast<void>(line.hear());
    const auto session = store->open_session({});
    line.say(store->alive(session->id()) ? "alive" : "dead");
  }};
  EXPECT_EQ(client.hear(), "refused");
  EXPECT_EQ(server.etcdctl({"lease", "list"}), "found 0 leases\n");
  EXPECT_EQ(client.ask("again"), "alive");
}

// etcd tells each process of the keys that it watches, not of everything under the prefix.
TEST(EtcdProcesses, AReleaseTellsOneOf64Processes) {
  const Etcd server;
  constexpr std::size_t releases = 10;
  const std::size_t told = conformance::count_notices(
      64, releases, [url = server.url("queue")] { return open_etcd_alone(url); });
  EXPECT_GE(told, releases);
  EXPECT_LE(told, 3 * releases);
}

TEST(EtcdProcesses, ALeaseIsToldToBeLostThoughNoThreadCanBeStarted) {
  const Process client{[](const Line& line) {
    kit::give_up_root();
    stores::Lease lease;
    const kit::NoNewThreads limit;
    lease.lose();
    line.say(lease.lost.stop_requested() ? "told" : "not told");
  }};
  EXPECT_EQ(client.hear(), "told");
}

}  // namespace
}  // namespace tenure::etcd

namespace tenure::conformance {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreConformance);  // etcd_store_test has it.
INSTANTIATE_TEST_SUITE_P(Etcd, StoreProcesses,
                         ::testing::Values(StoreKind{"etcd", etcd::make_etcd}), kind_name);

}  // namespace tenure::conformance
