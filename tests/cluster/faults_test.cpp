// A cluster of three nodes and its clients, with one fault after the other. Whatever happens, no
// two processes hold at once, tokens only rise, a holder that loses its hold is told before the
// next grant, and a waiter is granted once the fault is repaired.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "tests/cluster/cluster.hpp"
#include "tests/kit/clock.hpp"
#include "tests/kit/lock_client.hpp"

namespace tenure::cluster {
namespace {

using namespace std::chrono_literals;
using kit::Process;

// So long that no hold is lost while the cluster elects a new leader, however busy the machine is.
constexpr std::chrono::milliseconds long_lease = 120s;
// Short, for leases that are to expire.
constexpr std::chrono::milliseconds short_lease = 3s;

// A lock client with one more command.
//   wall SECONDS   sets the wall clock of the process forward, or back; "ok"
Process::Body client() {
  return kit::lock_client([](const std::string& command) -> std::optional<std::string> {
    if (!command.starts_with("wall ")) return std::nullopt;
    kit::move_wall_clock(std::chrono::seconds{std::stol(command.substr(5))});
    return "ok";
  });
}

class ClusterFaults : public ::testing::Test {
 protected:
  ClusterFaults() { cluster.heal(); }
  ~ClusterFaults() override { cluster.heal(); }

  void open(const Process& client, std::chrono::milliseconds lease) const {
    const std::string text = "open " + url + " " + std::to_string(lease.count());
    std::string said;
    while ((said = client.ask(text)) != "ok") ASSERT_TRUE(is_trouble(said)) << said;
  }
  void open_all(std::chrono::milliseconds lease = long_lease) const {
    for (const Process* const client : {&one, &two, &three}) open(*client, lease);
  }

  // An error that a cluster with a fault may return: there was no answer.
  [[nodiscard]] static bool is_trouble(std::string_view said) {
    return said.starts_with("error: etcd at ");
  }
  // Waits for the answer to an earlier command; if it is an error, repeats the command.
  void hear_holds(const Process& client, const std::string& path) {
    std::string said = client.hear();
    for (; said != "holds"; said = client.ask("lock " + path)) {
      ASSERT_TRUE(is_trouble(said)) << said;
      ++errors;
    }
    expect_newer(client, path);
  }
  void lock(const Process& client, const std::string& path) {
    client.tell("lock " + path);
    hear_holds(client, path);
  }
  // For one path: of two tickets, a waiter has the older number.
  void expect_newer(const Process& client, const std::string& path) {
    const std::uint64_t token = std::stoull(client.ask("token"));
    EXPECT_GT(token, last_token[path]);
    last_token[path] = token;
  }
  // A release without an answer is made as soon as possible.
  void release(const Process& client) {
    const std::string said = client.ask("release");
    if (said == "yes") return;
    EXPECT_TRUE(is_trouble(said)) << said;
    ++errors;
  }
  static std::int64_t time(const Process& client, const std::string& what) {
    return std::stoll(client.ask(what));
  }
  // Waits until there is a ticket in the queue behind the holder, with a look that bypasses all
  // faults.
  void until_waiting(std::size_t tickets) {
    while (count_tickets() < tickets) std::this_thread::sleep_for(10ms);
  }
  std::size_t count_tickets() {
    const std::string text = cluster.node(cluster.leader())
                                 .etcdctl({"get", "--prefix", prefix, "--keys-only", "-w", "json"});
    // Tickets are the keys behind '\0' 'k' that do not belong to a session ('\3').
    std::size_t tickets = 0;
    for (std::size_t at = text.find("\"key\":\""); at != std::string::npos;
         at = text.find("\"key\":\"", at + 1)) {
      const std::string key = decoded(text.substr(at + 7, text.find('"', at + 7) - at - 7));
      const std::size_t kind = prefix.size() + 1;
      if (key.size() > kind + 1 && key[kind] == 'k' && key[kind + 1] != '\3') ++tickets;
    }
    return tickets;
  }
  static std::string decoded(const std::string& text) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    unsigned bits = 0;
    int count = 0;
    for (const char c : text) {
      const std::size_t value = digits.find(c);
      if (value == std::string_view::npos) break;
      bits = bits << 6U | static_cast<unsigned>(value);
      count += 6;
      if (count < 8) continue;
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> static_cast<unsigned>(count) & 0xffU));
    }
    return bytes;
  }

  // One holds, two waits; the fault strikes; nobody gets a wrong answer, and both go on.
  template <typename Fault>
  void survive(const Fault& fault) {
    lock(one, "book");
    two.tell("lock book");
    until_waiting(2);
    fault();
    EXPECT_EQ(one.ask("is lost"), "no");
    lock(three, "other");
    release(three);
    EXPECT_EQ(one.ask("is lost"), "no");
    release(one);
    hear_holds(two, "book");
    one.tell("lock book");
    release(two);
    hear_holds(one, "book");
    release(one);
  }

  Cluster& cluster = the_cluster();
  const std::string prefix = kit::new_prefix();
  const std::string url = cluster.url(prefix);
  std::map<std::string, std::uint64_t> last_token;
  int errors = 0;
  const Process one{cluster.on(0, client())};
  const Process two{cluster.on(1, client())};
  const Process three{cluster.on(2, client())};
};

