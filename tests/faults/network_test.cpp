// A client's network fails while it waits, holds, renews and releases. Whatever happens, the lock
// is never granted twice, never lost for ever, and a waiter gets it.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::faults {
namespace {

using namespace std::chrono_literals;
using kit::lock_client;
using kit::Postgres;
using kit::Process;
using kit::Proxy;
using kit::Schema;

enum class Fault : std::uint8_t { cut, no_answers, no_questions, slow, terminated, crash };

std::string name(Fault fault) {
  switch (fault) {
    case Fault::cut: return "Cut";
    case Fault::no_answers: return "NoAnswers";
    case Fault::no_questions: return "NoQuestions";
    case Fault::slow: return "Slow";
    case Fault::terminated: return "Terminated";
    case Fault::crash: return "Crash";
  }
  return {};
}

class Network : public ::testing::TestWithParam<Fault> {
 protected:
  // Both are forked before the network has sockets.
  Network() {
    EXPECT_EQ(near.ask("open " + schema.url_at(Postgres::instance().port()) + " 120000"), "ok");
    open_far(120'000);
  }

  void strike() {
    switch (GetParam()) {
      case Fault::cut: return network.cut();
      case Fault::no_answers: return network.swallow(Proxy::Way::to_client);
      case Fault::no_questions: return network.swallow(Proxy::Way::to_server);
      case Fault::slow: return network.delay(100ms);
      case Fault::terminated:
        Postgres::instance().sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name='tenure'");
        return;
      case Fault::crash:
        Postgres::instance().kill(SIGKILL);
        Postgres::instance().restart();
        return;
    }
  }
  void open_far(int lease) const {
    EXPECT_EQ(far.ask("open " + schema.url_at(network.port()) + ' ' + std::to_string(lease)), "ok");
  }
  // Reads the database directly.
  [[nodiscard]] std::string count(const std::string& what) const {
    return Postgres::instance().sql("SELECT count(*) FROM " + schema.name() + '.' + what);
  }
  void until_waits() const {
    kit::until([this] { return count("waiters") == "1"; });
  }
  // A release whose outcome is unknown says so; it is retried later.
  static void expect_given_back(std::string_view said) {
    if (said == "yes") return;
    EXPECT_NE(said.find("is not known"), std::string_view::npos) << said;
  }

  Schema schema;
  Process near{lock_client()};
  Process far{lock_client()};
  Proxy network{Postgres::instance().port()};
};

TEST_P(Network, FailsWhileItWaits) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(near.ask("lock book"), "holds");
    far.tell("lock book");
    until_waits();
    strike();
    expect_given_back(near.ask("release"));
    std::string said = far.hear();
    // The ticket may have been queued, but not yet written to disk.
    if (GetParam() == Fault::crash && said.contains("is not known")) said = far.ask("lock book");
    ASSERT_EQ(said, "holds");
    EXPECT_EQ(near.ask("try book"), "taken");
    expect_given_back(far.ask("release"));
  }
  EXPECT_EQ(near.ask("lock book"), "holds");
}

TEST_P(Network, FailsWhileItHolds) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(far.ask("lock book"), "holds");
    strike();
    EXPECT_EQ(near.ask("try book"), "taken");
    near.tell("lock book");
    until_waits();
    EXPECT_EQ(far.ask("is lost"), "no");
    expect_given_back(far.ask("release"));
    ASSERT_EQ(near.hear(), "holds");
    EXPECT_EQ(far.ask("try book"), "taken");
    expect_given_back(near.ask("release"));
  }
}

