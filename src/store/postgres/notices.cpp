#include "store/postgres/notices.hpp"

#include "store/postgres/buckets.hpp"

namespace tenure::postgres {
namespace {

// Keys that a transaction may write and still try the locks of each.
constexpr int few_keys = 4;

// "(1,1), (2,2), (3,4), …": each code and the bytes of a key that it counts. Code 0 counts none.
std::string codes_and_sizes() {
  std::string all;
  for (std::size_t code = 1; code < prefix_codes; ++code) {
    all += (code == 1 ? "(" : ", (") + std::to_string(code) + "," +
           std::to_string(prefix_sizes[code]) + ")";
  }
  return all;
}

// Sends one notice for each interest in a changed key that passes the condition. Payloads are
// short: if the keys do not fit, any key of the bucket may have changed.
std::string notify_each(std::string_view condition) {
  return std::string{R"sql(    PERFORM pg_notify('tenure ' || schema || '.' || n.channel,
        revision || ' ' || n.bucket || ' ' ||
        CASE WHEN length(n.told) > 7000 THEN '*' ELSE n.told END)
      FROM (SELECT i.id, i.bucket, i.channel, string_agg(encode(i.key, 'hex'), ' ') AS told
        FROM (SELECT k.key, k.bucket, k.id, CASE WHEN k.wide THEN )sql"} +
         std::to_string(wide_channel) + R"sql( ELSE k.id & 4095 END AS channel
          FROM (SELECT c.key, c.bucket, false AS wide, )sql" +
         interest_sql("schema", std::to_string(key_code), "c.bucket::text", "c.key") +
         R"sql( AS id
            FROM unnest(changed, buckets) AS c(key, bucket)
            UNION ALL
            SELECT c.key, c.bucket, true, )sql" +
         interest_sql("schema", "0", "c.bucket::text", "''::bytea") + R"sql(
            FROM unnest(changed, buckets) AS c(key, bucket)
            UNION ALL
            SELECT c.key, c.bucket, false, )sql" +
         interest_sql("schema", "l.code", "c.bucket::text", "substr(c.key, 1, l.size)") +
         R"sql(
            FROM unnest(codes, sizes) AS l(code, size), unnest(changed, buckets) AS c(key, bucket)
            WHERE length(c.key) >= l.size) AS k) AS i
        GROUP BY i.id, i.bucket, i.channel HAVING )sql" +
         std::string{condition} + ") AS n;\n";
}

// As text: several in one expression cost less than several statements.
std::string lock_shared(int lock_class, const std::string& number) {
  return "pg_advisory_lock_shared(" + std::to_string(lock_class) + ", " + number + ")::text";
}
std::string unlock_shared(int lock_class, const std::string& number) {
  return "pg_advisory_unlock_shared(" + std::to_string(lock_class) + ", " + number + ")";
}

}  // namespace

std::string tell_sql() {
  const std::string ranges =
      interest_sql("schema", std::to_string(ranges_code), "b::text", "''::bytea");
  const std::string adding =
      interest_sql("schema", std::to_string(adding_code), "o.b::text", "''::bytea");
  const std::string lock_class = std::to_string(interest_class);
  return R"sql(
CREATE OR REPLACE FUNCTION @.tell(revision bigint, keys bytea[], prefixes bytea[], buckets bigint[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema text := '@'::regnamespace::oid;
  changed bytea[] := keys || ARRAY(SELECT p || int8send(revision) FROM unnest(prefixes) AS p);
  held int[];
  codes int[] := '{}';
  sizes int[] := '{}';
BEGIN
  IF cardinality(changed) <= )sql" +
         std::to_string(few_keys) + R"sql( THEN
    IF NOT (SELECT bool_and()sql" +
         try_interest_sql(ranges) + R"sql() FROM unnest(buckets) AS b) THEN
      SELECT array_agg(l.code), array_agg(l.size) INTO codes, sizes
      FROM (VALUES )sql" +
         codes_and_sizes() + R"sql() AS l(code, size);
    END IF;
)sql" + notify_each("NOT " + try_interest_sql("i.id")) +
         R"sql(  ELSE
    PERFORM pg_advisory_xact_lock()sql" +
         lock_class + ", " + adding + R"sql()
      FROM (SELECT DISTINCT b FROM unnest(buckets) AS b ORDER BY b) AS o;
    held := ARRAY(SELECT DISTINCT k.objid::bigint::int FROM pg_locks AS k
      WHERE k.locktype = 'advisory' AND k.classid = )sql" +
         lock_class + R"sql( AND k.objsubid = 2
        AND k.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()));
    SELECT coalesce(array_agg(l.code), '{}'), coalesce(array_agg(l.size), '{}') INTO codes, sizes
    FROM (VALUES )sql" +
         codes_and_sizes() + R"sql() AS l(code, size)
    WHERE l.code IN (SELECT h.id >> 27 FROM unnest(held) AS h(id));
)sql" + notify_each("i.id IN (SELECT h.id FROM unnest(held) AS h(id))") +
         R"sql(  END IF;
