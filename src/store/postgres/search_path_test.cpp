// A user who may create functions and operators in `public` can't make others run them through
// Tenure: neither the role that locks, nor readers of the views or callers of fence().
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "store/conformance.hpp"
#include "store/postgres/postgres_store.hpp"
#include "store/postgres/routines.hpp"
#include "tests/kit/pgbouncer.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using conformance::Bell;
using conformance::txn;
using kit::PgBouncer;
using kit::Postgres;

constexpr std::string_view database = "planted";

// Creates an operator or function of one or two arguments for every combination of types that
// pg_catalog lacks: PostgreSQL prefers an exact match in any schema. Running one raises an error,
// and its result type is wrong too; either fails the statement that used it.
constexpr const char* plant_sql = R"sql(
DO $do$
DECLARE
  types text[] := '{bigint,integer,text,varchar,name,oid,numeric,float8,bytea,interval,timestamptz,
                    jsonb,regnamespace,regclass,boolean,bigint[],bytea[]}';
  one record;
BEGIN
  FOR one IN SELECT l, r FROM unnest(types) AS l, unnest(types) AS r LOOP
    EXECUTE format($$CREATE FUNCTION public.planted(%s, %s) RETURNS jsonpath LANGUAGE plpgsql AS
      'BEGIN RAISE EXCEPTION ''planted code ran as %%'', current_user; END'$$, one.l, one.r);
  END LOOP;
  FOR one IN SELECT o, l, r
             FROM unnest('{||,*,+,-,/,<,<=,=,<>,>=,>,<<,>>,->,->>}'::text[]) AS o,
                  unnest(types) AS l, unnest(types) AS r
             WHERE NOT EXISTS (SELECT FROM pg_operator WHERE oprname = o AND oprleft = l::regtype
                               AND oprright = r::regtype) LOOP
    EXECUTE format('CREATE OPERATOR public.%s (FUNCTION = public.planted, LEFTARG = %s, '
                   'RIGHTARG = %s)', one.o, one.l, one.r);
  END LOOP;
  FOR one IN SELECT f, l, r
             FROM unnest('{length,substr,encode,convert_from,to_timestamp,set_config,pg_notify,
                           current_setting,pg_try_advisory_xact_lock,pg_advisory_xact_lock,hashtext,
                           int8send,cardinality,array_replace,string_agg,starts_with,replace,
                           pg_advisory_lock_shared,pg_has_role}'::text[]) AS f,
                  unnest(types) AS l, unnest(types || NULL) AS r
             WHERE NOT EXISTS (SELECT FROM pg_proc WHERE proname = f AND proargtypes::oid[]::text =
               CASE WHEN r IS NULL THEN format('[0:0]={%s}', l::regtype::oid)
                    ELSE format('[0:1]={%s,%s}', l::regtype::oid, r::regtype::oid) END) LOOP
    EXECUTE format($$CREATE FUNCTION public.%I(%s) RETURNS jsonpath LANGUAGE plpgsql AS
      'BEGIN RAISE EXCEPTION ''planted code ran as %%'', current_user; END'$$, one.f,
      concat_ws(',', one.l, one.r));
  END LOOP;
END $do$;
)sql";

// A database in which `guest` may create objects in `public`, and has.
Postgres& server() {
  static Postgres& made = [] -> Postgres& {
    Postgres& one = Postgres::instance();
    one.sql("CREATE DATABASE planted");
    one.sql("GRANT CREATE ON SCHEMA public TO guest", "tenure", database);
    one.sql(plant_sql, "guest", database);
    return one;
  }();
  return made;
}

std::string ask(const std::string& sql) { return server().sql(sql, "tenure", database); }

// Through a port: the server's, or a pooler's.
std::string url_of(int port, std::string_view schema) {
  return "postgres://tenure@127.0.0.1:" + std::to_string(port) + "/" + std::string{database} +
         "?sslmode=disable&gssencmode=disable&tenure_schema=" + std::string{schema};
}

// Locks, waits and releases as spaces do, and through change() and look() as well.
void use_everything(const std::string& url) {
  const auto store = open_postgres(url, true);
  const auto session = store->open_session({.label = "demo"});
  EXPECT_TRUE(store->alive(session->id()));
  const std::string prefix = session->id() + "/";  // New with each call.
  Range line = Range::prefix(prefix).last();
  line.before = this_apply;
  const Txn ticket = txn({session->guard()}, {Write::append(prefix, "{}")}, {line});
  const Revision first = store->apply(ticket).revision;
  EXPECT_EQ(store->apply(ticket).reads.at(0).size(), 1U);
  Bell bell;
  WatchFor what;
  what.ranges = {Range::prefix(prefix), Range::key("greeting")};
  what.after = store->apply({}).revision;
  const auto watch = store->watch(what, bell.notice());
  const Range page = Range::prefix(prefix).first(3);
  EXPECT_EQ(store->apply(txn({}, {}, {page, line})).reads.at(0).size(), 2U);
  const Txn mixed =
      txn({Guard::empty(Range::prefix("x")), Guard::present(prefix + stamp(first))},
          {Write::put("greeting", "hello"), Write::append("other/", "")}, {line, page});
  EXPECT_TRUE(store->apply(mixed).committed);
  bell.wait();
  EXPECT_TRUE(
      store->apply(txn({Guard::present("greeting")}, {Write::remove("greeting")})).committed);
  // Several in one call.
  for (const Guard& guard : {Guard::absent("none"), Guard::present(prefix + stamp(first)),
                             Guard::unchanged(prefix + stamp(first), first),
                             Guard::quiet(Range::prefix(prefix), store->apply({}).revision)}) {
    store->apply_then(txn({guard}, {Write::append("then/", ""), Write::remove("none")}), {});
  }
  store->flush();
  EXPECT_FALSE(store->facts().empty());
}

