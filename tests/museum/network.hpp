// network.hpp: the museum on servers: the same cases for PostgreSQL and etcd, against real ones.
//
// gRPC does not survive a fork once it was used, so the program of the test opens no store: all
// that is done with one is done by processes, which are forked while it has one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/etcd/etcd_test.hpp"
#include "store/postgres/server_test.hpp"
#include "tests/faults/client.hpp"
#include "tests/faults/proxy.hpp"
#include "tests/museum/process.hpp"

namespace tenure::museum {

enum class Kind : std::uint8_t { postgres, etcd };

// A process that looks at the space of a URL, with a session that lasts an hour.
//   waiting      how many wait
//   tickets      how many there are
//   now          the store's clock, in nanoseconds
//   read KEY     its value, or "none"
[[nodiscard]] Process::Body observer(std::string url);

// The URL of a schema, through whatever is on that port.
[[nodiscard]] std::string postgres_at(int port, const postgres::TestSchema& schema);

// What a process says that is no error.
[[nodiscard]] std::size_t number_of(const std::string& said);

class NetworkMuseum : public ::testing::TestWithParam<Kind> {
 protected:
  NetworkMuseum();

  [[nodiscard]] std::string url() const { return url_at(port()); }
  // Through a proxy on that port.
  [[nodiscard]] std::string url_at(int port) const;
  [[nodiscard]] int port() const;
  // "open URL TTL", for a client of the faults.
  [[nodiscard]] std::string opening(std::chrono::milliseconds ttl, int through = 0) const;

  void kill_server();
  void start_server();

  // How long each session has to live by the server's own account.
  using Left = std::map<std::string, std::chrono::milliseconds>;
  [[nodiscard]] Left sessions() const;

  static void until_waiting(const Process& observing, std::size_t count);

 private:
  std::unique_ptr<postgres::TestSchema> schema_;  // One of the two.
  std::unique_ptr<etcd::Server> etcd_;
};

// Of PostgreSQL alone: what its server says of its own.
class PostgresMuseum : public ::testing::Test {
 protected:
  // @ stands for the schema.
  std::string sql(const std::string& text) const;  // NOLINT(modernize-use-nodiscard)
  postgres::TestSchema schema;
};

[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<Kind>& tested);

}  // namespace tenure::museum
