// statements.hpp: the tables of a store, the two routines that an apply is one call of, and the
// statements of batches.
//
// In all of these texts @ stands for the schema's quoted name.
//
//   head     one row: the newest revision. Whoever writes updates it first, so that commits are in
//            the order of revisions, and whoever holds its lock sees all earlier ones. Its old
//            versions are cleared away when they fill a tenth of a page: all are looked at.
//   marker   unlogged, so a crash of the server, or of one backend, empties it: then relaxed
//            commits may have been lost, and the epoch is raised. It names its own table, so that a
//            dump that was restored elsewhere does not count as the same store.
//   entry    keys and values
//   session  until when each session lives, on the server's clock
//
// PL/pgSQL prepares each of its expressions anew in every transaction, so change() has few: what
// can be is in the first UPDATE.
//
// change() is a procedure, so that it commits by itself: the lock on `head` is never held while
// the server waits for more from a client, which may have been stopped or cut off in the middle.
// Isolation is set in it, whatever the server's default: every statement after the update of
// `head` must see what was committed while that waited. The commit is a relaxed one, which gives
// the lock back without waiting for the disk; the message to nobody that follows it is a commit as
// well, and a durable one, which all before it in the log then are too.
//
// look() is for what only reads: a stable function runs on the snapshot of the statement that calls
// it, whatever the isolation.
//
// Whoever wants to be told of changes holds an advisory lock, shared. The writer tries to have it
// alone, until its commit: either it can't, and notifies, or the watcher gets its lock after the
// commit, and then sees it.
//
// What a lock is, a ticket that is appended while its session is there and an entry that is
// removed, is not a call of change() but a batch (batch.hpp) of the statements below.
//
// Names without a schema are looked up in pg_catalog only. A user who may create functions or
// operators in `public` could otherwise add one that fits our arguments better than those of
// pg_catalog do, and our role would run it.
// Each function sets its own search_path, because others call it too: fence() and the views' ones
// run as whoever reads them. A procedure that commits can't have such a clause, so change() sets it
// for its transaction; raise_epoch() is only called by change(). Our own connections set it once,
// but behind a pooler no setting lasts: what is not in a function, before change() has set it or
// after its COMMIT has reset it, uses only operators whose types match exactly (||, <> of text,
// float8 * float8), because an exact match in pg_catalog comes first.
//
// take() leaves the order of what it found to the caller, who has to sort it.
#pragma once

namespace tenure::postgres {

// Of the tables, and of the keys of tickets. 2: the path before the group in those.
inline constexpr int schema_version = 2;
// Of the routines and views in such a schema: a later one takes the same calls. 2: search_path.
// 3: change_all. 4: anchors in the views.
inline constexpr int routines_version = 4;
// A revision is epoch << count_bits | count, as in the SQL below.
inline constexpr unsigned count_bits = 30;
// First of the two numbers of our advisory locks ("TNUR"); the other is the schema's.
inline constexpr int advisory_class = 0x544e5552;

inline constexpr const char* tables_sql = R"sql(
CREATE TABLE @.meta(name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE @.head(revision bigint NOT NULL) WITH (fillfactor=10,
  autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000);
CREATE UNLOGGED TABLE @.marker(own oid NOT NULL);
CREATE TABLE @.entry(
  key bytea PRIMARY KEY,
  value bytea NOT NULL,
  created bigint NOT NULL,
  changed bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_threshold=1000);
CREATE TABLE @.session(id text PRIMARY KEY, deadline timestamptz NOT NULL);
INSERT INTO @.head VALUES (0);
)sql";

// Most ranges ask for one entry, the first or the last: a small query each is a quarter of what one
// large query over all of them costs.
inline constexpr const char* take_sql = R"sql(
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
        SELECT e.key, e.value, e.created, e.changed INTO got FROM @.entry AS e
          WHERE e.key >= froms[i] AND e.key < tos[i]
            AND (stamps[i] IS NULL OR length(e.key) < 8
                 OR substr(e.key, length(e.key) - 7) < stamps[i])
          ORDER BY e.key LIMIT 1;
      ELSE
        SELECT e.key, e.value, e.created, e.changed INTO got FROM @.entry AS e
          WHERE e.key >= froms[i] AND e.key < tos[i]
            AND (stamps[i] IS NULL OR length(e.key) < 8
                 OR substr(e.key, length(e.key) - 7) < stamps[i])
          ORDER BY e.key DESC LIMIT 1;
      END IF;
      CONTINUE WHEN NOT FOUND;
      places := places || i::bigint;
      keys := keys || got.key;
      vals := vals || got.value;
      made := made || got.created;
      put := put || got.changed;
    ELSE
      SELECT array_fill(i::bigint, ARRAY[count(*)::int]) AS place, array_agg(one.key) AS key,
             array_agg(one.value) AS value, array_agg(one.created) AS created,
             array_agg(one.changed) AS changed
      INTO got FROM (
        (SELECT e.key, e.value, e.created, e.changed FROM @.entry AS e
         WHERE NOT backwards[i] AND e.key >= froms[i] AND e.key < tos[i]
           AND (stamps[i] IS NULL OR length(e.key) < 8
                OR substr(e.key, length(e.key) - 7) < stamps[i])
         ORDER BY e.key LIMIT limits[i] OFFSET skips[i])
        UNION ALL
        (SELECT e.key, e.value, e.created, e.changed FROM @.entry AS e
         WHERE backwards[i] AND e.key >= froms[i] AND e.key < tos[i]
           AND (stamps[i] IS NULL OR length(e.key) < 8
                OR substr(e.key, length(e.key) - 7) < stamps[i])
         ORDER BY e.key DESC LIMIT limits[i] OFFSET skips[i])) AS one(key, value, created, changed);
      CONTINUE WHEN got.key IS NULL;
      places := places || got.place;
      keys := keys || got.key;
      vals := vals || got.value;
      made := made || got.created;
      put := put || got.changed;
    END IF;
  END LOOP;
END $body$;
)sql";

