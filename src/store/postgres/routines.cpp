// The tables and routines of a store's schema. Fragments that several routines share exist once.
#include "store/postgres/routines.hpp"

#include <string_view>

#include "store/postgres/buckets.hpp"
#include "store/postgres/flow_views.hpp"
#include "store/postgres/notices.hpp"
#include "store/postgres/statements.hpp"
#include "store/postgres/views.hpp"

namespace tenure::postgres {
namespace {

constexpr std::string_view tables = R"sql(
CREATE TABLE @.meta(name text PRIMARY KEY, value text NOT NULL);
CREATE UNLOGGED TABLE @.marker(own oid NOT NULL);
CREATE TABLE @.entry(
  key bytea PRIMARY KEY,
  value bytea NOT NULL,
  created bigint NOT NULL,
  changed bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=1000);
CREATE TABLE @.session(id text PRIMARY KEY, deadline timestamptz NOT NULL);
)sql";

// Each row begins on a page of its own, so that rows are pruned by themselves, and no two writers
// meet in a page: the filler leaves room for no second one, and is gone after the first update,
// which stays on the page.
std::string head_sql(std::string_view newest) {
  return std::string{R"sql(
CREATE TABLE @.head(bucket bigint PRIMARY KEY, newest bigint NOT NULL, filler text) WITH (
  fillfactor=10, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
ALTER TABLE @.head ALTER COLUMN filler SET STORAGE PLAIN;
INSERT INTO @.head SELECT b, )sql"}
      .append(newest)
      .append(R"sql(, repeat(' ', 700)
  FROM generate_series(0::bigint, )sql")
      .append(std::to_string(bucket_count - 1))
      .append(R"sql(::bigint) AS b;
UPDATE @.head SET filler = NULL;
)sql");
}

// --- take

// The entries of range i, as a query.
std::string entries_of_range(std::string_view direction, std::string_view into,
                             std::string_view only_if = "") {
  return std::string{"SELECT e.key, e.value, e.created, e.changed "}
      .append(into)
      .append("FROM @.entry AS e WHERE ")
      .append(only_if)
      .append(R"sql(e.key >= froms[i] AND e.key < tos[i]
          AND (stamps[i] IS NULL OR length(e.key) < 8
               OR substr(e.key, length(e.key) - 7) < stamps[i])
          ORDER BY e.key )sql")
      .append(direction);
}

// Appends what was found to the results. Each use has text of its own: PL/pgSQL fixes the types of
// an expression at its first run, and `got` has single values in one case and arrays in the other.
std::string append_got(std::string_view place) {
  return std::string{"      places := places || "}.append(place).append(R"sql(;
      keys := keys || got.key;
      vals := vals || got.value;
      made := made || got.created;
      put := put || got.changed;
)sql");
}

// Most ranges ask for one entry, the first or the last: a small query for each range costs a
// quarter of what one large query over all of them costs.
std::string take() {
  constexpr std::string_view each = "LIMIT limits[i] OFFSET skips[i]";
  return std::string{R"sql(
CREATE OR REPLACE FUNCTION @.take(
  froms bytea[], tos bytea[], limits bigint[], skips bigint[], backwards boolean[], stamps bytea[],
  OUT places bigint[], OUT keys bytea[], OUT vals bytea[], OUT made bigint[], OUT put bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  got record;
BEGIN
  FOR i IN 1 .. cardinality(froms) LOOP
    IF limits[i] = 1 AND skips[i] = 0 THEN
      IF NOT backwards[i] THEN
        )sql"} +
         entries_of_range("LIMIT 1", "INTO got ") + ";\n      ELSE\n        " +
         entries_of_range("DESC LIMIT 1", "INTO got ") + R"sql(;
      END IF;
      CONTINUE WHEN NOT FOUND;
)sql" + append_got("i::bigint") +
         R"sql(    ELSE
      SELECT array_fill(i::bigint, ARRAY[count(*)::int]) AS place, array_agg(one.key) AS key,
             array_agg(one.value) AS value, array_agg(one.created) AS created,
             array_agg(one.changed) AS changed
      INTO got FROM (
        ()sql" +
         entries_of_range(each, "", "NOT backwards[i] AND ") + ")\n        UNION ALL\n        (" +
         entries_of_range(std::string{"DESC "}.append(each), "", "backwards[i] AND ") +
         R"sql()) AS one(key, value, created, changed);
      CONTINUE WHEN got.key IS NULL;
)sql" + append_got("got.place") +
         R"sql(    END IF;
  END LOOP;
END $body$;
)sql";
}

// --- judge, look, raise_epoch

constexpr std::string_view judge = R"sql(
CREATE OR REPLACE FUNCTION @.judge(kinds bigint[], froms bytea[], tos bytea[], revisions bigint[])
RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  seen bigint;
BEGIN
  FOR i IN 1 .. cardinality(kinds) LOOP
    IF kinds[i] = 3 THEN
      PERFORM FROM @.entry AS e
        WHERE e.key >= froms[i] AND e.key < tos[i] AND e.changed > revisions[i] LIMIT 1;
      IF FOUND THEN RETURN false; END IF;
    ELSE
      SELECT e.changed INTO seen FROM @.entry AS e WHERE e.key = froms[i];
      IF (kinds[i] = 0) = FOUND OR (kinds[i] = 2 AND seen <> revisions[i]) THEN
        RETURN false;
      END IF;
    END IF;
  END LOOP;
  RETURN true;
END $body$;
)sql";

constexpr std::string_view look = R"sql(
CREATE OR REPLACE FUNCTION @.look(
  kinds bigint[], guard_froms bytea[], guard_tos bytea[], revisions bigint[],
  froms bytea[], tos bytea[], limits bigint[], skips bigint[], backwards boolean[], stamps bytea[],
  bucket bigint,
  OUT committed boolean, OUT revision bigint, OUT clock bigint,
  OUT places bigint[], OUT keys bytea[], OUT vals bytea[], OUT made bigint[], OUT put bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  committed := @.judge(kinds, guard_froms, guard_tos, revisions);
  SELECT h.newest INTO revision FROM @.head AS h WHERE h.bucket = look.bucket;
  IF cardinality(froms) > 0 THEN
    SELECT t.places, t.keys, t.vals, t.made, t.put INTO places, keys, vals, made, put
    FROM @.take(froms, tos, limits, skips, backwards, array_replace(stamps,
      '\xffffffffffffffff', NULL)) AS t;
  END IF;
  clock := extract(epoch FROM clock_timestamp()) * 1000000000;
END $body$;
)sql";

// Locks rows of `head`, lowest first. After it every statement sees all earlier commits of them.
std::string lock_rows(std::string_view condition) {
  return std::string{"PERFORM FROM @.head AS h"}.append(condition).append(
      " ORDER BY h.bucket FOR UPDATE;\n");
}

// The new epoch is durable before any of its revisions is given. Plus two: a count that ran over
// has taken the next epoch, perhaps in a relaxed commit that was lost.
std::string raise_epoch() {
  return std::string{R"sql(
CREATE OR REPLACE PROCEDURE @.raise_epoch() LANGUAGE plpgsql AS $body$
BEGIN
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'),
    'off', 'on'), true);
  )sql"} +
         lock_rows("") +
         R"sql(  IF NOT EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid) THEN
    UPDATE @.head AS h SET newest = (SELECT greatest((max(a.newest) >> 30) + 2,
      extract(epoch FROM clock_timestamp())::bigint) << 30 FROM @.head AS a);
    DELETE FROM @.marker;
    INSERT INTO @.marker VALUES ('@.marker'::regclass);
  END IF;
  COMMIT AND CHAIN;
