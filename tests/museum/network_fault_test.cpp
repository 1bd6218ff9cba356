// Servers that restart and connections that are cut, for less time than a lease: nothing is lost,
// and waiters are woken.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/museum/museum.hpp"
#include "tests/museum/network.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;
using kit::Proxy;

class NetworkFault : public NetworkMuseum {
 protected:
  // The lease is longer than every fault here.
  NetworkFault() {
    EXPECT_EQ(holder.ask(opening(30min, network.port())), "ok");
    EXPECT_EQ(waiter.ask(opening(30min, network.port())), "ok");
    EXPECT_EQ(near.ask(opening(30min)), "ok");
    EXPECT_EQ(looking.ask("waiting"), "0");
  }
  void hold_and_wait() const {
    ASSERT_EQ(holder.ask("lock book"), "holds");
    waiter.tell("lock book");
    until_waiting(looking, 1);
  }
  // A release whose outcome is unknown says so; it is retried later.
  static void expect_given_back(const std::string& said) {
    EXPECT_TRUE(said == "yes" || said.find("not known") != std::string::npos) << said;
  }

  const Process holder{lock_client()};
  const Process waiter{lock_client()};
  const Process near{lock_client()};  // Not through the proxy.
  const Process looking{lock_client(url())};
  Proxy network{port()};
};

TEST_P(NetworkFault, M25_ACutIsNotALoss) {
  hold_and_wait();
  for (int i = 0; i < 3; ++i) network.cut();
  EXPECT_EQ(holder.ask("is lost"), "no");
  network.door(Proxy::Door::shut);
  network.cut();
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(looking.ask("waiting"), "1");
  network.door(Proxy::Door::open);
  EXPECT_EQ(holder.ask("renew"), "yes");
  expect_given_back(holder.ask("release"));
  EXPECT_EQ(waiter.hear(), "holds");
  EXPECT_EQ(waiter.ask("is lost"), "no");
}

TEST_P(NetworkFault, M25_AServerThatIsRestartedIsNotALoss) {
  hold_and_wait();
  kill_server();
  EXPECT_EQ(holder.ask("is lost"), "no");
  start_server();
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(looking.ask("waiting"), "1");
  expect_given_back(holder.ask("release"));
  std::string said = waiter.hear();
  // The ticket may have been queued, but not yet written to disk.
  if (said.contains("not known")) said = waiter.ask("lock book");
  EXPECT_EQ(said, "holds");
  EXPECT_EQ(waiter.ask("is lost"), "no");
}

// The event that the waiter waits for happens while it can't be notified.
TEST_P(NetworkFault, M30_WhatHappensWhileTheConnectionIsGoneIsSeenWhenItIsBack) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(near.ask("lock book"), "holds");
    waiter.tell("lock book");
    until_waiting(looking, 1);
    network.door(Proxy::Door::shut);
    network.cut();
    EXPECT_EQ(near.ask("release"), "yes");
    network.door(Proxy::Door::open);
    EXPECT_EQ(waiter.hear(), "holds");
    expect_given_back(waiter.ask("release"));
  }
}

// A connection that a router has forgotten looks alive, and is silent. PostgreSQL's is probed from
// time to time; gRPC pings etcd's stream every ten seconds.
TEST_P(NetworkFault, M30_AListenerThatWasForgottenOnTheWayFindsOut) {
  ASSERT_EQ(near.ask("lock book"), "holds");
  waiter.tell("lock book");
  until_waiting(looking, 1);
  network.swallow(Proxy::Way::to_client);
  EXPECT_EQ(near.ask("release"), "yes");
  EXPECT_EQ(waiter.hear(), "holds");
}

INSTANTIATE_TEST_SUITE_P(Fault, NetworkFault, ::testing::Values(Kind::postgres, Kind::etcd),
                         name_of);

}  // namespace
}  // namespace tenure::museum