// With a connection that has the default search_path, as an administrator has.
void read_views(const std::string& url, const std::string& schema) {
  const auto store = open_postgres(url, true);
  const auto session = store->open_session({.label = "demo"});
  const std::string row =
      R"({"session":")" + session->id() + R"(","claims":[["book/3"]],"since":1700000000000000000})";
  store->apply(txn({}, {Write::append("\x01x", row)}));
  EXPECT_EQ(ask("SELECT path || ' ' || label || ' ' || extract(year FROM since)::text FROM " +
                schema + ".holders"),
            "book/3 demo 2023");
  EXPECT_EQ(ask("SELECT alive FROM " + schema + ".sessions WHERE session='" + session->id() + "'"),
            "t");
  EXPECT_NO_THROW(ask("SELECT " + schema + ".fence(key, changed) FROM " + schema + ".entry"));
}

TEST(PostgresSearchPath, PlantedCodeIsNotRun) {
  const std::string url = url_of(server().port(), "direct");
  use_everything(url);
  read_views(url, "direct");
}

// Behind a pooler, where settings of a connection do not last.
TEST(PostgresSearchPath, PlantedCodeIsNotRunBehindAPooler) {
  const PgBouncer pooler{server()};
  const std::string url = url_of(pooler.port(), "pooled");
  use_everything(url);
  read_views(url, "pooled");
  ask("DELETE FROM pooled.marker");  // The next apply raises the epoch.
  use_everything(url);
}

constexpr const char* unset_sql =
    "SELECT count(*) FROM pg_proc WHERE pronamespace='@'::regnamespace::oid AND prokind='f' "
    "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)";

std::string in(const std::string& schema, std::string sql) {
  for (std::size_t at = 0; (at = sql.find('@')) != std::string::npos;) sql.replace(at, 1, schema);
  return sql;
}

TEST(PostgresSearchPath, IsSetByEveryFunctionAndNothingIsForPublic) {
  std::ignore = open_postgres(url_of(server().port(), "rights"), true);
  EXPECT_EQ(ask(in("rights", unset_sql)), "0");
  EXPECT_EQ(ask(in("rights",
                   "SELECT count(*) FROM pg_proc WHERE pronamespace='@'::regnamespace::oid "
                   "AND has_function_privilege('guest', oid, 'EXECUTE')")),
            "0");
}

// As earlier releases made it: no function had a search_path, and no version of the routines was
// recorded.
void make_old(const std::string& schema) {
  ask(in(schema, R"sql(
DO $do$
DECLARE
  one regprocedure;
BEGIN
  FOR one IN SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace='@'::regnamespace::oid
             AND prokind='f' LOOP
    EXECUTE pg_catalog.format('ALTER FUNCTION %s RESET ALL', one);
  END LOOP;
  DELETE FROM @.meta WHERE name='routines';
END $do$)sql"));
}

TEST(PostgresSearchPath, OfOlderRoutinesIsSetByTheOwner) {
  const std::string url = url_of(server().port(), "older");
  std::ignore = open_postgres(url, true);
  make_old("older");
  EXPECT_NE(ask(in("older", unset_sql)), "0");
  // A role that does not own the routines uses them as they are.
  ask("GRANT USAGE ON SCHEMA older TO guest;"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA older TO guest;"
      "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA older TO guest");
  const auto guest = open_postgres(server().url("guest", database) + "&tenure_schema=older", true);
  EXPECT_TRUE(guest->apply(txn({}, {Write::put("a", "")})).committed);
  EXPECT_NE(ask(in("older", unset_sql)), "0");
  use_everything(url);
  EXPECT_EQ(ask(in("older", unset_sql)), "0");
  // Granted rights stay, and existing clients continue.
  EXPECT_TRUE(guest->apply(txn({}, {Write::put("a", "")}, {Range::key("a")})).committed);
  EXPECT_EQ(ask("SELECT value FROM older.meta WHERE name='routines'"),
            std::to_string(routines_version));
}

}  // namespace
}  // namespace tenure::postgres
