#include "bench/cluster/postgres.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <utility>

#include "bench/program.hpp"

namespace tenure::bench::cluster {
namespace {

class AdvisoryLock final : public stored::Lock {
 public:
  explicit AdvisoryLock(stored::Postgres::Session session) : session_(std::move(session)) {}
  void acquire() override { session_.lock(); }
  void release() override { session_.unlock(); }

 private:
  stored::Postgres::Session session_;
};

void check(const Connection& connection, PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  PQclear(result);
  if (status != PGRES_COMMAND_OK) throw std::runtime_error(PQerrorMessage(connection.get()));
}

Connection connect(const stored::Postgres& server, const char* setting) {
  Connection connection{PQconnectdb(server.url().c_str())};
  if (PQstatus(connection.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection.get()));
  }
  check(connection, PQexec(connection.get(), setting));
  return connection;
}

void run_prepared(const Connection& connection) {
  check(connection, PQexecPrepared(connection.get(), "row", 0, nullptr, nullptr, nullptr, 0));
}

}  // namespace

std::unique_ptr<stored::Postgres> start_postgres(Report& report) {
  return start_on_server_core(
      report, "initdb", [] { return stored::Postgres::start(stored::Postgres::Disk::synced); });
}

Opener postgres_opener(const stored::Postgres& server, const std::string& database) {
  return [url = server.url(database)](const std::string& name) {
    return open(store(url + "&tenure_schema=" + name), patient);
  };
}

void BareRow::make_table(const stored::Postgres& server) {
  connect(server, "CREATE TABLE bare(key bytea PRIMARY KEY, value bytea NOT NULL)");
}

BareRow::BareRow(const stored::Postgres& server, const std::string& key)
    : insert_(connect(server, "SET synchronous_commit=on")),
      remove_(connect(server, "SET synchronous_commit=off")) {
  const std::string insert =
      "INSERT INTO bare VALUES ('" + key + "', repeat('x', 150)::bytea)";  // About as ours.
  const std::string remove = "DELETE FROM bare WHERE key='" + key + '\'';
  check(insert_, PQprepare(insert_.get(), "row", insert.c_str(), 0, nullptr));
  check(remove_, PQprepare(remove_.get(), "row", remove.c_str(), 0, nullptr));
}

void BareRow::operator()() const {
  for (const Connection* one : {&insert_, &remove_}) run_prepared(*one);
}

InsertCrew::InsertCrew(const stored::Postgres& server) {
  connect(server, "CREATE TABLE inserted(id bigserial PRIMARY KEY, value bytea)");
  for (std::size_t i = 0; i < clients; ++i) {
    const Connection& one = connections_.emplace_back(connect(server, "SET synchronous_commit=on"));
    check(one,
          PQprepare(one.get(), "row",
                    "INSERT INTO inserted(value) VALUES (repeat('x', 150)::bytea)", 0, nullptr));
  }
}

void InsertCrew::run(std::uint64_t operations) const {
  std::atomic<std::int64_t> left = static_cast<std::int64_t>(operations);
  std::vector<std::jthread> threads;
  for (const Connection& one : connections_) {
    threads.emplace_back([&left, &one] {
      while (left.fetch_sub(1) > 0) run_prepared(one);
    });
  }
}

void InsertCrew::run_alone(std::uint64_t operations) const {
  for (std::uint64_t i = 0; i < operations; ++i) run_prepared(connections_.front());
}

std::unique_ptr<stored::Lock> make_advisory_lock(const stored::Postgres& server, int key) {
  return std::make_unique<AdvisoryLock>(server.over_tcp(key));
}

}  // namespace tenure::bench::cluster
