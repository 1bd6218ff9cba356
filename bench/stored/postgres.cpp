#include "bench/stored/postgres.hpp"

#include <libpq-fe.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <vector>

namespace tenure::bench::stored {
namespace {

namespace fs = std::filesystem;

// A question may have more processes than the server takes by itself.
constexpr int max_connections = 800;

struct FreeResult {
  void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, FreeResult>;

std::string connection_text(const std::string& host, int port) {
  return "host='" + host + "' port=" + std::to_string(port) +
         " user=bench dbname=postgres sslmode=disable gssencmode=disable connect_timeout=10";
}

void expect(const PGconn* connection, const PGresult* result, ExecStatusType status) {
  if (PQresultStatus(result) != status) throw std::runtime_error(PQerrorMessage(connection));
}

// Debian keeps the server's programs out of PATH, a directory for each version.
std::vector<fs::path> places() {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& version : fs::directory_iterator{"/usr/lib/postgresql", none}) {
    found.push_back(version.path() / "bin");
  }
  std::ranges::sort(found, std::greater<>{});
  return found;
}

}  // namespace

std::unique_ptr<Postgres> Postgres::start(Disk disk) {
  const auto initdb = find_program("initdb", places());
  return initdb ? std::unique_ptr<Postgres>{new Postgres{*initdb, disk}} : nullptr;
}

Postgres::Postgres(const fs::path& initdb, Disk disk) : port_(free_port()) {
  Command make{.words = {initdb.string(), "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale",
                         "--no-sync", "-D"},
               .as_ordinary_user = true};
  directory_ = directory_for(make, "pg");
  const std::string data = (directory_ / "data").string();
  make.words.push_back(data);
  run(make);

  const fs::path program = fs::canonical(initdb).parent_path() / "postgres";
  Command serve{
      .words = {program.string(), "-D", data, "-k", directory_.string(), "-h", "127.0.0.1", "-p",
                std::to_string(port_), "-c", "max_connections=" + std::to_string(max_connections)},
      .as_ordinary_user = true};
  if (disk == Disk::ignored) serve.words.emplace_back("-F");
  // SIGQUIT: without a last checkpoint; the data goes anyway.
  server_ = std::make_unique<Server>(serve, SIGQUIT, [this] { return answers(); });
}

std::string Postgres::url(const std::string& database) const {
  return "postgres://bench@127.0.0.1:" + std::to_string(port_) + "/" + database +
         "?sslmode=disable&gssencmode=disable";
}

void Postgres::make_database(const std::string& name) const {
  const std::unique_ptr<PGconn, Session::Disconnect> connection{PQconnectdb(url().c_str())};
  const Result result{PQexec(connection.get(), ("CREATE DATABASE " + name).c_str())};
  expect(connection.get(), result.get(), PGRES_COMMAND_OK);
}

bool Postgres::answers() const {
  return PQping(connection_text("127.0.0.1", port_).c_str()) == PQPING_OK;
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
