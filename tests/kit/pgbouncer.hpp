// pgbouncer.hpp: PgBouncer in front of a PostgreSQL server, in transaction mode: a backend belongs
// to a client for one transaction, and there are fewer backends than connections.
#pragma once

#include "tests/kit/postgres.hpp"
#include "tests/kit/server.hpp"

namespace tenure::kit {

class PgBouncer : public Server {
 public:
  explicit PgBouncer(const Postgres& server = Postgres::instance());
  [[nodiscard]] bool ready() const override;
};

}  // namespace tenure::kit