inline constexpr const char* judge_sql = R"sql(
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

inline constexpr const char* look_sql = R"sql(
CREATE OR REPLACE FUNCTION @.look(
  kinds bigint[], guard_froms bytea[], guard_tos bytea[], revisions bigint[],
  froms bytea[], tos bytea[], limits bigint[], skips bigint[], backwards boolean[], stamps bytea[],
  OUT committed boolean, OUT revision bigint, OUT clock bigint,
  OUT places bigint[], OUT keys bytea[], OUT vals bytea[], OUT made bigint[], OUT put bigint[])
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  committed := @.judge(kinds, guard_froms, guard_tos, revisions);
  SELECT h.revision INTO revision FROM @.head AS h;
  IF cardinality(froms) > 0 THEN
    SELECT t.places, t.keys, t.vals, t.made, t.put INTO places, keys, vals, made, put
    FROM @.take(froms, tos, limits, skips, backwards, array_replace(stamps,
      '\xffffffffffffffff', NULL)) AS t;
  END IF;
  clock := extract(epoch FROM clock_timestamp()) * 1000000000;
END $body$;
)sql";

inline constexpr const char* change_sql = R"sql(
CREATE OR REPLACE PROCEDURE @.change(
  kinds bigint[], guard_froms bytea[], guard_tos bytea[], revisions bigint[],
  removes bytea[], put_keys bytea[], put_values bytea[], append_keys bytea[], append_values bytea[],
  froms bytea[], tos bytea[], limits bigint[], skips bigint[], backwards boolean[], stamps bytea[],
  durable boolean,
  INOUT committed boolean, INOUT revision bigint, INOUT clock bigint,
  INOUT places bigint[], INOUT keys bytea[], INOUT vals bytea[], INOUT made bigint[],
  INOUT put bigint[])
LANGUAGE plpgsql AS $body$
DECLARE
  unwatched boolean;
  setting text;
