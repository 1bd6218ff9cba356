// A server that is down, hangs, or comes back late. Many holders each make one call meanwhile: no
// process ends, every call returns before the outage does, and lost() fires before the next holder
// is granted the lock, by one clock that all processes read.
//
// Each row of `calls` is what a holder is told during the outage. All rows share one outage,
// because most of its time goes to waiting for leases to end.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/boot_clock.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::faults {
namespace {

using namespace std::chrono_literals;
using kit::Line;
using kit::lock_client;
using kit::number_of;
using kit::Postgres;
using kit::Process;
using kit::Proxy;

enum class Server : std::uint8_t { postgres, etcd };
constexpr std::array<const char*, 2> server_names = {"Postgres", "Etcd"};

enum class Outage : std::uint8_t {
  unreachable,  // The network resets connections of holders, and refuses new ones.
  silent,       // The network accepts everything from holders, and answers nothing.
  stopped,      // The server is stopped with SIGSTOP until all holders have been told.
  killed,       // The server is killed, and starts again when all holders have been told.
};
constexpr std::array<const char*, 4> outage_names = {"Unreachable", "Silent", "Stopped", "Killed"};

enum class Before : std::uint8_t {
  holds,          // Its session ends the hold.
  holds_briefly,  // Its max_hold ends it.
  gives_up,       // The call ends the hold, so lost() does not fire.
  nothing,        // It has not even opened a space.
};

struct Call {
  const char* name;     // Also the path that the holder locks.
  std::string command;  // OPEN: the command that opens the space.
  Before before = Before::holds;
};

// NOLINTBEGIN(modernize-use-designated-initializers): rows of a table.
const std::vector<Call> calls = {
    {"Nothing", "is lost"},
    {"NothingWithMaxHold", "is lost", Before::holds_briefly},
    {"Lock", "lock film"},
    {"TryLock", "try film"},
    {"TryLockFor", "within film 100"},
    {"Renew", "renew"},
    {"RenewWithMaxHold", "renew", Before::holds_briefly},
    {"Downgrade", "downgrade Downgrade:shared"},
    {"Evict", "evict 1"},
    {"EvictNow", "evict 1 now"},
    {"Inspect", "count"},
    {"Now", "now"},
    {"Write", "write page 1"},
    {"OpenAgain", "OPEN"},
    {"Open", "OPEN", Before::nothing},
    {"Release", "release", Before::gives_up},
    {"Drop", "drop", Before::gives_up},
    {"Close", "close", Before::gives_up},
};
// NOLINTEND(modernize-use-designated-initializers)

// Receives a URL and "go", requests the paths of all calls at once, and reports when it got each.
void lock_after_others(const Line& line) {
  const Space space = open(store(line.hear().value()), {.label = "next", .ttl = 1h});
  line.say("ok");
  static_cast<void>(line.hear());
  std::vector<std::int64_t> granted(calls.size());
  {
    std::vector<std::jthread> waiters;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      waiters.emplace_back([&space, &granted, i] {
        while (granted[i] == 0) {
          try {
            const Hold hold = space.lock(Path::of(calls[i].name));
            granted[i] = base::boot_ns();
          } catch (const Error&) {  // The server may have just come back.
            std::this_thread::yield();
          }
        }
      });
    }
  }
  for (const std::int64_t time : granted) line.say(std::to_string(time));
}

class Outages : public ::testing::TestWithParam<std::tuple<Outage, Server>> {
 protected:
  Outages() {
    for (std::size_t i = 0; i < calls.size(); ++i) clients.emplace_back(lock_client());
    network = std::make_unique<Proxy>(server().port());
  }
  ~Outages() override { end_outage(); }

  [[nodiscard]] static Outage outage() { return std::get<0>(GetParam()); }
  [[nodiscard]] static bool on_etcd() { return std::get<1>(GetParam()) == Server::etcd; }
  [[nodiscard]] static bool of_the_server() {
    return outage() == Outage::stopped || outage() == Outage::killed;
  }
  [[nodiscard]] static kit::Server& server() {
    if (on_etcd()) return kit::Etcd::instance();
    return Postgres::instance();
  }
  [[nodiscard]] std::string url(int port) const {
    if (!on_etcd()) return schema->url_at(port, "&connect_timeout=2&tcp_user_timeout=2000");
    return "etcd://127.0.0.1:" + std::to_string(port) + '/' + prefix + "?timeout=2s";
  }
  [[nodiscard]] std::string opening(std::chrono::milliseconds ttl) const {
    return "open " + url(network->port()) + ' ' + std::to_string(ttl.count());
  }

