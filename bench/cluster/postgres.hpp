// postgres.hpp: a PostgreSQL server for a question; the minimal cost of a lock on it; its own
// locks.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>

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

// The minimum for a lock and its release in a table: a row that is inserted durably, and one that
// is deleted, which a crash may undo. Each has a connection with its setting.
class BareRow {
 public:
  BareRow(const stored::Postgres& server, const std::string& key);
  void operator()() const;

  static void make_table(const stored::Postgres& server);

 private:
  struct Disconnect {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  using Connection = std::unique_ptr<PGconn, Disconnect>;
  static Connection connect(const stored::Postgres& server, const char* setting);
  static void check(const Connection& connection, PGresult* result);

  Connection insert_;
  Connection remove_;
};

// pg_advisory_lock, over TCP.
[[nodiscard]] std::unique_ptr<stored::Lock> make_advisory_lock(const stored::Postgres& server,
                                                               int key);

}  // namespace tenure::bench::cluster
