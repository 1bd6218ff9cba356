#include "store/postgres/flow_views.hpp"

#include <string_view>

#include "store/common/flow_names.hpp"

namespace tenure::postgres {
namespace {

// flow_number: big endian, from a byte that counts from 0. flow_varint: seven bits per byte, the
// lowest first; `at` is where to go on. flow_text: bytes that are not UTF-8 are escaped.
constexpr std::string_view helpers = R"sql(
CREATE OR REPLACE FUNCTION @.flow_number(bytes bytea, at integer, size integer) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
  SELECT ('x' || lpad(encode(substr(bytes, at + 1, size), 'hex'), 16, '0'))::bit(64)::bigint
$body$;

CREATE OR REPLACE FUNCTION @.flow_varint(bytes bytea, INOUT at integer, OUT number bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  shift integer := 0;
  next integer;
BEGIN
  number := 0;
  LOOP
    next := get_byte(bytes, at);
    at := at + 1;
    number := number | ((next & 127)::bigint << shift);
    shift := shift + 7;
    EXIT WHEN next < 128;
  END LOOP;
END $body$;

CREATE OR REPLACE FUNCTION @.flow_text(bytes bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN convert_from(bytes, 'UTF8');
EXCEPTION WHEN OTHERS THEN
  RETURN encode(bytes, 'escape');
END $body$;

CREATE OR REPLACE FUNCTION @.flow_entry(bytes bytea, OUT kind integer, OUT stamp bigint,
  OUT scope bigint, OUT sequence bigint, OUT attempt bigint, OUT name text, OUT value text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place integer := 18;
  size bigint;
BEGIN
  kind := get_byte(bytes, 1);
  stamp := @.flow_number(bytes, 2, 8);
  SELECT v.at, v.number INTO place, scope FROM @.flow_varint(bytes, place) AS v;
  SELECT v.at, v.number INTO place, sequence FROM @.flow_varint(bytes, place) AS v;
  SELECT v.at, v.number INTO place, attempt FROM @.flow_varint(bytes, place) AS v;
  SELECT v.at, v.number INTO place, size FROM @.flow_varint(bytes, place) AS v;
  name := @.flow_text(substr(bytes, place + 1, size::integer));
  value := @.flow_text(substr(bytes, place + size::integer + 1));
EXCEPTION WHEN OTHERS THEN
  RETURN;
END $body$;

-- Texts: type, idempotency key, place, parent; the number of tags; their names and values; input,
-- result. Then the parts that were added later: the one of the run has the number 1.
CREATE OR REPLACE FUNCTION @.flow_record(bytes bytea, OUT state integer, OUT created bigint,
  OUT starts bigint, OUT deadline bigint, OUT ended bigint, OUT type text, OUT tags jsonb,
  OUT input text, OUT result text, OUT run bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
  place integer := 26;
  size bigint;
  number bigint;
  texts text[] := '{}';
BEGIN
  state := get_byte(bytes, 1);
  created := @.flow_number(bytes, 10, 8);
  starts := @.flow_number(bytes, 18, 8);
  IF get_byte(bytes, place) = 1 THEN
    deadline := @.flow_number(bytes, place + 1, 8);
    place := place + 8;
  END IF;
  place := place + 1;
  IF get_byte(bytes, place) = 1 THEN
    ended := @.flow_number(bytes, place + 1, 8);
    place := place + 8;
  END IF;
  place := place + 1;
  number := 4;
  WHILE cardinality(texts) < number LOOP
    SELECT v.at, v.number INTO place, size FROM @.flow_varint(bytes, place) AS v;
    texts := texts || @.flow_text(substr(bytes, place + 1, size::integer));
    place := place + size::integer;
    IF cardinality(texts) = 4 AND number = 4 THEN
      SELECT v.at, v.number INTO place, size FROM @.flow_varint(bytes, place) AS v;
      number := 6 + 2 * size;
    END IF;
  END LOOP;
  type := texts[1];
  input := texts[number - 1];
  result := nullif(texts[number], '');
  tags := '{}';
  FOR i IN 5 .. number - 3 BY 2 LOOP
    tags := tags || jsonb_build_object(texts[i], texts[i + 1]);
  END LOOP;
  run := 0;
  IF place < length(bytes) AND get_byte(bytes, place) = 1 THEN
    SELECT v.number INTO run FROM @.flow_varint(bytes, place + 2) AS v;
  END IF;
EXCEPTION WHEN OTHERS THEN
  RETURN;
END $body$;
)sql";

}  // namespace

std::string flow_views_sql() {
  return std::string{helpers} + R"sql(
CREATE OR REPLACE VIEW @.flow_log AS
SELECT @.flow_text(substr(key, 7, size & 32767)) AS workflow,
       CASE WHEN size > 32767 THEN @.flow_number(key, 6 + (size & 32767), 4) ELSE 0 END AS run,
       @.flow_number(key, length(key) - 4, 4) AS number,
       @.moment(entry.stamp::text) AS time,
       CASE entry.kind)sql" +
         std::string{stored_flow::kind_branches} + R"sql(AS kind,
       entry.name, entry.scope, entry.sequence, entry.attempt, entry.value
FROM (SELECT key, value AS body, @.flow_number(key, 4, 2)::integer AS size FROM @.entry
      WHERE key >= '\x116c' AND key < '\x116d') AS rows,
     LATERAL @.flow_entry(body) AS entry;

CREATE OR REPLACE VIEW @.flows AS
SELECT @.flow_text(substr(key, 5)) AS id,
       record.type,
       CASE WHEN record.state = 1 AND @.moment(record.starts::text) > clock_timestamp()
            THEN 'scheduled' ELSE CASE record.state)sql" +
         std::string{stored_flow::state_branches} + R"sql(END AS state,
       @.moment(record.created::text) AS created,
       @.moment(record.starts::text) AS starts,
       @.moment(record.deadline::text) AS deadline,
       @.moment(record.ended::text) AS ended,
       record.run, record.tags, record.input, record.result
FROM (SELECT key, value AS body FROM @.entry
      WHERE key >= '\x1177' AND key < '\x1178') AS rows,
     LATERAL @.flow_record(body) AS record;
)sql";
}

}  // namespace tenure::postgres
