// statements.hpp: the statements of batches (batch.hpp), and numbers that the SQL texts share.
//
// A lock is two small transactions: a ticket is appended if its session exists, and later removed.
// Both are batches of these statements instead of calls of change() (routines.hpp). In all of these
// texts @ stands for the schema's quoted name, and # for the schema's number.
//
// A revision is epoch << count_bits | count << bucket_bits | bucket (buckets.hpp).
#pragma once

#include <string>

#include "store/postgres/buckets.hpp"
#include "store/postgres/notices.hpp"

namespace tenure::postgres {

inline constexpr unsigned count_bits = 30;

// The revision after `newest` in the order of a bucket.
[[nodiscard]] inline std::string next_sql(const std::string& newest, const std::string& bucket) {
  const std::string bits = std::to_string(bucket_bits);
  return "((((" + newest + " >> " + bits + ") + 1) << " + bits + ") | " + bucket + ")";
}
// First of the two numbers of our advisory locks ("TNUR"); the other one is the schema's.
inline constexpr int advisory_class = 0x544e5552;

// Which table `head` is, if the store is in order; and whether a commit that waits may not be
// durable, or may have to wait for a standby.
inline constexpr const char* marker_sql =
    "SELECT '@.head'::regclass::oid::bigint, current_setting('synchronous_commit') = 'off' OR "
    "current_setting('synchronous_standby_names') <> '' "
    "FROM @.marker AS m WHERE m.own = m.tableoid";

// Takes the next revision of the bucket $6, makes the commit a relaxed one if $4 says so, and
// notifies those who watch the key that is about to change (notices.hpp); $7 is the lock of those
// who watch anything in the bucket. All of it is in one column, because a column costs as much as
// what is in it. Divides by zero if the transaction must be left to change(). Takes nothing if $5
// is a revision other than the newest; $5 = 0: whatever the newest is.
[[nodiscard]] inline std::string number_sql() {
  const std::string key = "CASE WHEN $2 THEN $1 || int8send(h.newest) ELSE $1 END";
  const auto free = [](int code, const std::string& part) {
    return try_interest_sql(interest_sql("'#'", std::to_string(code), "$6::text", part));
  };
  return R"sql(
UPDATE @.head AS h SET newest = CASE
    WHEN h.tableoid::bigint = $3 AND current_setting('transaction_isolation') = 'read committed'
    THEN )sql" +
         next_sql("h.newest", "h.bucket") + R"sql( ELSE 1 / (h.newest - h.newest) END
  WHERE h.bucket = $6::bigint AND ($5 = 0::bigint OR h.newest = $5)
  RETURNING CASE
    WHEN CASE WHEN $4 = 0::bigint THEN true
         ELSE set_config('synchronous_commit', 'off', true) IS NOT NULL END
     AND CASE WHEN pg_try_advisory_xact_lock()sql" +
         std::to_string(watching_class) + R"sql(, $7::bigint::int) THEN true
         WHEN )sql" +
         free(ranges_code, "''::bytea") + " AND " + free(0, "''::bytea") + " AND " +
         free(key_code, key) + R"sql( THEN true
         ELSE @.tell(h.newest, ARRAY[)sql" +
         key + R"sql(], '{}', ARRAY[$6::bigint]) IS NOT NULL END
    THEN h.newest END
)sql";
}
inline constexpr const char* number_refused = "22012";

// A write that finds its guard failed gives the revision back. `number` can't judge the guard: a
// statement that waited for a row of `head` sees other tables as they were before the wait. $1 is
// the bucket, in all statements that follow.
[[nodiscard]] inline std::string or_give_back(const std::string& write) {
  return "WITH made AS (" + write + "), back AS (UPDATE @.head AS h SET newest = h.newest - " +
         std::to_string(revision_step) +
         " WHERE h.bucket = $1::bigint AND NOT EXISTS (SELECT FROM made)) SELECT * FROM made";
}

// To be followed by RETURNING.
inline constexpr const char* add_ticket_sql = R"sql(
INSERT INTO @.entry SELECT $3 || int8send(h.newest), $4, h.newest, h.newest
  FROM @.head AS h, @.entry AS s WHERE h.bucket = $1::bigint AND s.key = $2
)sql";

// For a sole writer: nobody else has made a revision of the bucket, so the session still exists. If
// another process has, `number` took none, and this transaction did not write the row of `head`.
inline constexpr const char* add_to_own_sql = R"sql(
INSERT INTO @.entry SELECT $2 || int8send(h.newest), $3, h.newest, h.newest
  FROM @.head AS h WHERE h.bucket = $1::bigint AND h.xmin = pg_current_xact_id_if_assigned()::xid
)sql";

inline constexpr const char* drop_sql = "DELETE FROM @.entry AS e WHERE e.key = $2 RETURNING true";
inline constexpr const char* drop_unchanged_sql =
    "DELETE FROM @.entry AS e WHERE e.key = $2 AND e.changed = $3::bigint RETURNING true";

// Two calls in a SELECT list that make the commit durable in which they run, and so all earlier
// ones.
inline constexpr const char* sync_calls =
    "set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), "
    "true), pg_logical_emit_message(true, 'tenure', '')";
[[nodiscard]] inline std::string flush_sql() { return std::string{"SELECT "} + sync_calls; }

}  // namespace tenure::postgres