  void begin_outage();
  void end_outage();
  // Sends every client the command that `command` returns for its call, and compares the answers;
  // empty: sends nothing.
  void expect_all(const std::function<std::string(const Call&)>& command,
                  const std::string& answer) const {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (const std::string text = command(calls[i]); !text.empty()) clients[i].tell(text);
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!command(calls[i]).empty()) {
        EXPECT_EQ(clients[i].hear(), answer) << calls[i].name;
      }
    }
  }
  // On a slow machine a request may reach its own time limit: repeats it as often as needed.
  void repeat(std::size_t client, const std::string& command, const std::string& answer) const {
    while (clients[client].ask(command) != answer) std::this_thread::yield();
  }
  void hold_all() const;
  void call_all() const;

  const std::unique_ptr<kit::Schema> schema = on_etcd() ? nullptr : std::make_unique<kit::Schema>();
  const std::string prefix = kit::new_prefix();
  const Process next{lock_after_others};
  std::vector<Process> clients;
  std::unique_ptr<Proxy> network;  // After all forks.
  bool is_out = false;
};

// A stopped server starts no processes, so its list of children is complete.
void signal_all(kit::Server& server, int number) {
  if (number == SIGSTOP) server.signal(number);
  const std::string pid = std::to_string(server.pid());
  std::ifstream children{"/proc/" + pid + "/task/" + pid + "/children"};
  for (pid_t child = 0; children >> child;) ::kill(child, number);
  if (number != SIGSTOP) server.signal(number);
}

void Outages::begin_outage() {
  is_out = true;
  switch (outage()) {
    case Outage::unreachable:
      network->door(Proxy::Door::shut);
      network->cut();
      break;
    case Outage::silent:
      network->door(Proxy::Door::silent);
      network->swallow(Proxy::Way::to_client);
      network->swallow(Proxy::Way::to_server);
      break;
    case Outage::stopped: signal_all(server(), SIGSTOP); break;
    case Outage::killed: server().kill(); break;
  }
}

void Outages::end_outage() {
  if (!is_out) return;
  is_out = false;
  switch (outage()) {
    case Outage::unreachable:
    case Outage::silent:
      network->door(Proxy::Door::open);
      network->cut();
      break;
    case Outage::stopped: signal_all(server(), SIGCONT); break;
    case Outage::killed: server().restart(); break;
  }
}

// On a machine so slow that a session ends before its client holds, the client starts again.
void Outages::hold_all() const {
  const auto begin = [this](std::size_t i) {
    const bool briefly = calls[i].before == Before::holds_briefly;
    repeat(i, opening(briefly ? 1h : 4s), "ok");
    if (briefly) {
      EXPECT_EQ(clients[i].ask("limit 4000000000"), "ok");
    }
    clients[i].tell(std::string{"lock "} + calls[i].name);
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].before != Before::nothing) begin(i);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    while (calls[i].before != Before::nothing && clients[i].hear() != "holds") {
      EXPECT_EQ(clients[i].ask("close"), "ok");
      begin(i);
    }
  }
}

// Every call returns, whatever its result; and each process still runs and reports that lost()
// fired.
void Outages::call_all() const {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    clients[i].tell(calls[i].command == "OPEN" ? opening(1h) : calls[i].command);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string said = clients[i].hear();
    if (calls[i].command == "OPEN") {
      EXPECT_TRUE(said.starts_with("error: ")) << calls[i].name << ": " << said;
    }
    if (calls[i].command == "drop" || calls[i].command == "close") {
      EXPECT_EQ(said, "ok") << calls[i].name;
    }
  }
  expect_all(
      [](const Call& call) {
        const bool told = call.before == Before::holds || call.before == Before::holds_briefly;
        return told ? "until lost" : std::string{};
      },
      "lost");
}

TEST_P(Outages, EveryCallReturnsAndLostFiresBeforeTheNextGrant) {
  ASSERT_EQ(next.ask(url(server().port())), "ok");
  hold_all();
  if (HasFailure()) return;
  if (!of_the_server()) next.tell("go");
  begin_outage();
  call_all();
  if (of_the_server()) {
    end_outage();
    next.tell("go");
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::size_t granted = number_of(next.hear());
    if (calls[i].before != Before::holds && calls[i].before != Before::holds_briefly) continue;
    EXPECT_LT(number_of(clients[i].ask("lost at")), granted) << calls[i].name;
  }
  end_outage();
  // With a new session each client works again.
  expect_all([](const Call&) { return "close"; }, "ok");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    repeat(i, opening(1h), "ok");
    repeat(i, std::string{"lock "} + calls[i].name, "holds");
  }
}

std::string name_of(const ::testing::TestParamInfo<Outages::ParamType>& tested) {
  const auto& [outage, server] = tested.param;
  return std::string{outage_names.at(static_cast<std::size_t>(outage))} + '_' +
         server_names.at(static_cast<std::size_t>(server));
}

INSTANTIATE_TEST_SUITE_P(Servers, Outages,
                         ::testing::Combine(::testing::Values(Outage::unreachable, Outage::silent,
                                                              Outage::stopped, Outage::killed),
                                            ::testing::Values(Server::postgres, Server::etcd)),
                         name_of);

}  // namespace
}  // namespace tenure::faults