END $body$;
)sql";
}

// --- change and change_all

// Locks the rows of the buckets, all of them if none is named; `alone` does it for a single one.
// Both set base: the newest revision in these orders, or the next one, as `alone` says.
std::string lock_head(std::string_view alone) {
  return std::string{R"sql(  LOOP
    IF current_setting('transaction_isolation') || current_setting('enable_seqscan')
       || current_setting('search_path') <> 'read committedoffpg_catalog, pg_temp' THEN
      IF current_setting('transaction_isolation') <> 'read committed' THEN
        ROLLBACK;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
      END IF;
      PERFORM set_config('search_path', 'pg_catalog, pg_temp', true),
              set_config('enable_seqscan', 'off', true),
              set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true);
    END IF;
    IF cardinality(buckets) = 1 THEN
      UPDATE @.head AS h SET newest = )sql"}
      .append(alone)
      .append(R"sql(
        WHERE h.bucket = buckets[1]
          AND EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid)
        RETURNING h.newest, h.bucket, extract(epoch FROM clock_timestamp()) * 1000000000,
          pg_try_advisory_xact_lock()sql")
      .append(std::to_string(watching_class) + ", " + watching_sql("h.bucket"))
      .append(R"sql(),
          set_config('synchronous_commit', 'off', true)
        INTO base, lowest, clock, unwatched, setting;
    ELSE
      )sql")
      .append(lock_rows(" WHERE (h.bucket = ANY (buckets) OR cardinality(buckets) = 0)\n"
                        "        AND EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid)"))
      .append(R"sql(      SELECT max(h.newest), min(h.bucket),
          extract(epoch FROM clock_timestamp()) * 1000000000, false,
          set_config('synchronous_commit', 'off', true)
        INTO base, lowest, clock, unwatched, setting
        FROM @.head AS h WHERE (h.bucket = ANY (buckets) OR cardinality(buckets) = 0)
          AND EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid);
    END IF;
    EXIT WHEN base IS NOT NULL;
    CALL @.raise_epoch();
  END LOOP;
)sql");
}

