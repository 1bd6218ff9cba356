// network.hpp: the museum on servers: the same cases for PostgreSQL and etcd, with real servers.
//
// gRPC does not survive a fork once it was used, so the test program itself opens no store: child
// processes use the stores, and are forked while the program has one thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/proxy.hpp"

namespace tenure::museum {

using kit::Line;
using kit::lock_client;
using kit::number_of;
using kit::Process;
using kit::Shared;

enum class Kind : std::uint8_t { postgres, etcd };

class NetworkMuseum : public ::testing::TestWithParam<Kind> {
 protected:
  NetworkMuseum();

  [[nodiscard]] std::string url() const { return url_at(port()); }
  // Through a proxy on that port.
  [[nodiscard]] std::string url_at(int port) const;
  [[nodiscard]] int port() const;
  // "open URL TTL", for a lock client.
  [[nodiscard]] std::string opening(std::chrono::milliseconds ttl, int through = 0) const;

  // The server of the program, for all cases. A case that kills it restarts it.
  [[nodiscard]] kit::Server& server() const;
  void kill_server() const { server().kill(); }
  void start_server() const { server().restart(); }

  // The remaining time of each session, by the server's own account.
  using Left = std::map<std::string, std::chrono::milliseconds>;
  [[nodiscard]] Left sessions() const;

  static void until_waiting(const Process& observing, std::size_t count);

 private:
  std::unique_ptr<kit::Schema> schema_;  // PostgreSQL only.
  std::string prefix_;                   // etcd only.
};

// For PostgreSQL only: queries about the server itself.
class PostgresMuseum : public ::testing::Test {
 protected:
  // @ stands for the schema.
  std::string sql(const std::string& text) const;  // NOLINT(modernize-use-nodiscard)
  kit::Schema schema;
};

[[nodiscard]] std::string name_of(const ::testing::TestParamInfo<Kind>& tested);

}  // namespace tenure::museum