// Its session is renewed over other connections than those that failed.
TEST_P(Network, FailsWhileItRenews) {
  EXPECT_EQ(far.ask("close"), "ok");
  open_far(20'000);
  ASSERT_EQ(far.ask("lock book"), "holds");
  const std::string which = "SELECT s.deadline FROM " + schema.name() + ".session AS s JOIN " +
                            schema.name() + ".holders AS h ON true JOIN " + schema.name() +
                            ".sessions AS e ON e.session = s.id AND e.pid = h.pid";
  const std::string first = Postgres::instance().sql(which);
  strike();
  kit::until([&] { return Postgres::instance().sql(which) != first; });
  EXPECT_EQ(far.ask("is lost"), "no");
  EXPECT_EQ(near.ask("try book"), "taken");
  expect_given_back(far.ask("release"));
  EXPECT_EQ(near.ask("lock book"), "holds");
}

// The release is on its way, has just arrived, or its answer is on its way.
TEST_P(Network, FailsWhileItReleases) {
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(far.ask("lock book"), "holds");
    near.tell("lock book");
    until_waits();
    network.delay(std::chrono::milliseconds{round * 10});
    far.tell("release");
    strike();
    expect_given_back(far.hear());
    network.delay(0ms);
    ASSERT_EQ(near.hear(), "holds");
    EXPECT_EQ(far.ask("try book"), "taken");
    expect_given_back(near.ask("release"));
  }
  EXPECT_EQ(far.ask("lock book"), "holds");
}

// Nobody waits for the answer of a drop.
TEST_P(Network, FailsWhileItDrops) {
  for (int round = 0; round < 2; ++round) {
    // The first request on a broken connection may not know its outcome: the drop of the last round
    // may have got through before.
    std::string said = far.ask("lock book");
    while (said.find("is not known") != std::string::npos) said = far.ask("lock book");
    ASSERT_EQ(said, "holds");
    near.tell("lock book");
    until_waits();
    network.delay(std::chrono::milliseconds{round * 10});
    EXPECT_EQ(far.ask("drop"), "ok");
    strike();
    network.delay(0ms);
    ASSERT_EQ(near.hear(), "holds");
    expect_given_back(near.ask("release"));
  }
}

INSTANTIATE_TEST_SUITE_P(Postgres, Network,
                         ::testing::Values(Fault::cut, Fault::no_answers, Fault::no_questions,
                                           Fault::slow, Fault::terminated, Fault::crash),
                         [](const auto& tested) { return name(tested.param); });

class Alone : public ::testing::Test {
 protected:
  Schema schema;
  Process far{lock_client()};
  Process near{lock_client()};
  Proxy network{Postgres::instance().port()};
};

// Without a server, the error says so, and what to do.
TEST_F(Alone, ANetworkThatIsDownIsAClearError) {
  network.door(Proxy::Door::shut);
  const std::string said = far.ask("open " + schema.url_at(network.port()) + " 5000");
  EXPECT_NE(said.find("no connection to postgres://tenure@127.0.0.1"), std::string::npos) << said;
  network.door(Proxy::Door::silent);
  const std::string silent = far.ask("open " + schema.url_at(network.port()) + " 5000");
  EXPECT_NE(silent.find("no connection to postgres://tenure@127.0.0.1"), std::string::npos)
      << silent;
  network.door(Proxy::Door::open);
  EXPECT_EQ(far.ask("open " + schema.url_at(network.port()) + " 5000"), "ok");
}

// A client is cut off for longer than its lease: lost() fires; its lock passes on; its late write
// is refused; and with a new session it can queue again.
TEST_F(Alone, WhoIsCutOffIsToldAndItsLockPassesOn) {
  const std::string past = schema.url_at(Postgres::instance().port());
  const std::string through = schema.url_at(network.port());
  ASSERT_EQ(far.ask("open " + through + " 6000"), "ok");
  ASSERT_EQ(near.ask("open " + past + " 120000"), "ok");
  ASSERT_EQ(far.ask("lock book"), "holds");
  network.door(Proxy::Door::silent);
  network.swallow(Proxy::Way::to_client);
  network.swallow(Proxy::Way::to_server);
  EXPECT_EQ(near.ask("lock book"), "holds");
  EXPECT_EQ(far.ask("until lost"), "lost");
  network.door(Proxy::Door::open);
  // Its existing connections are dead, and it has to find that out.
  std::string said = far.ask("write book 1");
  while (said.starts_with("error")) {
    EXPECT_NE(said.find("is not known"), std::string::npos) << said;
    said = far.ask("write book 1");
  }
  EXPECT_EQ(said, "no");
  EXPECT_EQ(near.ask("write book 2"), "yes");
  EXPECT_EQ(far.ask("release"), "no");
  EXPECT_EQ(far.ask("close"), "ok");
  ASSERT_EQ(far.ask("open " + through + " 120000"), "ok");
  far.tell("lock book");
  EXPECT_EQ(near.ask("release"), "yes");
  EXPECT_EQ(far.hear(), "holds");
}

