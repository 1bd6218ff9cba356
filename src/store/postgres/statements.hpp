// statements.hpp: the statements of batches (batch.hpp), and numbers that the SQL texts share.
//
// A lock is two small transactions: a ticket is appended if its session exists, and later removed.
// Both are batches of these statements instead of calls of change() (routines.hpp). In all of these
// texts @ stands for the schema's quoted name, and # for the schema's number.
#pragma once

#include <string>

namespace tenure::postgres {

// A revision is epoch << count_bits | count, as in routines.cpp.
inline constexpr unsigned count_bits = 30;
// First of the two numbers of our advisory locks ("TNUR"); the other one is the schema's.
inline constexpr int advisory_class = 0x544e5552;

// Which table `head` is, if the store is in order; and whether a commit that waits may not be
// durable, or may have to wait for a standby.
inline constexpr const char* marker_sql =
    "SELECT '@.head'::regclass::oid::bigint, current_setting('synchronous_commit') = 'off' OR "
    "current_setting('synchronous_standby_names') <> '' "
    "FROM @.marker AS m WHERE m.own = m.tableoid";

// Takes the next revision, makes the commit a relaxed one if $4 says so, and notifies watchers of
// the key that is about to change. All of it is in one column, because a column costs as much as
// what is in it. Divides by zero if the transaction must be left to change().
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

// For a sole writer: the revision is the one after its own, so the session still exists.
inline constexpr const char* add_to_own_sql = R"sql(
INSERT INTO @.entry SELECT $1 || int8send(h.revision), $2, h.revision, h.revision
  FROM @.head AS h WHERE h.revision = $3
)sql";

inline constexpr const char* drop_sql = "DELETE FROM @.entry AS e WHERE e.key = $1";
inline constexpr const char* drop_unchanged_sql =
    "DELETE FROM @.entry AS e WHERE e.key = $1 AND e.changed = $2::bigint";

// Two calls in a SELECT list that make the commit durable in which they run, and so all earlier
// ones.
inline constexpr const char* sync_calls =
    "set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), "
    "true), pg_logical_emit_message(true, 'tenure', '')";
[[nodiscard]] inline std::string flush_sql() { return std::string{"SELECT "} + sync_calls; }

}  // namespace tenure::postgres