// Gives all locked rows the same newest revision.
std::string raise_rows(std::string_view newest) {
  return std::string{"UPDATE @.head AS h SET newest = "}
      .append(newest)
      .append(" WHERE (h.bucket = ANY (buckets) OR cardinality(buckets) = 0) AND h.newest <> ")
      .append(newest)
      .append(";\n");
}

// Commits without waiting for the disk, then makes the commit durable if the condition holds.
std::string commit_and_sync(std::string_view durable) {
  return std::string{"  COMMIT;\n  IF "}
      .append(durable)
      .append(" THEN\n    PERFORM ")
      .append(sync_calls)
      .append(";\n  END IF;\nEND $body$;\n");
}

// Of an apply that writes nothing in several orders all rows become equal: later revisions in each
// of these orders are then larger than the one that it returns. The buckets of `told` are those of
// the removes, puts and appends, in this order (notices.hpp).
std::string change() {
  return std::string{R"sql(
CREATE OR REPLACE PROCEDURE @.change(
  kinds bigint[], guard_froms bytea[], guard_tos bytea[], revisions bigint[],
  removes bytea[], put_keys bytea[], put_values bytea[], append_keys bytea[], append_values bytea[],
  froms bytea[], tos bytea[], limits bigint[], skips bigint[], backwards boolean[], stamps bytea[],
  durable boolean, buckets bigint[], told bigint[],
  INOUT committed boolean, INOUT revision bigint, INOUT clock bigint,
  INOUT places bigint[], INOUT keys bytea[], INOUT vals bytea[], INOUT made bigint[],
  INOUT put bigint[])
LANGUAGE plpgsql AS $body$
DECLARE
  unwatched boolean;
  setting text;
  base bigint;
  lowest bigint;
  writes boolean;
BEGIN
)sql"} + lock_head(next_sql("h.newest", "h.bucket")) +
         R"sql(  revision := base;
  committed := cardinality(kinds) = 0 OR @.judge(kinds, guard_froms, guard_tos, revisions);
  writes := committed AND cardinality(told) > 0;
  IF cardinality(buckets) <> 1 THEN
    IF writes THEN
      revision := )sql" +
         next_sql("base", "lowest") + R"sql(;
    END IF;
    )sql" +
         raise_rows("revision") +
         R"sql(  ELSIF NOT writes THEN
    UPDATE @.head AS h SET newest = h.newest - )sql" +
         std::to_string(revision_step) + R"sql(
      WHERE h.bucket = lowest RETURNING h.newest INTO revision;
  END IF;
  IF writes THEN
    IF cardinality(removes) = 1 THEN
      DELETE FROM @.entry AS e WHERE e.key = removes[1];
    ELSIF cardinality(removes) > 0 THEN
      DELETE FROM @.entry AS e WHERE e.key = ANY (removes);
    END IF;
    IF cardinality(append_keys) = 1 THEN
      INSERT INTO @.entry
        VALUES (append_keys[1] || int8send(revision), append_values[1], revision, revision);
    ELSIF cardinality(append_keys) > 0 THEN
      INSERT INTO @.entry SELECT w.key || int8send(revision), w.value, revision, revision
        FROM unnest(append_keys, append_values) AS w(key, value);
    END IF;
    IF cardinality(put_keys) > 0 THEN
      INSERT INTO @.entry AS e SELECT w.key, w.value, revision, revision
        FROM unnest(put_keys, put_values) AS w(key, value)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, changed = excluded.changed;
    END IF;
    IF NOT unwatched THEN
      PERFORM @.tell(revision, removes || put_keys, append_keys, told);
    END IF;
  END IF;
  IF cardinality(froms) > 0 THEN
    SELECT t.places, t.keys, t.vals, t.made, t.put INTO places, keys, vals, made, put
    FROM @.take(froms, tos, limits, skips, backwards, array_replace(stamps,
      '\xffffffffffffffff', CASE WHEN writes THEN int8send(revision) END)) AS t;
  END IF;
)sql" + commit_and_sync("durable AND writes");
}

