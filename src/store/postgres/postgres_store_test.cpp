#include "store/postgres/postgres_store.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using kit::Postgres;
using kit::Schema;

conformance::StoreUnderTest make_postgres() {
  const auto schema = std::make_shared<Schema>();
  return {.open = [schema] { return open_postgres(schema->url(), true); },
          // As if it had not been renewed in time, and somebody had noticed.
          .kill =
              [schema](Session& session) {
                Postgres::instance().sql("DELETE FROM " + schema->name() + ".session WHERE id='" +
                                         session.id() + "'");
              }};
}

}  // namespace
}  // namespace tenure::postgres

namespace tenure::conformance {

INSTANTIATE_TEST_SUITE_P(Postgres, StoreConformance,
                         ::testing::Values(StoreKind{"postgres", postgres::make_postgres}),
                         kind_name);
INSTANTIATE_TEST_SUITE_P(Postgres, StoreProcesses,
                         ::testing::Values(StoreKind{"postgres", postgres::make_postgres}),
                         kind_name);

}  // namespace tenure::conformance
