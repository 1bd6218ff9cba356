// Between the program and its server: a transaction pooler, and connections that nobody answers.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <csignal>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tenure/tenure.hpp"
#include "tests/kit/pgbouncer.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/network.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;
using kit::Postgres;

class PoolerMuseum : public PostgresMuseum {
 protected:
  // Nothing is silent in this test, and behind a pooler a busy server can't be distinguished from a
  // silent one.
  [[nodiscard]] std::string url() const {
    return schema.url_at(pooler.port(), "&connect_timeout=60&tcp_user_timeout=60000");
  }
  [[nodiscard]] std::string opening(std::chrono::milliseconds ttl) const {
    return "open " + url() + ' ' + std::to_string(ttl.count());
  }
  [[nodiscard]] std::string count(const std::string& what) const {
    return sql("SELECT count(*) FROM @." + what);
  }
  void until_counted(const std::string& what, const std::string& number) const {
    until([&] { return count(what) == number; });
  }
  const kit::PgBouncer pooler;
};

TEST_F(PoolerMuseum, M29_BehindAPoolerLocksAreTakenAndHandedOnInOrder) {
  const Process one{lock_client()};
  const Process two{lock_client()};
  const Process three{lock_client()};
  for (const Process* const each : {&one, &two, &three}) ASSERT_EQ(each->ask(opening(30min)), "ok");
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(one.ask("lock book"), "holds");
    EXPECT_EQ(two.ask("try book"), "taken");
    two.tell("lock book");
    until_counted("waiters", "1");
    three.tell("lock book");
    until_counted("waiters", "2");
    EXPECT_EQ(one.ask("release"), "yes");
    EXPECT_EQ(two.hear(), "holds");
    EXPECT_EQ(count("waiters"), "1");
    EXPECT_EQ(two.ask("write account " + std::to_string(round)), "yes");
    EXPECT_EQ(two.ask("release"), "yes");
    EXPECT_EQ(three.hear(), "holds");
    EXPECT_EQ(three.ask("release"), "yes");
  }
  EXPECT_EQ(sql("SELECT count(*) FROM pg_locks WHERE locktype='advisory'"), "0");
}

// The pooler keeps the backend connection of the dead client: that says nothing about which client
// is alive.
TEST_F(PoolerMuseum, M29_BehindAPoolerADeathIsNoticed) {
  Process dying{lock_client()};
  const Process next{lock_client()};
  ASSERT_EQ(dying.ask(opening(2s)), "ok");
  ASSERT_EQ(next.ask(opening(30min)), "ok");
  ASSERT_EQ(dying.ask("lock book"), "holds");
  next.tell("lock book");
  until_counted("waiters", "1");
  dying.kill();
  EXPECT_EQ(next.hear(), "holds");
}