END $body$;
)sql";
}

// The parts of watch(). Mostly it takes one interest and drops another. PL/pgSQL evaluates an
// expression without a query much faster than a query, so there are queries for interests in all
// buckets only.
namespace {

std::string in_bucket(int code, std::string_view bucket) {
  return interest_sql("schema", std::to_string(code), bucket, "''::bytea");
}
std::string all_buckets() {
  return "generate_series(0::bigint, " + std::to_string(bucket_count - 1) + "::bigint) AS b";
}
constexpr std::string_view is_every = " = 255";
static_assert(every_bucket == 255);
constexpr std::string_view is_range = " BETWEEN 1 AND 6";
static_assert(prefix_codes == 7);

std::string drop_interests() {
  return R"sql(  FOR i IN 1 .. cardinality(drops) LOOP
    id := drops[i] & 2147483647;
    bucket := drops[i] >> 32;
    IF bucket)sql" +
         std::string{is_every} + R"sql( THEN
      PERFORM )sql" +
         unlock_shared(interest_class, in_bucket(0, "b::text")) + ", " +
         unlock_shared(watching_class, watching_sql("b")) + " FROM " + all_buckets() + R"sql(;
    ELSE
      done := )sql" +
         unlock_shared(interest_class, "id") + " AND " +
         unlock_shared(watching_class, watching_sql("bucket")) + R"sql(;
      IF id >> 27)sql" +
         std::string{is_range} + R"sql( THEN
        done := )sql" +
         unlock_shared(interest_class, in_bucket(ranges_code, "bucket::text")) + R"sql(;
      END IF;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(unheard) LOOP
    EXECUTE 'UNLISTEN "tenure ' || schema || '.' || unheard[i] || '"';
  END LOOP;
)sql";
}

// New interests are in the order of their buckets: the locks are taken in that order.
std::string lock_adding() {
  const std::string adding =
      "pg_advisory_xact_lock_shared(" + std::to_string(interest_class) + ", ";
  return "  IF buckets[cardinality(buckets)]" + std::string{is_every} + R"sql( THEN
    PERFORM )sql" +
         adding + in_bucket(adding_code, "b::text") + ") FROM " + all_buckets() + R"sql(;
  ELSE
    bucket := -1;
    FOR i IN 1 .. cardinality(buckets) LOOP
      CONTINUE WHEN buckets[i] = bucket;
      bucket := buckets[i];
      done := )sql" +
         adding + in_bucket(adding_code, "bucket::text") + R"sql()::text;
    END LOOP;
  END IF;
)sql";
}

std::string take_interests() {
  return R"sql(  FOR i IN 1 .. cardinality(codes) LOOP
    bucket := buckets[i];
    id := )sql" +
         interest_sql("schema", "codes[i]::int", "bucket::text", "parts[i]") + R"sql(;
    EXECUTE 'LISTEN "tenure ' || schema || '.' || CASE WHEN codes[i] = 0 THEN )sql" +
         std::to_string(wide_channel) + R"sql( ELSE id & 4095 END || '"';
    IF bucket)sql" +
         std::string{is_every} + R"sql( THEN
      PERFORM )sql" +
         lock_shared(interest_class, in_bucket(0, "b::text")) + ", " +
         lock_shared(watching_class, watching_sql("b")) + " FROM " + all_buckets() + R"sql(;
    ELSE
      done := )sql" +
         lock_shared(interest_class, "id") + " || " +
         lock_shared(watching_class, watching_sql("bucket")) + R"sql(;
      IF codes[i])sql" +
         std::string{is_range} + R"sql( THEN
        done := )sql" +
         lock_shared(interest_class, in_bucket(ranges_code, "bucket::text")) + R"sql(;
      END IF;
    END IF;
    ids := ids || (bucket << 32 | id);
  END LOOP;
)sql";
}

}  // namespace

std::string watch_sql() {
  return R"sql(
CREATE OR REPLACE FUNCTION @.watch(
  codes bigint[], buckets bigint[], parts bytea[], drops bigint[], unheard bigint[])
RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema text := '@'::regnamespace::oid;
  id int;
  bucket bigint;
  done text;
  ids bigint[] := '{}';
BEGIN
)sql" + drop_interests() +
         lock_adding() + take_interests() + R"sql(  RETURN ids;
END $body$;
)sql";
}

}  // namespace tenure::postgres