BEGIN
  LOOP
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
    UPDATE @.head AS h SET revision = h.revision + 1
      WHERE EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid)
      RETURNING h.revision, extract(epoch FROM clock_timestamp()) * 1000000000,
        pg_try_advisory_xact_lock(1414419794, '@'::regnamespace::oid::int),
        set_config('synchronous_commit', 'off', true)
      INTO revision, clock, unwatched, setting;
    EXIT WHEN FOUND;
    CALL @.raise_epoch();
  END LOOP;
  committed := cardinality(kinds) = 0 OR @.judge(kinds, guard_froms, guard_tos, revisions);
  IF committed THEN
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
      PERFORM @.tell(revision, removes || put_keys, append_keys);
    END IF;
  ELSE
    UPDATE @.head AS h SET revision = h.revision - 1 RETURNING h.revision INTO revision;
  END IF;
  IF cardinality(froms) > 0 THEN
    SELECT t.places, t.keys, t.vals, t.made, t.put INTO places, keys, vals, made, put
    FROM @.take(froms, tos, limits, skips, backwards, array_replace(stamps,
      '\xffffffffffffffff', CASE WHEN committed THEN int8send(revision) END)) AS t;
  END IF;
  COMMIT;
  IF durable AND committed THEN
    PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'),
      'off', 'on'), true), pg_logical_emit_message(true, 'tenure', '');
  END IF;
END $body$;
)sql";

// Many transactions in one: all are judged before any is made, so none may depend on what another
// one writes. Kinds are those of Write. Each that passes has a revision of its own, the others 0.
inline constexpr const char* change_all_sql = R"sql(
CREATE OR REPLACE PROCEDURE @.change_all(
  total bigint,
  guard_txns bigint[], kinds bigint[], guard_froms bytea[], guard_tos bytea[],
  guard_revisions bigint[],
  write_txns bigint[], write_kinds bigint[], write_keys bytea[], write_values bytea[],
  INOUT base bigint, INOUT clock bigint, INOUT revisions bigint[])
LANGUAGE plpgsql AS $body$
DECLARE
  unwatched boolean;
  setting text;
  failed bigint[];
  newest bigint;
BEGIN
  LOOP
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
    UPDATE @.head AS h SET revision = h.revision
      WHERE EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid)
      RETURNING h.revision, extract(epoch FROM clock_timestamp()) * 1000000000,
        pg_try_advisory_xact_lock(1414419794, '@'::regnamespace::oid::int),
        set_config('synchronous_commit', 'off', true)
      INTO base, clock, unwatched, setting;
    EXIT WHEN FOUND;
    CALL @.raise_epoch();
  END LOOP;
  SELECT coalesce(array_agg(DISTINCT g.txn), '{}') INTO failed
  FROM unnest(guard_txns, kinds, guard_froms, guard_tos, guard_revisions)
    AS g(txn, kind, start, behind, revision)
  WHERE CASE g.kind
    WHEN 0 THEN EXISTS (SELECT FROM @.entry AS e WHERE e.key = g.start)
    WHEN 1 THEN NOT EXISTS (SELECT FROM @.entry AS e WHERE e.key = g.start)
    WHEN 2 THEN NOT EXISTS (SELECT FROM @.entry AS e
                            WHERE e.key = g.start AND e.changed = g.revision)
    ELSE EXISTS (SELECT FROM @.entry AS e
                 WHERE e.key >= g.start AND e.key < g.behind AND e.changed > g.revision) END;
  SELECT array_agg(CASE WHEN s.passed THEN base + s.place ELSE 0 END ORDER BY s.txn),
         base + max(s.place)
  INTO revisions, newest
  FROM (SELECT t.txn, t.passed, count(*) FILTER (WHERE t.passed) OVER (ORDER BY t.txn) AS place
        FROM (SELECT n AS txn, NOT n = ANY (failed) AS passed
              FROM generate_series(1::bigint, total) AS n) AS t) AS s;
  IF newest > base THEN
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
    UPDATE @.head AS h SET revision = newest;
    IF NOT unwatched THEN
      PERFORM @.tell(newest, array_agg(CASE w.kind WHEN 1 THEN w.key || int8send(revisions[w.txn])
                                       ELSE w.key END), '{}')
      FROM unnest(write_txns, write_kinds, write_keys) AS w(txn, kind, key)
      WHERE revisions[w.txn] > 0 GROUP BY w.txn / 16;
    END IF;
  END IF;
  COMMIT;
  IF newest > base THEN
    PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'),
      'off', 'on'), true), pg_logical_emit_message(true, 'tenure', '');
  END IF;
END $body$;
)sql";