// A hold lasts behind a pooler too, whichever backend renews it.
TEST_F(PoolerMuseum, M29_BehindAPoolerASessionIsRenewed) {
  const Process holder{lock_client()};
  ASSERT_EQ(holder.ask(opening(8s)), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  const std::string start = sql("SELECT extract(epoch FROM clock_timestamp())");
  until([&] {
    return sql("SELECT clock_timestamp() > to_timestamp(" + start + ") + interval '20 seconds'") ==
           "t";
  });
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(holder.ask("release"), "yes");
}

TEST_F(PoolerMuseum, M29_AStoreBehindAPoolerSaysSo) {
  const auto asking = [](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    WatchFor what;
    what.ranges.push_back(Range::key("a"));
    what.after = used->apply({}).revision;
    const auto watch = used->watch(std::move(what), [] {});
    std::string said = "LISTEN, as soon as there is a watch";
    while (said.ends_with("as soon as there is a watch")) {
      std::map<std::string, std::string> facts;
      for (const auto& [name, value] : used->facts()) facts[name] = value;
      said = facts["pooler"] + ", " + facts["watch"];
    }
    line.say(said);
  };
  const Process behind{asking};
  const Process straight{asking};
  EXPECT_EQ(behind.ask(url()),
            "yes, polling once a second, because a pooler does not pass notifications on");
  EXPECT_EQ(straight.ask(schema.url()), "no, LISTEN");
}

// ---- Sockets ----

struct SocketSettings {
  int keepalive = 0;
  int idle = 0;
  int interval = 0;
  int count = 0;
  int user_timeout = 0;
};

int option(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  ::getsockopt(fd, level, name, &value, &size);
  return value;
}

// The sockets of this process that are connected to a port.
std::vector<SocketSettings> sockets_to(int port) {
  std::vector<SocketSettings> all;
  for (int fd = 0; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    std::uint16_t far = 0;
    if (peer.ss_family == AF_INET) far = reinterpret_cast<const sockaddr_in&>(peer).sin_port;
    if (peer.ss_family == AF_INET6) far = reinterpret_cast<const sockaddr_in6&>(peer).sin6_port;
    if (ntohs(far) != port) continue;
    all.push_back({.keepalive = option(fd, SOL_SOCKET, SO_KEEPALIVE),
                   .idle = option(fd, IPPROTO_TCP, TCP_KEEPIDLE),
                   .interval = option(fd, IPPROTO_TCP, TCP_KEEPINTVL),
                   .count = option(fd, IPPROTO_TCP, TCP_KEEPCNT),
                   .user_timeout = option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT)});
  }
  return all;
}

// No connection can have lost its peer for hours unnoticed: the kernel (PostgreSQL) or HTTP/2
// (etcd) sends probes, and unacknowledged data ends the connection.
TEST_P(NetworkMuseum, M29_EveryConnectionNoticesThatItsOtherEndIsGone) {
  const Process many{[&](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    const Space space = open(used);
    const Hold hold = space.lock(Path::of("book"));
    const std::jthread waiting{[&](const std::stop_token& stop) {
      static_cast<void>(space.lock(Path::of("book"), stop));
    }};
    // The pool, the listener and the renewals; etcd has one connection for all.
    const bool kernel = GetParam() == Kind::postgres;
    const std::size_t enough = kernel ? 3 : 1;
    until([&] { return sockets_to(port()).size() >= enough; });
    std::string said = "all";
    for (const SocketSettings& one : sockets_to(port())) {
      const bool asks =
          !kernel || (one.keepalive == 1 && one.idle <= 10 && one.interval <= 10 && one.count <= 3);
      if (!asks || one.user_timeout <= 0 || one.user_timeout > 20'000) {
        said = "one has a timeout of " + std::to_string(one.user_timeout) + " ms and asks after " +
               std::to_string(one.idle) + " s";
      }
    }
    line.say(said);
    static_cast<void>(line.hear());
  }};
  const std::string plain = GetParam() == Kind::postgres
                                ? Postgres::instance().url() + "&tenure_schema=museum_sockets"
                                : url();
  EXPECT_EQ(many.ask(plain), "all");
}

// The holder's machine disappears: to the server its connections look alive. They hold nothing; the
// lease does, and it ends.
TEST_P(NetworkMuseum, M29_AConnectionThatIsHalfOpenHoldsNothing) {
  Process gone{lock_client()};
  const Process next{lock_client()};
  kit::Proxy network{port()};
  ASSERT_EQ(gone.ask(opening(3s, network.port())), "ok");
  ASSERT_EQ(next.ask(opening(30min)), "ok");
  ASSERT_EQ(gone.ask("lock book"), "holds");
  gone.signal(SIGSTOP);  // Otherwise it would notice the silence and close its connection.
  network.swallow(kit::Proxy::Way::to_client);
  network.swallow(kit::Proxy::Way::to_server);
  network.door(kit::Proxy::Door::silent);
  const std::size_t connections = network.connections();
  gone.kill();
  EXPECT_EQ(next.ask("lock book"), "holds");
  EXPECT_GE(network.connections(), 1U) << "of " << connections;
}

}  // namespace
}  // namespace tenure::museum
