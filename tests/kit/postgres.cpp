#include "tests/kit/postgres.hpp"

#include <libpq-fe.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>

#include "tenure/error.hpp"

namespace tenure::kit {
namespace {

namespace fs = std::filesystem;

// Debian keeps the server's programs out of PATH, in one directory for each version.
std::vector<fs::path> places() {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& version : fs::directory_iterator{"/usr/lib/postgresql", none}) {
    found.push_back(version.path() / "bin");
  }
  std::ranges::sort(found, std::greater<>{});
  return found;
}

std::string program(std::string_view name) {
  const auto found = find_program(name, places());
  if (!found) throw Error("PostgreSQL's '" + std::string{name} + "' is not installed");
  return fs::canonical(*found).string();
}

void give_to_ordinary_user(const fs::path& path) {
  const auto user = ordinary_user();
  if (user && ::chown(path.c_str(), user->uid, user->gid) != 0) {
    throw std::system_error(errno, std::generic_category(), "chown " + path.string());
  }
}

}  // namespace

Postgres& Postgres::instance() {
  static Postgres server;
  return server;
}

bool Postgres::available() { return find_program("initdb", places()).has_value(); }

Postgres::Postgres(const Options& options) : Server("postgres", free_port(), options.parent) {
  give_to_ordinary_user(directory().path());
  const fs::path data = directory() / "data";
  run(Program{.words = {program("initdb"), "-D", data.string(), "-U", "tenure", "-A", "trust", "-E",
                        "UTF8", "--no-locale", "--no-sync"},
              .log = log(),
              .as_ordinary_user = true});
  give_to_ordinary_user(log());
  std::ofstream{data / "pg_hba.conf"} << "local all all trust\n"
                                         "host all locked 127.0.0.1/32 scram-sha-256\n"
                                         "host all all 127.0.0.1/32 trust\n";
  std::ofstream settings{data / "postgresql.auto.conf"};
  settings << "listen_addresses='127.0.0.1'\nport=" << port() << "\nunix_socket_directories='"
           << directory().path().string() << "'\nrestart_after_crash=on\n";
  for (const std::string& one : options.settings) settings << one << '\n';
  settings.close();
  // SIGQUIT: without a last checkpoint; the data is removed anyway.
  set_program({.words = {program("postgres"), "-D", data.string()}, .as_ordinary_user = true},
              SIGQUIT);
  Postgres::restart();
  sql("CREATE ROLE locked LOGIN PASSWORD 'opensesame'; CREATE ROLE guest LOGIN");
}

// After a SIGKILL its children take a moment to end and to release its shared memory; until then a
// new server ends at once.
void Postgres::restart() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  for (;;) {
    try {
      Server::restart();
      return;
    } catch (const Error&) {
      if (std::chrono::steady_clock::now() > until) throw;
      ::usleep(100'000);
    }
  }
}

bool Postgres::ready() const { return PQping(url().c_str()) == PQPING_OK; }

std::string Postgres::url(std::string_view user, std::string_view database) const {
  return "postgres://" + std::string{user} + "@127.0.0.1:" + std::to_string(port()) + "/" +
         std::string{database} + "?sslmode=disable&gssencmode=disable";
}

std::string Postgres::sql(const std::string& text, std::string_view user,
                          std::string_view database) const {
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  struct Free {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
  };
  const std::unique_ptr<PGconn, Finish> connection{PQconnectdb(url(user, database).c_str())};
  const std::unique_ptr<PGresult, Free> result{PQexec(connection.get(), text.c_str())};
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
    throw Error(PQerrorMessage(connection.get()));
  }
  return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

Schema::Schema() : owner_(::getpid()) {
  // Now, by the main thread: a thread of a test or a child would take the server with it.
  static_cast<void>(Postgres::instance());
  static std::atomic<int> count = 0;
  name_ = "case_" + std::to_string(++count);
}

Schema::~Schema() {
  if (::getpid() != owner_) return;
  try {
    Postgres::instance().sql("SET client_min_messages=error; DROP SCHEMA IF EXISTS " + name_ +
                             " CASCADE");
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // It is removed with the server.
  }
}

std::string Schema::url_at(int port, std::string_view limits) const {
  return "postgres://tenure@127.0.0.1:" + std::to_string(port) +
         "/postgres?sslmode=disable&gssencmode=disable" + std::string{limits} +
         "&tenure_schema=" + name_;
}

}  // namespace tenure::kit