TEST_F(ClusterFaults, AFollowerIsKilled) {
  open_all();
  const std::size_t follower = cluster.follower();
  survive([&] { cluster.node(follower).kill(); });
  survive([&] { cluster.heal(); });
}

TEST_F(ClusterFaults, TheLeaderIsKilled) {
  open_all();
  survive([&] { cluster.node(cluster.leader()).kill(); });
  survive([&] { cluster.heal(); });
}

// An orderly shutdown gives other errors than a crash.
TEST_F(ClusterFaults, EachNodeIsEndedAndStartedInTurn) {
  open_all();
  for (std::size_t node = 0; node < Cluster::nodes; ++node) {
    survive([&] { cluster.node(node).kill(SIGTERM); });
    cluster.heal();
  }
}

TEST_F(ClusterFaults, TwoNodesAreKilled) {
  open_all();
  lock(one, "book");
  two.tell("lock book");
  until_waiting(2);
  cluster.node(0).kill();
  cluster.node(1).kill();
  // No client makes progress, and none gets a wrong answer.
  EXPECT_TRUE(is_trouble(three.ask("try other")));
  EXPECT_EQ(one.ask("is lost"), "no");
  cluster.node(0).start();
  release(one);
  hear_holds(two, "book");
  EXPECT_EQ(three.ask("try book"), "taken");
  lock(three, "other");
}

TEST_F(ClusterFaults, TheLeaderIsCutOffFromTheOthers) {
  open_all();
  survive([&] { cluster.cut_off_node(cluster.leader()); });
  survive([&] { cluster.heal(); });
}

TEST_F(ClusterFaults, TheLeaderIsStopped) {
  open_all();
  survive([&] { cluster.stop(cluster.leader()); });
  survive([&] { cluster.heal(); });
}

TEST_F(ClusterFaults, AClientIsCutOffFromOneNode) {
  open_all();
  for (std::size_t node = 0; node < Cluster::nodes; ++node) {
    // Both the holder and the waiter.
    survive([&] {
      cluster.cut_client(0, node);
      cluster.cut_client(1, node);
    });
    cluster.heal_network();
  }
}

TEST_F(ClusterFaults, AClientIsCutOffFromAll) {
  open(one, short_lease);
  open(two, long_lease);
  lock(one, "book");
  two.tell("lock book");
  until_waiting(2);
  cluster.cut_off_client(0);
  EXPECT_EQ(one.ask("until lost"), "lost");
  hear_holds(two, "book");
  EXPECT_LT(time(one, "lost at"), time(two, "granted at"));
  cluster.heal_network();
  std::string said;
  while (is_trouble(said = one.ask("write book late"))) {
  }
  EXPECT_EQ(said, "no");
  EXPECT_EQ(two.ask("write book mine"), "yes");
  EXPECT_EQ(one.ask("close"), "ok");
  open(one, long_lease);
  one.tell("lock book");
  release(two);
  hear_holds(one, "book");
}

TEST_F(ClusterFaults, AClientIsStoppedPastItsLease) {
  open(one, short_lease);
  open(two, long_lease);
  lock(one, "book");
  one.stop();
  lock(two, "book");
  one.tell("is lost");  // The first thing that it does.
  one.go_on();
  EXPECT_EQ(one.hear(), "yes");
  EXPECT_EQ(one.ask("write book late"), "no");
  EXPECT_EQ(two.ask("write book mine"), "yes");
  EXPECT_EQ(one.ask("release"), "no");
}

// Their wall clocks are hours apart, and are set while they hold and wait.
TEST_F(ClusterFaults, ClocksOfClientsAreWrong) {
  EXPECT_EQ(one.ask("wall 18000"), "ok");
  EXPECT_EQ(two.ask("wall -18000"), "ok");
  open_all();
  for (int round = 0; round < 3; ++round) {
    survive([&] {
      EXPECT_EQ(one.ask("wall -36000"), "ok");
      EXPECT_EQ(three.ask("wall 7200"), "ok");
    });
    EXPECT_EQ(one.ask("wall 36000"), "ok");
    EXPECT_EQ(three.ask("wall -7200"), "ok");
  }
  EXPECT_EQ(errors, 0);
  // A lease expires by the cluster's time.
  EXPECT_EQ(three.ask("close"), "ok");
  open(three, short_lease);
  lock(three, "book");
  EXPECT_EQ(three.ask("wall 36000"), "ok");
  one.tell("lock book");
  until_waiting(2);
  EXPECT_EQ(three.ask("is lost"), "no");
  three.stop();
  hear_holds(one, "book");
  three.go_on();
  EXPECT_EQ(three.ask("until lost"), "lost");
  EXPECT_LT(time(three, "lost at") - time(three, "granted at"),
            std::chrono::nanoseconds{24h}.count());
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace tenure::cluster
