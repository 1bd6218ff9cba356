// The least that a lock and its release are in a table of PostgreSQL: a row that is inserted,
// durably, and one that is deleted, which a crash may undo. Each has a connection with its setting.
// Beside it PostgreSQL's advisory locks, which write nothing.
#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/program.hpp"
#include "bench/stored/ours.hpp"
#include "bench/stored/postgres.hpp"
#include "bench/stored/questions.hpp"
#include "tenure/claim.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::stored {
namespace {

constexpr std::chrono::microseconds round_time{20'000};
constexpr std::size_t rounds = 100;

class Row {
 public:
  Row(const std::string& url, const char* setting, const char* statement)
      : connection_(PQconnectdb(url.c_str())) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
    check(PQexec(connection_.get(), setting), PGRES_COMMAND_OK);
    check(PQexec(connection_.get(),
                 "SET client_min_messages=error; CREATE TABLE IF NOT EXISTS bare(key bytea PRIMARY "
                 "KEY, value bytea NOT NULL)"),
          PGRES_COMMAND_OK);
    check(PQprepare(connection_.get(), "row", statement, 0, nullptr), PGRES_COMMAND_OK);
  }
  void change() {
    check(PQexecPrepared(connection_.get(), "row", 0, nullptr, nullptr, nullptr, 0),
          PGRES_COMMAND_OK);
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(connection_.get())); }
  void check(PGresult* result, ExecStatusType wanted) const {
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != wanted) fail();
  }
  struct Disconnect {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Disconnect> connection_;
};

void ask_in(Report& report, const Placement& placement) {
  const auto server = Postgres::start(Postgres::Disk::synced);
  if (server == nullptr) return report.note("not measured: initdb is not installed");
  pin_to_core(placement.core_of(1), server->pid());  // Before there are connections.
  Row insert{server->url(), "SET synchronous_commit=on",
             "INSERT INTO bare VALUES ('book', repeat('x', 150)::bytea)"};
  Row remove{server->url(), "SET synchronous_commit=off", "DELETE FROM bare WHERE key='book'"};
  Postgres::Session advisory = server->over_tcp();
  const Space space = open(server->url());
  const Claim claim = book.exclusive();

  Race race{report.effort(), round_time};
  const auto ours = race.add([&](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) lock_and_release(space, claim);
  });
  const auto bare = race.add([&](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      insert.change();
      remove.change();
    }
  });
  const auto locks = race.add([&](std::uint64_t operations) {
    for (std::uint64_t i = 0; i < operations; ++i) {
      advisory.lock();
      advisory.unlock();
    }
  });
  race.run(rounds);
  const Report::Side own{"", a_second(race[ours]), "/s"};
  const Report::Side rows{"a bare row", a_second(race[bare]), "/s"};
  const std::string what = "client + server on " + std::string{placement.name};
  if (placement.cores == 2) {
    report.compare(what, own, rows, at_least(0.8));
  } else {
    report.compare(what, own, rows);
  }
  report.compare(what, own, {"advisory locks", a_second(race[locks]), "/s"});
}

}  // namespace

void ask_postgres(Report& report) {
  for (const Placement& placement : possible_placements(report)) {
    pin_to_core(0);
    ask_in(report, placement);
  }
}

}  // namespace tenure::bench::stored
