// What a server, a network or an operator can do to an etcd store.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/etcd/etcd_store.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/message.hpp"

namespace tenure::etcd {
namespace {

using kit::contains;
using kit::Etcd;
using kit::free_port;
using kit::message_of;
using kit::new_prefix;

using conformance::Bell;
using conformance::txn;

Revision put(Store& store, const std::string& key, const std::string& value = "") {
  return store.apply(txn({}, {Write::put(key, value)})).revision;
}

std::string value_of(Store& store, const std::string& key) {
  const Outcome outcome = store.apply(txn({}, {}, {Range::key(key)}));
  return outcome.reads[0].empty() ? "none" : outcome.reads[0][0].value;
}

// Retries until it works: a server that has just restarted takes a while, and may leave an outcome
// unknown.
Revision put_at_last(Store& store, const std::string& key, const std::string& value = "") {
  for (;;) {
    try {
      return put(store, key, value);
    } catch (const StoreError&) {
      ::usleep(10'000);
    }
  }
}

WatchFor change_of(const std::string& key, Revision after) {
  WatchFor what;
  what.ranges.push_back(Range::key(key));
  what.after = after;
  return what;
}

// etcd's newest revision.
std::string etcd_revision(const Etcd& server) {
  const std::string text = server.etcdctl({"endpoint", "status", "-w", "json"});
  const std::size_t at = text.find("\"revision\":") + 11;
  return text.substr(at, text.find_first_not_of("0123456789", at) - at);
}

TEST(EtcdFaults, AServerThatIsKilledAndStartedAgainLosesNothing) {
  Etcd server;
  const auto store = open_etcd_alone(server.url("p"));
  const Revision before = put(*store, "a", "1");
  Bell bell;
  const auto watch = store->watch(change_of("b", before), bell.notice());
  server.kill();
  EXPECT_THROW(put(*store, "c"), StoreError);
  server.start();
  server.await_ready();
  const Revision after = put_at_last(*store, "b", "2");
  EXPECT_GT(after, before);
  bell.wait();
  EXPECT_EQ(value_of(*store, "a"), "1");
  EXPECT_EQ(value_of(*store, "b"), "2");
}

TEST(EtcdFaults, AServerThatCanNotBeReachedIsAnErrorThatNamesIt) {
  const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
  const std::string message = message_of<StoreError>([&] {
    static_cast<void>(open_etcd_alone("etcd://u:secret@" + endpoint + "/p?timeout=200ms"));
  });
  EXPECT_TRUE(contains(message, endpoint)) << message;
  EXPECT_FALSE(contains(message, "secret")) << message;
}

TEST(EtcdFaults, CompactionUnderAWatchIsNoHarm) {
  Etcd server;
  const auto store = open_etcd_alone(server.url("p"));
  const Revision first = put(*store, "a");
  Bell live;
  const auto watch = store->watch(change_of("b", first), live.notice());
  for (int i = 0; i < 20; ++i) put(*store, "a");
  server.etcdctl({"compact", etcd_revision(server)});
  put(*store, "b");
  live.wait();
  // A watch whose `after` was compacted, and one whose stream is cut meanwhile.
  Bell old;
  const auto second = open_etcd_alone(server.url("p"))->watch(change_of("a", first), old.notice());
  old.wait();
  Bell cut;
  const auto third = store->watch(change_of("c", put(*store, "a")), cut.notice());
  server.kill();
  server.start();
  server.await_ready();
  const auto other = open_etcd_alone(server.url("p"));
  put_at_last(*other, "c");
  put_at_last(*other, "a");
  server.etcdctl({"compact", etcd_revision(server)});
  cut.wait();
}

TEST(EtcdFaults, RefusesWhatTheServerDoes) {
  const auto store = open_etcd_alone(Etcd::instance().url(new_prefix()));
  Txn many;
  for (int i = 0; i < 129; ++i) many.writes.push_back(Write::append("k" + std::to_string(i), ""));
  EXPECT_TRUE(contains(message_of<BadRequest>([&] { store->apply(many); }), "operations"));
  const Txn large = txn({}, {Write::put("k", std::string(2'000'000, 'x'))});
  EXPECT_TRUE(contains(message_of<BadRequest>([&] { store->apply(large); }), "bytes"));
  EXPECT_TRUE(store->apply(txn({}, {}, {Range::prefix("k")})).reads[0].empty());
  many.writes.resize(126);
  EXPECT_TRUE(store->apply(many).committed);
}

TEST(EtcdFaults, KeepsStoresApart) {
  const std::string prefix = new_prefix();
  const auto one = open_etcd_alone(Etcd::instance().url(prefix));
  const auto two = open_etcd_alone(Etcd::instance().url(prefix + "x"));
  put(*one, "a", "1");
  const Revision newest = two->apply({}).revision;
  put(*one, "a", "2");
  EXPECT_EQ(two->apply({}).revision, newest);
  EXPECT_EQ(value_of(*two, "a"), "none");
  EXPECT_EQ(store(Etcd::instance().url(prefix)), store(Etcd::instance().url(prefix)));
}

// Another program removed everything under the prefix.
TEST(EtcdFaults, AStoreThatWasEmptiedBeginsAnew) {
  const std::string prefix = new_prefix();
  const auto store = open_etcd_alone(Etcd::instance().url(prefix));
  put(*store, "b");
  Etcd::instance().etcdctl({"del", "--prefix", prefix});
  EXPECT_GT(put(*store, "c"), Revision{});  // The store puts a new head.
  EXPECT_EQ(value_of(*store, "b"), "none");
}

TEST(EtcdFaults, ASessionWhoseServerIsGoneIsLost) {
  Etcd server;
  const auto store = open_etcd_alone(server.url("p"));
  const auto session = store->open_session({.label = {}, .ttl = std::chrono::seconds{2}});
  Bell lost;
  const std::stop_callback callback{session->lost(), [&] { lost.ring(); }};
  server.kill();
  lost.wait();
}

TEST(EtcdFaults, UserAndPassword) {
  Etcd server;
  server.etcdctl({"user", "add", "root:toor"});
  server.etcdctl({"user", "grant-role", "root", "root"});
  server.etcdctl({"role", "add", "locks"});
  server.etcdctl({"role", "grant-permission", "locks", "--prefix=true", "readwrite", "mine"});
  server.etcdctl({"user", "add", "app:se/cret"});
  server.etcdctl({"user", "grant-role", "app", "locks"});
  server.etcdctl({"auth", "enable"});
  const std::string at = server.endpoint();
  const auto store = open_etcd_alone("etcd://app:se%2Fcret@" + at + "/mine");
  const Revision made = put(*store, "a", "1");
  Bell bell;
  const auto watch = store->watch(change_of("b", made), bell.notice());
  put(*store, "b");
  bell.wait();
  const auto session = store->open_session({});
  EXPECT_TRUE(store->alive(session->id()));
  for (const Store::Fact& fact : store->facts()) EXPECT_FALSE(contains(fact.value, "cret"));

  const auto fails = [&](const std::string& url) {
    const std::string message =
        message_of<StoreError>([&] { static_cast<void>(open_etcd_alone(url)); });
    EXPECT_FALSE(contains(message, "cret")) << message;
    return message;
  };
  EXPECT_TRUE(contains(fails("etcd://app:secret2@" + at + "/mine"), "password"));
  EXPECT_TRUE(contains(fails("etcd://" + at + "/mine"), "password"));
  EXPECT_TRUE(contains(fails("etcd://app:se%2Fcret@" + at + "/other"), "may not"));
}

}  // namespace
}  // namespace tenure::etcd