// Many transactions in one. All are judged before any is made, so none may depend on what another
// one writes. OFFSET 0: each guard is an index scan; without it the server may read the whole table
// once per batch, to hash it. Kinds are those of Write. Each transaction that passes has a revision
// of its own, the others 0.
std::string change_all() {
  const auto nth_sql = [](const std::string& place) {
    const std::string bits = std::to_string(bucket_bits);
    return "(((base >> " + bits + ") + " + place + ") << " + bits + ") | lowest";
  };
  return std::string{R"sql(
CREATE OR REPLACE PROCEDURE @.change_all(
  total bigint,
  guard_txns bigint[], kinds bigint[], guard_froms bytea[], guard_tos bytea[],
  guard_revisions bigint[],
  write_txns bigint[], write_kinds bigint[], write_keys bytea[], write_values bytea[],
  buckets bigint[], told bigint[],
  INOUT base bigint, INOUT clock bigint, INOUT revisions bigint[])
LANGUAGE plpgsql AS $body$
DECLARE
  unwatched boolean;
  setting text;
  failed bigint[];
  last bigint;
  lowest bigint;
BEGIN
)sql"} + lock_head("h.newest") +
         R"sql(  SELECT coalesce(array_agg(DISTINCT g.txn), '{}') INTO failed
  FROM unnest(guard_txns, kinds, guard_froms, guard_tos, guard_revisions)
    AS g(txn, kind, start, behind, revision)
  WHERE CASE g.kind
    WHEN 0 THEN EXISTS (SELECT FROM @.entry AS e WHERE e.key = g.start OFFSET 0)
    WHEN 1 THEN NOT EXISTS (SELECT FROM @.entry AS e WHERE e.key = g.start OFFSET 0)
    WHEN 2 THEN NOT EXISTS (SELECT FROM @.entry AS e
                            WHERE e.key = g.start AND e.changed = g.revision OFFSET 0)
    ELSE EXISTS (SELECT FROM @.entry AS e
                 WHERE e.key >= g.start AND e.key < g.behind AND e.changed > g.revision
                 OFFSET 0) END;
  SELECT array_agg(CASE WHEN s.passed THEN )sql" +
         nth_sql("s.place") +
         R"sql( ELSE 0 END ORDER BY s.txn),
         CASE WHEN max(s.place) > 0 THEN )sql" +
         nth_sql("max(s.place)") + R"sql( ELSE base END
  INTO revisions, last
  FROM (SELECT t.txn, t.passed, count(*) FILTER (WHERE t.passed) OVER (ORDER BY t.txn) AS place
        FROM (SELECT n AS txn, NOT n = ANY (failed) AS passed
              FROM generate_series(1::bigint, total) AS n) AS t) AS s;
  IF last > base THEN
    IF 2 = ANY (write_kinds) THEN
      DELETE FROM @.entry AS e WHERE e.key = ANY (ARRAY(
        SELECT w.key FROM unnest(write_txns, write_kinds, write_keys) AS w(txn, kind, key)
        WHERE w.kind = 2 AND revisions[w.txn] > 0));
    END IF;
    INSERT INTO @.entry AS e
      SELECT CASE w.kind WHEN 1 THEN w.key || int8send(w.revision) ELSE w.key END, w.value,
             w.revision, w.revision
      FROM (SELECT u.kind, u.key, u.value, revisions[u.txn] AS revision
            FROM unnest(write_txns, write_kinds, write_keys, write_values)
              AS u(txn, kind, key, value) WHERE u.kind < 2) AS w
      WHERE w.revision > 0
      ON CONFLICT (key) DO UPDATE SET value = excluded.value, changed = excluded.changed;
    IF NOT unwatched THEN
      PERFORM @.tell(last, array_agg(CASE w.kind WHEN 1 THEN w.key || int8send(revisions[w.txn])
                                       ELSE w.key END), '{}', array_agg(w.bucket))
      FROM unnest(write_txns, write_kinds, write_keys, told) AS w(txn, kind, key, bucket)
      WHERE revisions[w.txn] > 0;
    END IF;
  END IF;
  )sql" + raise_rows("last") +
         commit_and_sync("last > base");
}

