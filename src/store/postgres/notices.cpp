#include "store/postgres/notices.hpp"

namespace tenure::postgres {
namespace {

// Keys that a transaction may write and still try the locks of each.
constexpr int few_keys = 4;

// "(0,0), (1,1), (2,2), (3,4), …": each code and the bytes of a key that it counts.
std::string codes_and_sizes() {
  std::string all;
  for (std::size_t code = 0; code < prefix_codes; ++code) {
    all += (code == 0 ? "(" : ", (") + std::to_string(code) + "," +
           std::to_string(prefix_sizes[code]) + ")";
  }
  return all;
}

// Sends one notice for each interest in a changed key that passes the condition. Payloads are
// short: if the keys do not fit, any key may have changed.
std::string notify_each(std::string_view condition) {
  return std::string{R"sql(    PERFORM pg_notify('tenure ' || schema || '.' || (n.id & 4095),
        revision || ' ' || CASE WHEN length(n.told) > 7000 THEN '*' ELSE n.told END)
      FROM (SELECT i.id, string_agg(encode(i.key, 'hex'), ' ') AS told
        FROM (SELECT c.key, )sql"} +
         interest_sql("schema", std::to_string(key_code), "c.key") + R"sql( AS id
          FROM unnest(changed) AS c(key)
          UNION ALL
          SELECT c.key, )sql" +
         interest_sql("schema", "l.code", "substr(c.key, 1, l.size)") + R"sql(
          FROM unnest(codes, sizes) AS l(code, size), unnest(changed) AS c(key)
          WHERE length(c.key) >= l.size) AS i
        GROUP BY i.id HAVING )sql" +
         std::string{condition} + ") AS n;\n";
}

}  // namespace

std::string tell_sql() {
  const std::string ranges = interest_sql("schema", std::to_string(ranges_code), "''::bytea");
  const std::string adding = interest_sql("schema", std::to_string(adding_code), "''::bytea");
  const std::string lock_class = std::to_string(interest_class);
  return R"sql(
CREATE OR REPLACE FUNCTION @.tell(revision bigint, keys bytea[], prefixes bytea[]) RETURNS void
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
    IF NOT )sql" +
         try_interest_sql(ranges) + R"sql( THEN
      SELECT array_agg(l.code), array_agg(l.size) INTO codes, sizes
      FROM (VALUES )sql" +
         codes_and_sizes() + R"sql() AS l(code, size);
    END IF;
)sql" + notify_each("NOT " + try_interest_sql("i.id")) +
         R"sql(  ELSE
    PERFORM pg_advisory_xact_lock()sql" +
         lock_class + ", " + adding + R"sql();
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

std::string watch_sql() {
  const std::string lock_class = std::to_string(interest_class);
  const std::string ranges = interest_sql("schema", std::to_string(ranges_code), "''::bytea");
  const std::string is_range = " >> 27 < " + std::to_string(prefix_codes);
  return R"sql(
CREATE OR REPLACE FUNCTION @.watch(codes bigint[], parts bytea[], drops bigint[], unheard bigint[])
RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  schema text := '@'::regnamespace::oid;
  id int;
  ids bigint[] := '{}';
BEGIN
  PERFORM pg_advisory_unlock_shared()sql" +
         lock_class + R"sql(, d.id::int) FROM unnest(drops) AS d(id);
  PERFORM pg_advisory_unlock_shared()sql" +
         lock_class + ", " + ranges + ") FROM unnest(drops) AS d(id) WHERE d.id" + is_range +
         R"sql(;
  FOR i IN 1 .. cardinality(unheard) LOOP
    EXECUTE 'UNLISTEN "tenure ' || schema || '.' || unheard[i] || '"';
  END LOOP;
  IF cardinality(codes) > 0 THEN
    PERFORM pg_advisory_xact_lock_shared()sql" +
         lock_class + ", " + interest_sql("schema", std::to_string(adding_code), "''::bytea") +
         R"sql();
  END IF;
  FOR i IN 1 .. cardinality(codes) LOOP
    id := )sql" +
         interest_sql("schema", "codes[i]::int", "parts[i]") + R"sql(;
    EXECUTE 'LISTEN "tenure ' || schema || '.' || (id & 4095) || '"';
    PERFORM pg_advisory_lock_shared()sql" +
         lock_class + R"sql(, id);
    IF id)sql" +
         is_range + R"sql( THEN
      PERFORM pg_advisory_lock_shared()sql" +
         lock_class + ", " + ranges + R"sql();
    END IF;
    ids := ids || id::bigint;
  END LOOP;
  RETURN ids;
END $body$;
)sql";
}

}  // namespace tenure::postgres