// The ticket was appended, and the answer is lost with the connection: the client finds the ticket
// again, in its position in the queue or already granted.
TEST_F(Alone, AnAnswerThatIsLostLosesNoTicket) {
  ASSERT_EQ(far.ask("open " + schema.url_at(network.port()) + " 120000"), "ok");
  ASSERT_EQ(near.ask("open " + schema.url_at(Postgres::instance().port()) + " 120000"), "ok");
  const auto until = [this](const std::string& view) {
    const std::string count = "SELECT count(*) FROM " + schema.name() + '.' + view;
    kit::until([&] { return Postgres::instance().sql(count) == "1"; });
  };
  for (const char* const asked : {"lock book", "try book"}) {
    network.swallow(Proxy::Way::to_client);
    far.tell(asked);
    until("holders");
    network.cut();
    EXPECT_EQ(far.hear(), "holds") << asked;
    EXPECT_EQ(far.ask("write book 1"), "yes");
    EXPECT_EQ(near.ask("try book"), "taken");
    EXPECT_EQ(far.ask("release"), "yes");
  }
  ASSERT_EQ(near.ask("lock book"), "holds");
  network.swallow(Proxy::Way::to_client);
  far.tell("lock book");
  until("waiters");
  network.cut();
  EXPECT_EQ(near.ask("release"), "yes");
  EXPECT_EQ(far.hear(), "holds");
  EXPECT_EQ(far.ask("release"), "yes");
  EXPECT_EQ(near.ask("count book"), "0") << "left behind";
}

// Requests of the client get lost, but watch events arrive: gRPC considers such a connection
// healthy. Or answers get lost, and gRPC takes long to notice. In both cases the client uses
// another connection.
TEST(EtcdNetwork, WhoIsHalfDeafOrDumbIsHeardOnAnotherConnection) {
  const kit::Etcd server;
  const std::string prefix = '/' + kit::new_prefix() + "?timeout=2s";
  const Process far{lock_client()};
  const Process near{lock_client()};
  const Process busy{lock_client()};
  Proxy network{server.port()};
  const std::string past = "open etcd://" + server.endpoint() + prefix + " 120000";
  ASSERT_EQ(far.ask("open etcd://127.0.0.1:" + std::to_string(network.port()) + prefix + " 120000"),
            "ok");
  ASSERT_EQ(near.ask(past), "ok");
  ASSERT_EQ(busy.ask(past), "ok");
  for (const auto way : {Proxy::Way::to_server, Proxy::Way::to_client, Proxy::Way::to_server}) {
    ASSERT_EQ(near.ask("lock book"), "holds");
    far.tell("lock book");
    kit::until([&] { return busy.ask("count book") == "2"; });
    network.swallow(way);
    const std::jthread changes{[&busy](const std::stop_token& stop) {
      while (!stop.stop_requested()) EXPECT_EQ(busy.ask("put other change"), "yes");
    }};
    EXPECT_EQ(near.ask("release"), "yes");
    ASSERT_EQ(far.hear(), "holds");
    network.swallow(way);
    EXPECT_EQ(far.ask("release"), "yes");
  }
}

}  // namespace
}  // namespace tenure::faults
