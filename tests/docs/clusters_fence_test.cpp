// docs/clusters.md: the check of a lock in a transaction of the program's own.
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <array>
#include <memory>
#include <string>

#include "tenure/tenure.hpp"
#include "tests/kit/postgres.hpp"

namespace {

using tenure::kit::Postgres;

const tenure::Name account{"account"};

void withdraw(PGconn* mine, const tenure::Hold& hold) {
  // SNIPPET
}

TEST(DocsClusters, FenceInATransaction) {
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  Postgres& server = Postgres::instance();
  server.sql("CREATE TABLE account(id int, balance int); INSERT INTO account VALUES (3, 100)");
  const std::string balance = "SELECT balance FROM account";
  const tenure::Space space = tenure::open(server.url());
  const std::unique_ptr<PGconn, Finish> mine{PQconnectdb(server.url().c_str())};
  const tenure::Hold hold = space.lock({account(3), account(4)});
  withdraw(mine.get(), hold);
  EXPECT_EQ(server.sql(balance), "90");
  EXPECT_TRUE(space.evict_now(hold.token()));
  withdraw(mine.get(), hold);
  EXPECT_EQ(server.sql(balance), "90");
  EXPECT_EQ(PQtransactionStatus(mine.get()), PQTRANS_IDLE);
}

}  // namespace
