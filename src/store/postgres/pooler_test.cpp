// Writes whose answer was lost, above all behind a pooler: no backend of another program is
// touched, and what a read has shown of them stays true.
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/pgbouncer.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::postgres {
namespace {

using conformance::txn;
using kit::Postgres;
using kit::Proxy;

enum class Way : std::uint8_t { direct, pooled };

class PostgresLostAnswer : public ::testing::TestWithParam<Way> {
 protected:
  // Another program with its own transaction.
  [[nodiscard]] static std::unique_ptr<Connection> begin(const std::string& url) {
    auto program = std::make_unique<Connection>(std::make_shared<const Target>(parse_url(url)));
    program->execute("BEGIN");
    return program;
  }
  // Blocks every writer until it commits.
  [[nodiscard]] std::unique_ptr<Connection> lock_head() const {
    auto program = begin(schema.url());
    program->execute("SELECT FROM " + schema.name() + ".head FOR UPDATE");
    return program;
  }
  [[nodiscard]] static std::string count(const std::string& condition) {
    return Postgres::instance().sql("SELECT count(*) FROM pg_stat_activity WHERE " + condition);
  }
  [[nodiscard]] static std::string waiting() { return count("wait_event_type='Lock'"); }
  [[nodiscard]] std::jthread append() {
    return std::jthread{[this] {
      try {
        store->apply(txn({}, {Write::append("log/", "")}));
        ADD_FAILURE() << "its answer was to be lost";
      } catch (const StoreError& error) {
        EXPECT_TRUE(error.unknown()) << error.what();
      }
    }};
  }
  [[nodiscard]] std::size_t appended() const {
    return store->apply(txn({}, {}, {Range::prefix("log/")})).reads.at(0).size();
  }

  const kit::Schema schema;
  const kit::PgBouncer pooler;
  Proxy network{GetParam() == Way::pooled ? pooler.port() : Postgres::instance().port()};
  const std::shared_ptr<Store> store = open_postgres(schema.url_at(network.port()), true);
};

// The server is unreachable until the caller has given up, and then continues.
TEST_P(PostgresLostAnswer, WhatAReadShowedStaysTrue) {
  const auto writer = lock_head();
  std::jthread appending = append();
  kit::until([] { return waiting() == "1"; });
  network.door(Proxy::Door::shut);
  network.cut();
  appending.join();
  network.door(Proxy::Door::open);
  std::atomic<bool> has_read = false;
  std::size_t seen = 0;
  std::jthread reading{[&] {
    seen = appended();
    has_read = true;
  }};
  // The append, and the transaction that resolves it.
  kit::until([&] { return has_read || waiting() == "2"; });
  writer->execute("COMMIT");
  reading.join();
  kit::until([] { return waiting() == "0"; });
  EXPECT_EQ(appended(), seen);
  EXPECT_EQ(seen, GetParam() == Way::pooled ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(Postgres, PostgresLostAnswer, ::testing::Values(Way::direct, Way::pooled),
                         [](const auto& tested) {
                           return tested.param == Way::pooled ? "BehindAPooler" : "Direct";
                         });

using PostgresPooler = PostgresLostAnswer;
INSTANTIATE_TEST_SUITE_P(Postgres, PostgresPooler, ::testing::Values(Way::pooled),
                         [](const auto& /*tested*/) { return "BehindAPooler"; });

// The backend that the pooler assigned to this transaction; "0" while it has none.
std::string backend_at_work(const kit::PgBouncer& pooler, const std::string& pid) {
  const std::unique_ptr<PGconn, void (*)(PGconn*)> console{
      PQconnectdb(
          ("host=127.0.0.1 user=tenure dbname=pgbouncer port=" + std::to_string(pooler.port()))
              .c_str()),
      PQfinish};
  const Result servers{PQexec(console.get(), "SHOW SERVERS")};
  const int state = PQfnumber(servers.get(), "state");
  const int remote = PQfnumber(servers.get(), "remote_pid");
  for (int row = 0; row < servers.rows(); ++row) {
    if (servers.text(row, remote) == pid && servers.text(row, state) == "active") return pid;
  }
  return "0";
}

// A process of the server that is stopped for a while.
class Stopped {
 public:
  explicit Stopped(const std::string& pid) : pid_(std::stoi(pid)) { ::kill(pid_, SIGSTOP); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;
  ~Stopped() { go_on(); }
  void go_on() const { ::kill(pid_, SIGCONT); }

 private:
  const pid_t pid_;
};

// The backend that the store's connection had first now serves another program, and the backend
// with the append runs it after the caller has given up.
TEST_P(PostgresPooler, OtherProgramsKeepTheirBackendsAndALateWriteIsRefused) {
  const std::string url = schema.url_at(pooler.port());
  const auto other = begin(url);
  const auto before = begin(url);
  const std::string late = before->execute("SELECT pg_backend_pid()").text(0, 0);
  before->execute("COMMIT");
  const Stopped stopped{late};
  std::jthread appending = append();
  kit::until([&] { return backend_at_work(pooler, late) == late; });
  network.cut();
  appending.join();
  EXPECT_EQ(appended(), 0U);
  stopped.go_on();
  kit::until([&] { return count("pid=" + late) == "0"; });
  EXPECT_EQ(appended(), 0U) << "it was written after the caller had given up";
  EXPECT_NO_THROW(other->execute("COMMIT")) << "its backend was terminated";
  store->apply(txn({}, {Write::append("log/", "")}));
  EXPECT_EQ(appended(), 1U);
}

}  // namespace
}  // namespace tenure::postgres
