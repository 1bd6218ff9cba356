// postgres.hpp: a PostgreSQL server for a question; the minimal cost of a lock on it; its own
// locks.
#pragma once

#include <libpq-fe.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/cluster/questions.hpp"
#include "bench/ratio.hpp"
#include "bench/stored/locks.hpp"
#include "bench/stored/postgres.hpp"

namespace tenure::bench::cluster {

// On the servers' core; it syncs. Null, with a note, if PostgreSQL is not installed or there is
// only one core.
[[nodiscard]] std::unique_ptr<stored::Postgres> start_postgres(Report& report);

// A schema for each name; its URL in a database.
[[nodiscard]] Opener postgres_opener(const stored::Postgres& server,
                                     const std::string& database = "postgres");

struct Disconnect {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};
using Connection = std::unique_ptr<PGconn, Disconnect>;

// The minimum for a lock and its release in a table: a row that is inserted durably, and one that
// is deleted, which a crash may undo. Each has a connection with its setting.
class BareRow {
 public:
  BareRow(const stored::Postgres& server, const std::string& key);
  void operator()() const;

  static void make_table(const stored::Postgres& server);

 private:
  Connection insert_;
  Connection remove_;
};

// Inserts of single rows, each in a durable transaction of its own, by fifty clients: as pgbench
// does them.
class InsertCrew {
 public:
  explicit InsertCrew(const stored::Postgres& server);
  void run(std::uint64_t operations) const;        // So many of all clients together.
  void run_alone(std::uint64_t operations) const;  // Of one client.

 private:
  static constexpr std::size_t clients = 50;
  std::vector<Connection> connections_;
};

// pg_advisory_lock, over TCP.
[[nodiscard]] std::unique_ptr<stored::Lock> make_advisory_lock(const stored::Postgres& server,
                                                               int key);

}  // namespace tenure::bench::cluster
