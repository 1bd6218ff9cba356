// Creating the schema, refusing other schemas, and the facts about it.
#include <gtest/gtest.h>

#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/url.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using kit::Postgres;
using kit::Schema;

using conformance::txn;

// The error of opening; "opened" if there was none.
std::string refusal(const std::string& url) {
  try {
    std::ignore = open_postgres(url, true);
    return "opened";
  } catch (const Error& error) {
    return error.what();
  }
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PostgresSchema, IsMadeOnceThoughManyStartAtOnce) {
  const Schema schema;
  constexpr int clients = 12;
  std::latch start{clients};
  std::vector<std::string> said(clients);
  {
    std::vector<std::jthread> threads;
    for (std::string& mine : said) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        mine = refusal(schema.url());
      });
    }
  }
  EXPECT_EQ(said, std::vector<std::string>(clients, "opened"));
}

TEST(PostgresSchema, OfALaterVersionIsRefusedAndLeftAlone) {
  const Schema schema;
  EXPECT_EQ(refusal(schema.url()), "opened");
  Postgres::instance().sql("UPDATE " + schema.name() + ".meta SET value='7'");
  const std::string said = refusal(schema.url());
  EXPECT_TRUE(has(said, "version 7")) << said;
  EXPECT_TRUE(has(said, "use a matching Tenure")) << said;
}

TEST(PostgresSchema, NeedsTheRightToBeMade) {
  const Schema schema;
  const std::string url = Postgres::instance().url("guest") + "&tenure_schema=" + schema.name();
  Postgres::instance().sql("REVOKE CREATE ON DATABASE postgres FROM public");
  const std::string said = refusal(url);
  EXPECT_TRUE(has(said, "CREATE SCHEMA")) << said;
  Postgres::instance().sql("CREATE SCHEMA " + schema.name() + " AUTHORIZATION guest");
  EXPECT_EQ(refusal(url), "opened");
}

TEST(PostgresUrl, ErrorsSayWhatToDo) {
  Postgres& server = Postgres::instance();
  const std::string port = std::to_string(server.port());
  const std::string nobody = refusal("postgres://tenure@127.0.0.1:1/postgres");
  EXPECT_TRUE(has(nobody, "Check the host and the port")) << nobody;
  const std::string database = refusal("postgres://tenure@127.0.0.1:" + port + "/nowhere");
  EXPECT_TRUE(has(database, "nowhere") && has(database, "Check the database")) << database;
  const std::string odd = refusal("postgres://tenure@127.0.0.1:" + port + "/postgres?colour=red");
  EXPECT_TRUE(has(odd, "the PostgreSQL URL is not valid")) << odd;
  EXPECT_TRUE(has(refusal("postgres://h/d?tenure_sheme=x"), "tenure_sheme"));
  EXPECT_TRUE(has(refusal("postgres://h/d?tenure_schema=a\"b"), "letters"));
}

TEST(PostgresUrl, PasswordsAreNotTold) {
  Postgres& server = Postgres::instance();
  const std::string at = "@127.0.0.1:" + std::to_string(server.port()) + "/postgres";
  for (const std::string& url :
       {"postgres://locked:hunter2" + at, std::string{"postgres://locked:hunter2@127.0.0.1:1/d"},
        "postgres://locked:hunter2" + at + "?bad=1", "postgres://locked:hunter2%zz" + at,
        std::string{"postgres://locked:hunter2@[::1/x"},
        "postgres://locked" + at + "?password=hunter2&sslmode=never"}) {
    const std::string said = refusal(url);
    EXPECT_NE(said, "opened");
    EXPECT_FALSE(has(said, "hunter2")) << said;
  }
  const Schema schema;
  server.sql("CREATE SCHEMA " + schema.name() + " AUTHORIZATION locked");
  const auto store =
      open_postgres("postgres://locked:opensesame" + at + "?tenure_schema=" + schema.name());
  for (const auto& [name, value] : store->facts()) EXPECT_FALSE(has(value, "opensesame")) << name;
}

TEST(PostgresStore, IsOneStoreForOneUrl) {
  const Schema schema;
  const auto first = tenure::store(schema.url());
  EXPECT_EQ(first, open_postgres(schema.url()));
  EXPECT_NE(first, open_postgres(schema.url(), true));
  EXPECT_TRUE(is_store(schema.url()));
  EXPECT_TRUE(is_store("postgresql://x/y"));
}

TEST(PostgresStore, TellsTheDoctor) {
  const Schema schema;
  const auto store = open_postgres(schema.url());
  const auto session = store->open_session({.label = "test"});
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : store->facts()) facts[name] = value;
  EXPECT_EQ(facts["kind"], "postgres");
  EXPECT_EQ(facts["schema name"], schema.name());
  EXPECT_EQ(facts["schema"], "2");
  EXPECT_EQ(facts["sessions"], "1");
  EXPECT_EQ(facts["fsync"], "off");
  EXPECT_EQ(facts["pooler"], "no");
}

TEST(PostgresStore, RefusesKeysThatAreTooLong) {
  const Schema schema;
  const auto store = open_postgres(schema.url());
  EXPECT_THROW(store->apply(txn({}, {Write::put(std::string(2601, 'k'), "")})), BadRequest);
  store->apply(txn({}, {Write::put(std::string(2600, '\xff'), "v")}));
  EXPECT_EQ(store->apply(txn({}, {}, {Range{}})).reads.at(0).size(), 1U);
}

TEST(PostgresStore, AddsUpWeightsInItsViews) {
  const Schema schema;
  const auto store = open_postgres(schema.url());
  for (const char* claims : {R"([["ram","permits",4,3]])", R"([["ram","permits",4]])",
                             R"([["ram","permits",4]])", R"([["disk"]])"}) {
    store->apply(txn({}, {Write::append("\x01x", R"({"session":"s","since":1,"claims":)" +
                                                     std::string{claims} + "}")}));
  }
  EXPECT_EQ(Postgres::instance().sql(
                "SELECT string_agg(path||' '||coalesce(take::text,'-')||' '||granted, ', ' "
                "ORDER BY token) FROM " +
                schema.name() + ".tickets"),
            "ram 3 true, ram 1 true, ram 1 false, disk - true");
}

// Any tool can read the views, and any transaction of the user can call fence().
TEST(PostgresStore, HasViewsAndAFence) {
  const Schema schema;
  Postgres& server = Postgres::instance();
  const auto store = open_postgres(schema.url());
  const auto session = store->open_session({.label = "demo"});
  const std::string row = R"({"session":")" + session->id() +
                          R"(","claims":[["book/3"]],"owner":"me","since":1700000000000000000})";
  store->apply(txn({}, {Write::append("\x01x", row)}));
  store->apply(txn({}, {Write::append("\x01x", row)}));
  const std::string from = " FROM " + schema.name() + ".";
  EXPECT_EQ(server.sql("SELECT path||' '||owner||' '||label" + from + "holders"), "book/3 me demo");
  EXPECT_EQ(server.sql("SELECT count(*)" + from + "waiters"), "1");
  EXPECT_EQ(server.sql("SELECT alive" + from + "sessions"), "t");
  const std::string fence = "SELECT " + schema.name() + ".fence(key)" + from + "entry";
  EXPECT_NO_THROW(server.sql(fence));
  EXPECT_THROW(server.sql("SELECT " + schema.name() + ".fence('gone')"), std::runtime_error);
}

}  // namespace
}  // namespace tenure::postgres
