// Creating the schema, refusing other schemas, and the facts about it.
#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <map>
#include <stdexcept>
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

// As a program of version 2 left it, with a role that may use it.
void downgrade(const Schema& schema) {
  std::string sql = R"sql(
    DROP ROUTINE @.change, @.change_all, @.look, @.tell, @.watch;
    CREATE PROCEDURE @.change(one bigint) LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION @.look(one bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
    CREATE FUNCTION @.tell(one bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
    REVOKE ALL ON ROUTINE @.change FROM PUBLIC;
    ALTER TABLE @.head RENAME TO later;
    CREATE TABLE @.head(revision bigint NOT NULL);
    INSERT INTO @.head SELECT max(newest) + (3::bigint << 30) FROM @.later;
    DROP TABLE @.later;
    GRANT USAGE ON SCHEMA @ TO guest;
    GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA @ TO guest;
    GRANT EXECUTE ON ALL ROUTINES IN SCHEMA @ TO guest;
    UPDATE @.meta SET value='2' WHERE name='version';
    UPDATE @.meta SET value='7' WHERE name='routines')sql";
  for (std::size_t at = 0; (at = sql.find('@', at)) != std::string::npos;) {
    sql.replace(at, 1, schema.name());
  }
  Postgres::instance().sql(sql);
}

TEST(PostgresSchema, OfTheVersionBeforeIsUpgradedByItsOwner) {
  const Schema schema;
  Postgres& server = Postgres::instance();
  open_postgres(schema.url(), true)->apply(txn({}, {Write::put("kept", "")}));
  downgrade(schema);
  const std::string guest = refusal(server.url("guest") + "&tenure_schema=" + schema.name());
  EXPECT_TRUE(has(guest, "version 2") && has(guest, "as its owner")) << guest;
  const std::string old_write = "UPDATE " + schema.name() + ".head SET revision = revision + 1";
  server.sql(old_write);
  const std::uint64_t last =
      std::stoull(server.sql("SELECT revision FROM " + schema.name() + ".head"));

  const auto store = open_postgres(schema.url(), true);
  const Outcome next = store->apply(txn({}, {Write::put("new", "")}, {Range::prefix("kept")}));
  EXPECT_GT(next.revision.value, last);
  EXPECT_EQ(next.reads.at(0).size(), 1U);
  EXPECT_THROW(server.sql(old_write), std::runtime_error) << "a program that is still running";
  EXPECT_EQ(server.sql("SELECT has_table_privilege('guest', '" + schema.name() +
                       ".head', 'UPDATE') AND bool_and(has_function_privilege('guest', p.oid, "
                       "'EXECUTE')) AND NOT bool_or(p.proname LIKE 'old%') FROM pg_proc AS p "
                       "WHERE p.pronamespace = '" +
                       schema.name() + "'::regnamespace"),
            "t");
  EXPECT_EQ(refusal(server.url("guest") + "&tenure_schema=" + schema.name()), "opened");
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
  EXPECT_EQ(facts["schema"], "3");
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