constexpr std::string_view routine_names =
    "@.take, @.judge, @.look, @.raise_epoch, @.tell, @.watch, @.change, @.change_all, @.fence, "
    "@.body, @.moment, @.flow_number, @.flow_varint, @.flow_text, @.flow_entry, @.flow_record";

}  // namespace

std::string tables_sql() {
  return std::string{tables} +
         head_sql("(SELECT extract(epoch FROM clock_timestamp())::bigint << 30)");
}

std::vector<std::string> routines_sql() {
  return {take(),     std::string{judge}, std::string{look}, raise_epoch(),
          tell_sql(), watch_sql(),        change(),          change_all(),
          fence_sql,  views_sql,          flow_views_sql()};
}

// Roles are granted what they need (docs/clusters.md). Without this, PUBLIC could call the
// routines.
std::string revoke_sql() {
  return std::string{"REVOKE ALL ON ROUTINE "}.append(routine_names).append(" FROM PUBLIC;");
}

// Programs of version 2 that are still running find neither the column that they update nor the
// routines that they call. The new revisions begin in an epoch of their own.
std::string begin_upgrade_sql() {
  return std::string{R"sql(
LOCK TABLE @.head IN ACCESS EXCLUSIVE MODE;
ALTER TABLE @.head RENAME TO old_head;
ALTER ROUTINE @.change RENAME TO old_change;
DROP ROUTINE @.look, @.tell;
DROP ROUTINE IF EXISTS @.change_all;
DROP ROUTINE IF EXISTS @.watch;
)sql"} + head_sql(R"sql((SELECT greatest((o.revision >> 30) + 2,
  extract(epoch FROM clock_timestamp())::bigint) << 30 FROM @.old_head AS o))sql");
}

// Who might use the old table and routines may use the new ones.
std::string end_upgrade_sql() {
  return std::string{R"sql(
DO $body$
DECLARE
  one record;
BEGIN
  FOR one IN
    SELECT 'GRANT ' || a.privilege_type || ' ON @.head TO ' AS words, a.grantee
      FROM pg_class AS c, aclexplode(c.relacl) AS a WHERE c.oid = '@.old_head'::regclass
    UNION ALL
    SELECT 'GRANT EXECUTE ON ROUTINE )sql"}
      .append(routine_names)
      .append(R"sql( TO ', a.grantee
      FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
      WHERE p.proname = 'old_change' AND p.pronamespace = '@'::regnamespace
  LOOP
    EXECUTE one.words || CASE WHEN one.grantee = 0 THEN 'PUBLIC'
      ELSE quote_ident(pg_get_userbyid(one.grantee)) END;
  END LOOP;
END $body$;
DROP TABLE @.old_head;
DROP ROUTINE @.old_change;
)sql");
}

}  // namespace tenure::postgres
