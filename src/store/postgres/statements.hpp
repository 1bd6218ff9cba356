// statements.hpp: the statements of batches (batch.hpp), and numbers that the SQL texts share.
//
// A lock is two small transactions: a ticket is appended if its session exists, and later removed.
// Both are batches of these statements instead of calls of change() (routines.hpp). In all of these
// texts @ stands for the schema's quoted name, and # for the schema's number.
#pragma once

#include <string>

#include "store/postgres/notices.hpp"

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

// Takes the next revision, makes the commit a relaxed one if $4 says so, and notifies those who
// watch the key that is about to change (notices.hpp). All of it is in one column, because a column
// costs as much as what is in it. Divides by zero if the transaction must be left to change().
// Takes nothing if $5 is a revision other than the newest; $5 = 0: whatever the newest is.
[[nodiscard]] inline std::string number_sql() {
  const std::string key = "CASE WHEN $2 THEN $1 || int8send(h.revision) ELSE $1 END";
  const auto free = [](int code, const std::string& part) {
    return try_interest_sql(interest_sql("'#'", std::to_string(code), part));
  };
  return R"sql(
UPDATE @.head AS h SET revision = h.revision + CASE
    WHEN h.tableoid::bigint = $3 AND current_setting('transaction_isolation') = 'read committed'
    THEN 1 ELSE 1 / (h.revision - h.revision) END
  WHERE $5 = 0::bigint OR h.revision = $5
  RETURNING CASE
    WHEN CASE WHEN $4 = 0::bigint THEN true
         ELSE set_config('synchronous_commit', 'off', true) IS NOT NULL END
     AND CASE WHEN pg_try_advisory_xact_lock(1414419794, #::bigint::oid::int) THEN true
         WHEN )sql" +
         free(ranges_code, "''::bytea") + " AND " + free(key_code, key) + R"sql( THEN true
         ELSE @.tell(h.revision, ARRAY[)sql" +
         key + R"sql(], '{}') IS NOT NULL END
    THEN h.revision END
)sql";
}
inline constexpr const char* number_refused = "22012";

// A write that finds its guard failed gives the revision back. `number` can't judge the guard: a
// statement that waited for the row of `head` sees other tables as they were before the wait.
[[nodiscard]] inline std::string or_give_back(const std::string& write) {
  return "WITH made AS (" + write +
         "), back AS (UPDATE @.head AS h SET revision = h.revision - 1 "
         "WHERE NOT EXISTS (SELECT FROM made)) SELECT * FROM made";
}

// To be followed by RETURNING.
inline constexpr const char* add_ticket_sql = R"sql(
INSERT INTO @.entry SELECT $2 || int8send(h.revision), $3, h.revision, h.revision
  FROM @.head AS h, @.entry AS s WHERE s.key = $1
)sql";

// For a sole writer: the revision is the one after its own, so the session still exists. If
// another process made that revision, `number` took none, and this transaction did not write the
// row of `head`.
inline constexpr const char* add_to_own_sql = R"sql(
INSERT INTO @.entry SELECT $1 || int8send(h.revision), $2, h.revision, h.revision
  FROM @.head AS h WHERE h.revision = $3 AND h.xmin = pg_current_xact_id_if_assigned()::xid
)sql";

inline constexpr const char* drop_sql = "DELETE FROM @.entry AS e WHERE e.key = $1 RETURNING true";
inline constexpr const char* drop_unchanged_sql =
    "DELETE FROM @.entry AS e WHERE e.key = $1 AND e.changed = $2::bigint RETURNING true";

// Two calls in a SELECT list that make the commit durable in which they run, and so all earlier
// ones.
inline constexpr const char* sync_calls =
    "set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), "
    "true), pg_logical_emit_message(true, 'tenure', '')";
[[nodiscard]] inline std::string flush_sql() { return std::string{"SELECT "} + sync_calls; }

}  // namespace tenure::postgres
