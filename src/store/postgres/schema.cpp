#include "store/postgres/schema.hpp"

#include <string>

#include "store/postgres/routines.hpp"
#include "store/postgres/statements.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {
namespace {

constexpr int oldest_server = 130'000;

struct Found {
  int version = 0;        // 0: there is no schema.
  int routines = 1;       // Recorded in the schema since version 2.
  bool is_owner = false;  // Whether this role may replace the routines.
};

Found find(Connection& connection, const Target& target) {
  // With a query: to_regclass() may answer from a cache that is older than our lock.
  const Result there = connection.execute(
      "SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c "
      "JOIN pg_catalog.pg_namespace AS n ON n.oid=c.relnamespace WHERE n.nspname='" +
      target.schema + "' AND c.relname='meta'");
  Found found;
  if (there.rows() == 0) return found;
  found.is_owner = there.text(0, 0) == "t";
  const Result meta = connection.execute(target.in_schema("SELECT name, value FROM @.meta"));
  for (int row = 0; row < meta.rows(); ++row) {
    const std::string name = meta.text(row, 0);
    if (name == "version") found.version = std::stoi(meta.text(row, 1));
    if (name == "routines") found.routines = std::stoi(meta.text(row, 1));
  }
  return found;
}

bool is_outdated(const Found& found) {
  if (!found.is_owner) return false;
  return found.version == upgraded_version ||
         (found.version == schema_version && found.routines < routines_version);
}

void make_routines(Connection& connection, const Target& target) {
  for (const std::string& sql : routines_sql()) connection.execute(target.in_schema(sql));
  connection.execute(target.in_schema("INSERT INTO @.meta VALUES ('routines', '" +
                                      std::to_string(routines_version) +
                                      "') ON CONFLICT (name) DO UPDATE SET value=excluded.value"));
}

void upgrade(Connection& connection, const Target& target) {
  connection.execute(target.in_schema(begin_upgrade_sql()));
  make_routines(connection, target);
  connection.execute(target.in_schema(revoke_sql()));
  connection.execute(target.in_schema(end_upgrade_sql()));
  connection.execute(target.in_schema("UPDATE @.meta SET value='" + std::to_string(schema_version) +
                                      "' WHERE name='version'"));
}

void make(Connection& connection, const Target& target) {
  const std::string name = target.quoted_schema();
  // If the schema was created for us, we need no right to create one.
  const Result there = connection.execute("SELECT FROM pg_catalog.pg_namespace WHERE nspname='" +
                                          target.schema + "'");
  if (there.rows() == 0) connection.execute("CREATE SCHEMA " + name);
  connection.execute(target.in_schema(tables_sql()));
  connection.execute(target.in_schema("INSERT INTO @.meta VALUES ('version', '" +
                                      std::to_string(schema_version) + "')"));
  make_routines(connection, target);
  // Not when routines are replaced: roles that were never granted EXECUTE may depend on PUBLIC's
  // right.
  connection.execute(target.in_schema(revoke_sql()));
  connection.execute(target.in_schema("INSERT INTO @.marker VALUES ('@.marker'::regclass)"));
}

void make_once(Connection& connection, const Target& target) {
  connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED");
  Found found;
  try {
    connection.execute("SET LOCAL synchronous_commit=on; SET LOCAL search_path=pg_catalog,pg_temp");
    connection.execute("SELECT pg_advisory_xact_lock(" + std::to_string(advisory_class) +
                       ", hashtext('" + target.schema + "'))");
    found = find(connection, target);
    if (found.version == 0) make(connection, target);
    if (is_outdated(found)) {
      found.version == schema_version ? make_routines(connection, target)
                                      : upgrade(connection, target);
    }
    connection.execute("COMMIT");
  } catch (const Failed& failed) {
    if (!failed.broken()) connection.execute("ROLLBACK");
    if (failed.state() != "42501") throw;
    // Another role owns some of the routines and has to replace them: docs/clusters.md.
    if (found.version != 0) return;
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
  Found found = find(connection, target);
  if (found.version == 0 || is_outdated(found)) {
    make_once(connection, target);
    found = find(connection, target);
  }
  if (found.version == upgraded_version) {
    throw StoreError(
        target.shown + ": the schema " + target.quoted_schema() + " has version " +
        std::to_string(found.version) +
        ", and this user does not own it: run 'tenure doctor' once as its owner, which "
        "upgrades it, when no older program uses it any more");
  }
  if (found.version != schema_version) {
    throw StoreError(target.shown + ": the schema " + target.quoted_schema() + " has version " +
                     std::to_string(found.version) + ", but this program supports version " +
                     std::to_string(schema_version) +
                     ": use a matching Tenure, or choose another schema with tenure_schema=");
  }
  return std::stoll(
      connection
          .execute("SELECT oid FROM pg_catalog.pg_namespace WHERE nspname='" + target.schema + "'")
          .text(0, 0));
}

}  // namespace tenure::postgres
