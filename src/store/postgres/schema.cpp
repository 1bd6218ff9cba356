#include "store/postgres/schema.hpp"

#include <string>

#include "store/postgres/statements.hpp"
#include "store/postgres/views.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {
namespace {

constexpr int oldest_server = 130'000;

// 0: there is none.
int version_of(Connection& connection, const Target& target) {
  // By a query: to_regclass() may answer from a cache that is older than our lock.
  const Result there = connection.execute(
      "SELECT FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON "
      "n.oid=c.relnamespace WHERE n.nspname='" +
      target.schema + "' AND c.relname='meta'");
  if (there.rows() == 0) return 0;
  const Result version =
      connection.execute(target.in_schema("SELECT value FROM @.meta WHERE name='version'"));
  return version.rows() == 0 ? 0 : std::stoi(version.text(0, 0));
}

void make(Connection& connection, const Target& target) {
  const std::string name = target.quoted_schema();
  // Where a schema was made for us we need not be able to make one.
  const Result there = connection.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname='" +
                                          target.schema + "'");
  if (there.rows() == 0) connection.execute("CREATE SCHEMA " + name);
  for (const char* const sql : {tables_sql, take_sql, judge_sql, look_sql, raise_sql, tell_sql,
                                change_sql, fence_sql, views_sql}) {
    connection.execute(target.in_schema(sql));
  }
  // An epoch from the start: no revision is zero.
  connection.execute(target.in_schema(
      "UPDATE @.head SET revision = extract(epoch FROM clock_timestamp())::bigint << 30;"
      "INSERT INTO @.marker VALUES ('@.marker'::regclass)"));
}

void make_once(Connection& connection, const Target& target) {
  connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED");
  try {
    connection.execute("SET LOCAL synchronous_commit=on");
    connection.execute("SELECT pg_advisory_xact_lock(" + std::to_string(advisory_class) +
                       ", hashtext('" + target.schema + "'))");
    if (version_of(connection, target) == 0) make(connection, target);
    connection.execute("COMMIT");
  } catch (const Failed& failed) {
    if (!failed.broken()) connection.execute("ROLLBACK");
    if (failed.state() != "42501") throw;
    throw StoreError(std::string{failed.what()} + ": ask an administrator to run CREATE SCHEMA " +
                     target.quoted_schema() + " AUTHORIZATION \"" + PQuser(connection.get()) +
                     "\", or choose another schema with tenure_schema=");
  }
}

}  // namespace

std::int64_t open_schema(Connection& connection, const Target& target) {
  const int server = PQserverVersion(connection.get());
  if (server < oldest_server) {
    throw StoreError(target.shown + " is PostgreSQL " + std::to_string(server / 10'000) +
                     ": Tenure needs version 13 or later");
  }
  int version = version_of(connection, target);
  if (version == 0) {
    make_once(connection, target);
    version = version_of(connection, target);
  }
  if (version != schema_version) {
    throw StoreError(target.shown + ": the schema " + target.quoted_schema() + " has version " +
                     std::to_string(version) + ", but this program supports version " +
                     std::to_string(schema_version) +
                     ": use a matching Tenure, or choose another schema with tenure_schema=");
  }
  return std::stoll(
      connection
          .execute("SELECT oid FROM pg_catalog.pg_namespace WHERE nspname='" + target.schema + "'")
          .text(0, 0));
}

}  // namespace tenure::postgres
