// Processes on one space while nodes, clients and the network between them fail at random; the
// checker of tests/stress judges their logs.
//
// TENURE_FAULTS: the number of faults (`make torture` sets it). TENURE_SEED repeats the choice of
// faults, not the interleaving of the processes.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/cluster/cluster.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/stress/checker.hpp"
#include "tests/stress/fleet.hpp"
#include "tests/stress/progress.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::cluster {
namespace {

using namespace std::chrono_literals;
using stress::below;

constexpr std::uint64_t grants_between = 10;
// Not a judgement: a campaign without progress ends, and says so.
constexpr auto stuck_after = 180s;
constexpr std::chrono::milliseconds lease = 3s;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it.
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

// One worker on each client's machine, in the space of a URL. Their wall clocks are hours apart.
class Workers {
 public:
  Workers(const Cluster& cluster, std::string url, const std::string& directory, std::uint64_t seed)
      : url_(std::move(url)),
        random_(seed),
        progress_(directory + "/progress"),
        fleet_(stress::program_beside("faults_worker"), directory, client_machines,
               [&cluster](std::size_t slot) { cluster.enter(slot); }) {
    for (std::size_t slot = 0; slot < size(); ++slot) start(slot);
  }

  [[nodiscard]] std::size_t size() const noexcept { return fleet_.size(); }
  [[nodiscard]] std::uint64_t grants() const {
    std::uint64_t sum = 0;
    for (std::size_t slot = 0; slot < size(); ++slot) sum += progress_.grants(slot).load();
    return sum;
  }
  void note(const std::string& what, const std::string& name) const { fleet_.note(what, name); }
  void stop(std::size_t slot) { fleet_.stop(slot); }
  void go_on(std::size_t slot) { fleet_.go_on(slot); }
  void kill(std::size_t slot) {  // Starts another one there.
    fleet_.kill(slot);
    start(slot);
  }
  [[nodiscard]] std::string reap() { return fleet_.reap(); }
  [[nodiscard]] std::string end_all() {
    return fleet_.end_all(stuck_after, [](std::size_t) { return "see its log"; });
  }

 private:
  void start(std::size_t slot) {
    const auto minutes = static_cast<std::int64_t>(below(random_, 600)) - 300;
    fleet_.start(slot, {std::to_string(random_()), std::to_string(lease.count()), url_, "silence",
                        std::to_string(minutes)});
  }

  const std::string url_;
  stress::Random random_;
  stress::Progress progress_;
  stress::Fleet fleet_;
};

class Campaign : public ::testing::Test {
 protected:
  enum class Blow : std::uint8_t {
    kill_follower,
    kill_leader,
    end_leader,
    kill_two,
    cut_off_leader,
    stop_leader,
    cut_client_from_one,
    cut_client_from_all,
    lose_answers,
    stop_client,
    kill_client,
  };
  static constexpr std::array<std::string_view, 11> names = {
      "kill-follower",       "kill-leader", "end-leader",   "kill-two",
      "cut-off-leader",      "stop-leader", "cut-client-1", "cut-client-all",
      "lose-answers-of-one", "stop-client", "kill-client"};

  // False: nobody was granted anything for very long.
  [[nodiscard]] static bool until_granted(Workers& fleet, std::uint64_t more) {
    const std::uint64_t enough = fleet.grants() + more;
    const auto end = std::chrono::steady_clock::now() + stuck_after;
    while (fleet.grants() < enough) {
      EXPECT_EQ(fleet.reap(), "");
      if (HasFailure() || std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(1ms);  // Polls, and lets them work.
    }
    return true;
  }

  // Injects a fault, waits until the other processes have made progress where they can, and repairs
  // it. False: stuck.
  [[nodiscard]] bool strike(Workers& fleet, Blow blow, stress::Random& random) {
    const std::size_t member = below(random, fleet.size());
    const std::size_t node = below(random, Cluster::nodes);
    bool others_go_on = true;
    switch (blow) {
      case Blow::kill_follower: cluster.node(cluster.follower()).kill(); break;
      case Blow::kill_leader: cluster.node(cluster.leader()).kill(); break;
      case Blow::end_leader: cluster.node(cluster.leader()).kill(SIGTERM); break;
      case Blow::kill_two:
        cluster.node(node).kill();
        cluster.node((node + 1) % Cluster::nodes).kill();
        others_go_on = false;
        break;
      case Blow::cut_off_leader: cluster.cut_off_node(cluster.leader()); break;
      case Blow::stop_leader: cluster.stop(cluster.leader()); break;
      case Blow::cut_client_from_one: cluster.cut_client(member, node); break;
      case Blow::cut_client_from_all: cluster.cut_off_client(member); break;
      case Blow::lose_answers: cluster.lose_answers(member, node); break;
      case Blow::stop_client: fleet.stop(member); break;
      case Blow::kill_client: fleet.kill(member); break;
    }
    if (others_go_on && !until_granted(fleet, grants_between)) return false;
    cluster.heal();
    fleet.go_on(member);
    return until_granted(fleet, grants_between);
  }

  Cluster& cluster = the_cluster();
};

TEST_F(Campaign, WhatProcessesDidUnderFaultsIsWhatALockServiceDoes) {
  const std::uint64_t faults = number_of("TENURE_FAULTS", 6);
  const std::uint64_t seed = number_of("TENURE_SEED", std::random_device{}());
  std::printf("TENURE_FAULTS=%llu TENURE_SEED=%llu\n", static_cast<unsigned long long>(faults),
              static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  stress::Random random{seed};
  cluster.heal();
  const std::string url = cluster.url(kit::new_prefix());
  const kit::TemporaryDirectory directory;
  {
    Workers fleet{cluster, url, directory.path().string(), seed};
    ASSERT_TRUE(until_granted(fleet, grants_between));
    for (std::uint64_t number = 0; number < faults; ++number) {
      const auto blow = static_cast<Blow>(below(random, names.size()));
      const std::string name{names.at(static_cast<std::size_t>(blow))};
      fleet.note("fault", name);
      const auto begun = std::chrono::steady_clock::now();
      ASSERT_TRUE(strike(fleet, blow, random)) << "nothing goes on after " << name;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      std::printf("%-20s %5.1f s\n", name.c_str(), took.count());
      std::fflush(stdout);
    }
    EXPECT_EQ(fleet.end_all(), "");
  }
  // Nothing is lost for ever: the whole space can be locked.
  const kit::Process last{cluster.on(0, kit::lock_client())};
  ASSERT_EQ(last.ask("open " + url + " 20000"), "ok");
  EXPECT_EQ(last.ask("lock a"), "holds");
  const stress::History history = stress::read_history(directory.path().string());
  const std::vector<stress::Finding> findings = stress::check(history);
  for (const stress::Finding& finding : findings) {
    ADD_FAILURE() << name(finding.kind) << ": " << finding.text;
  }
  std::size_t certain = 0;
  for (const stress::Asked& one : history.requests) certain += one.until.has_value() ? 1 : 0;
  EXPECT_GT(certain, faults) << "too little is certain for anything to be found";
  std::printf(
      "1 history, %zu operations, %zu holds that were certain, %zu faults, %zu violations\n",
      history.requests.size(), certain, history.outages.size(), findings.size());
  std::fputs(text(figures(history)).c_str(), stdout);
}

}  // namespace
}  // namespace tenure::cluster
