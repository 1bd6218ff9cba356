#include "store/postgres/postgres_store.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/postgres/executor.hpp"
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

namespace tenure::postgres {
namespace {

// All that wait together are one call of the server, those too that fail their guards.
TEST(PostgresThen, WhatWaitsTogetherIsOneRoundTrip) {
  constexpr std::size_t count = 300;
  const Schema schema;
  const auto store = std::dynamic_pointer_cast<PostgresStore>(open_postgres(schema.url(), true));
  conformance::Bell first_made;
  conformance::Bell queued;
  conformance::Bell told;
  std::size_t committed = 0;
  store->apply_then(conformance::txn({}, {Write::put("first", "")}),
                    [&](const Outcome& /*outcome*/, const std::exception_ptr& /*error*/) {
                      first_made.ring();
                      queued.wait();  // So that all others wait meanwhile.
                    });
  first_made.wait();  // Else others could be in the first one's batch.
  const std::uint64_t before = store->executor().round_trips();
  for (std::size_t i = 0; i < count; ++i) {
    const auto guard = i % 3 == 0 ? Guard::absent("first") : Guard::present("first");
    store->apply_then(conformance::txn({guard}, {Write::put("k" + std::to_string(i), ""),
                                                 Write::append("q", "")}),
                      [&](const Outcome& outcome, const std::exception_ptr& error) {
                        committed += outcome.committed && !error ? 1 : 0;
                        told.ring();
                      });
  }
  queued.ring();
  told.wait(count);
  EXPECT_EQ(committed, count - (count / 3));
  EXPECT_EQ(store->executor().round_trips() - before, 1U);
}

// A put of its own does not make a process read again what it knows.
TEST(PostgresThen, APutDoesNotMakeASoleWriterReadAgain) {
  const Schema schema;
  const auto store = std::dynamic_pointer_cast<PostgresStore>(open_postgres(schema.url(), true));
  const auto trips_of_a_lock = [&] {
    const std::uint64_t before = store->executor().round_trips();
    Range line = Range::prefix("line/");
    line.before = this_apply;
    const Outcome made = store->apply(
        conformance::txn({Guard::present("session")}, {Write::append("line/", "")}, {line.last()}));
    EXPECT_TRUE(made.committed);
    const std::string key = "line/" + stamp(made.revision);
    EXPECT_TRUE(
        store->apply(conformance::txn({Guard::present(key)}, {Write::remove(key)})).committed);
    return store->executor().round_trips() - before;
  };
  store->apply(conformance::txn({}, {Write::put("session", "")}));
  for (int i = 0; i < 4; ++i) static_cast<void>(trips_of_a_lock());
  const std::uint64_t alone = trips_of_a_lock();
  for (int i = 0; i < 100; ++i) {
    store->apply(conformance::txn({}, {Write::put("other/" + std::to_string(i), "")}));
    EXPECT_EQ(trips_of_a_lock(), alone) << i;
  }
}

}  // namespace
}  // namespace tenure::postgres