// Payloads are short: of more keys than fit, anything may have changed.
inline constexpr const char* tell_sql = R"sql(
CREATE OR REPLACE FUNCTION @.tell(revision bigint, keys bytea[], prefixes bytea[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  told text;
BEGIN
  SELECT string_agg(encode(key, 'hex'), ' ') INTO told
  FROM (SELECT unnest(keys) AS key
        UNION ALL SELECT prefix || int8send(revision) FROM unnest(prefixes) AS prefix) AS changed;
  IF length(told) > 7000 THEN told := '*'; END IF;
  PERFORM pg_notify('tenure ' || '@'::regnamespace::oid, revision || ' ' || told);
END $body$;
)sql";

// Roles are granted what they need (docs/clusters.md); PUBLIC could call routines otherwise.
inline constexpr const char* revoke_sql = R"sql(
REVOKE ALL ON ROUTINE @.take, @.judge, @.look, @.raise_epoch, @.tell, @.change, @.change_all,
  @.fence, @.body, @.moment FROM PUBLIC;
)sql";

// --- of batches. # stands for the schema's number.

// Which table `head` is, if its store is in order; and whether a commit that waits may not be
// durable, or wait for a standby.
inline constexpr const char* marker_sql =
    "SELECT '@.head'::regclass::oid::bigint, current_setting('synchronous_commit') = 'off' OR "
    "current_setting('synchronous_standby_names') <> '' "
    "FROM @.marker AS m WHERE m.own = m.tableoid";

// Gives the next revision, makes the commit a relaxed one if it is to be, and tells who watches of
// the key that is about to change. All in one column, since each costs as much as what is in it. A
// division by zero where change() has to see to it.
inline constexpr const char* number_sql = R"sql(
UPDATE @.head AS h SET revision = h.revision + CASE
    WHEN h.tableoid::bigint = $3 AND current_setting('transaction_isolation') = 'read committed'
    THEN 1 ELSE 1 / (h.revision - h.revision) END
  RETURNING CASE
    WHEN CASE WHEN $4 = 0::bigint THEN true
         ELSE set_config('synchronous_commit', 'off', true) IS NOT NULL END
     AND CASE WHEN pg_try_advisory_xact_lock(1414419794, #::bigint::oid::int) THEN true
         ELSE pg_notify('tenure #', h.revision || ' ' || encode(CASE WHEN $2
           THEN $1 || int8send(h.revision) ELSE $1 END, 'hex')) IS NOT NULL END
    THEN h.revision END
)sql";
inline constexpr const char* number_refused = "22012";

inline constexpr const char* add_ticket_sql = R"sql(
INSERT INTO @.entry SELECT $2 || int8send(h.revision), $3, h.revision, h.revision
  FROM @.head AS h, @.entry AS s WHERE s.key = $1
)sql";

// While nobody else writes: the revision is the one behind our own, and the session is there.
inline constexpr const char* add_to_own_sql = R"sql(
INSERT INTO @.entry SELECT $1 || int8send(h.revision), $2, h.revision, h.revision
  FROM @.head AS h WHERE h.revision = $3
)sql";

inline constexpr const char* drop_sql = "DELETE FROM @.entry AS e WHERE e.key = $1";
inline constexpr const char* drop_unchanged_sql =
    "DELETE FROM @.entry AS e WHERE e.key = $1 AND e.changed = $2::bigint";

inline constexpr const char* flush_sql =
    "SELECT set_config('synchronous_commit', replace(current_setting('synchronous_commit'),"
    "'off', 'on'), true), pg_logical_emit_message(true, 'tenure', '')";

// Durable before any revision of it is given. Plus two: a count that ran over has taken the next
// one, perhaps in a relaxed commit that was lost.
inline constexpr const char* raise_sql = R"sql(
CREATE OR REPLACE PROCEDURE @.raise_epoch() LANGUAGE plpgsql AS $body$
BEGIN
  PERFORM set_config('synchronous_commit', replace(current_setting('synchronous_commit'),
    'off', 'on'), true);
  UPDATE @.head AS h SET revision = h.revision;
  IF NOT EXISTS (SELECT FROM @.marker AS m WHERE m.own = m.tableoid) THEN
    UPDATE @.head AS h SET revision = greatest((h.revision >> 30) + 2,
      extract(epoch FROM clock_timestamp())::bigint) << 30;
    DELETE FROM @.marker;
    INSERT INTO @.marker VALUES ('@.marker'::regclass);
  END IF;
  COMMIT AND CHAIN;
END $body$;
)sql";

}  // namespace tenure::postgres
