#include "bench/stored/postgres.hpp"

#include <libpq-fe.h>

#include <stdexcept>
#include <utility>

#include "bench/stored/supervise.hpp"

namespace tenure::bench::stored {
namespace {

// A question may have more processes than the server takes by itself.
constexpr int max_connections = 2'200;

struct FreeResult {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, FreeResult>;

std::string connection_text(const std::string& host, int port) {
  return "host='" + host + "' port=" + std::to_string(port) +
         " user=tenure dbname=postgres sslmode=disable gssencmode=disable connect_timeout=10";
}

void expect(const PGconn* connection, const PGresult* result, ExecStatusType status) {
  if (PQresultStatus(result) != status) throw std::runtime_error(PQerrorMessage(connection));
}

}  // namespace

std::unique_ptr<Postgres> Postgres::start(Disk disk) {
  return kit::Postgres::available() ? std::unique_ptr<Postgres>{new Postgres{disk}} : nullptr;
}

Postgres::Postgres(Disk disk)
    : server_({.settings = {"max_connections=" + std::to_string(max_connections),
                            disk == Disk::ignored ? "fsync=off" : "fsync=on"},
               .parent = scratch()}) {}

void Postgres::make_database(const std::string& name) const {
  server_.sql("CREATE DATABASE " + name);
}

void Postgres::Session::Disconnect::operator()(pg_conn* connection) const noexcept {
  PQfinish(connection);
}

Postgres::Session::Session(const std::string& host, int port, int key)
    : connection_(PQconnectdb(connection_text(host, port).c_str())), key_(std::to_string(key)) {
  PGconn* const connection = connection_.get();
  if (PQstatus(connection) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection));
  for (const auto& [name, text] : {std::pair{"lock", "SELECT pg_advisory_lock($1::bigint)"},
                                   std::pair{"unlock", "SELECT pg_advisory_unlock($1::bigint)"}}) {
    const Result result{PQprepare(connection, name, text, 1, nullptr)};
    expect(connection, result.get(), PGRES_COMMAND_OK);
  }
}

pid_t Postgres::Session::server() const noexcept { return PQbackendPID(connection_.get()); }

void Postgres::Session::call(const char* statement) {
  const char* const key = key_.c_str();
  PGconn* const connection = connection_.get();
  const Result result{PQexecPrepared(connection, statement, 1, &key, nullptr, nullptr, 0)};
  expect(connection, result.get(), PGRES_TUPLES_OK);
}

void Postgres::Session::lock() { call("lock"); }
void Postgres::Session::unlock() { call("unlock"); }

}  // namespace tenure::bench::stored
