// views.hpp: the public part of the schema: plain SQL views of holders and waiters, and a fence for
// transactions of the program. @ stands for the schema.
//
//   SELECT path, owner, host, pid FROM tenure.holders;
//
// The views read the JSON values of Tenure's own entries (store/sqlite/views.hpp describes them). A
// change that keeps their columns, or adds columns at the end, needs a new routines_version; any
// other change needs a new schema_version.
#pragma once

namespace tenure::postgres {

// For use inside a transaction of the program: fails if the entry does not exist or was changed
// since it was read, and locks it until the end of the transaction. Writers of the store wait for
// that end, so the transaction should be short.
inline constexpr const char* fence_sql = R"sql(
CREATE OR REPLACE FUNCTION @.fence(entry_key bytea, seen bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  PERFORM FROM @.entry AS e WHERE e.key = entry_key AND (seen IS NULL OR e.changed = seen)
    FOR KEY SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'tenure: the lock that this transaction depends on is no longer held'
      USING ERRCODE = 'object_not_in_prerequisite_state';
  END IF;
END $body$;
)sql";

inline constexpr const char* views_sql = R"sql(
CREATE OR REPLACE FUNCTION @.body(value bytea) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $body$
BEGIN
  RETURN convert_from(value, 'UTF8')::jsonb;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $body$;

CREATE OR REPLACE FUNCTION @.moment(ns text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
  $body$ SELECT to_timestamp(ns::numeric / 1e9) $body$;

CREATE OR REPLACE VIEW @.sessions AS
SELECT e.session,
       e.body ->> 'host' AS host,
       (e.body ->> 'pid')::bigint AS pid,
       e.body ->> 'label' AS label,
       @.moment(e.body ->> 'since') AS since,
       s.deadline,
       coalesce(s.deadline > clock_timestamp(), false) AS alive
FROM (SELECT encode(substr(key, 2), 'escape') AS session, @.body(value) AS body FROM @.entry
      WHERE key >= '\x03' AND key < '\x04') AS e
LEFT JOIN @.session AS s ON s.id = e.session
WHERE e.body IS NOT NULL;

CREATE OR REPLACE VIEW @.ticket_rows AS
SELECT coalesce((body ->> 'number')::bigint, created) AS token, body
FROM (SELECT created, @.body(value) AS body FROM @.entry
      WHERE key >= '\x01' AND key < '\x03') AS rows
WHERE jsonb_typeof(body -> 'claims') = 'array';

CREATE OR REPLACE VIEW @.claims AS
SELECT token,
       claim.number - 1 AS number,
       claim.value ->> 0 AS path,
       claim.value ->> 1 AS in_group,
       (claim.value ->> 2)::bigint AS permits,
       coalesce((claim.value ->> 3)::bigint, 1) AS weight,
       coalesce(jsonb_contains(body -> 'kept', to_jsonb(claim.number - 1)), false) AS kept,
       (body ->> 'replaces')::bigint AS replaces
FROM @.ticket_rows, jsonb_array_elements(body -> 'claims') WITH ORDINALITY AS claim(value, number);

CREATE OR REPLACE VIEW @.tickets AS
WITH all_claims AS MATERIALIZED (SELECT * FROM @.claims),
blocked AS MATERIALIZED (
  SELECT DISTINCT mine.token
  FROM all_claims AS mine JOIN all_claims AS other ON other.token < mine.token
  WHERE other.token IS DISTINCT FROM mine.replaces AND
        (mine.in_group IS NULL OR other.in_group IS NULL OR mine.in_group <> other.in_group)
    AND (mine.path = other.path OR mine.path = '/' OR other.path = '/'
         OR starts_with(mine.path, other.path || '/')
         OR starts_with(other.path, mine.path || '/'))
  UNION
  SELECT mine.token
  FROM all_claims AS mine
  WHERE NOT mine.kept AND mine.permits < mine.weight +
                       (SELECT coalesce(sum(other.weight), 0) FROM all_claims AS other
                        WHERE other.token < mine.token AND other.path = mine.path
                          AND other.in_group = mine.in_group))
SELECT ticket.token,
       claim.path,
       coalesce(claim.in_group, 'exclusive') AS mode,
       claim.permits AS "limit",
       ticket.body ->> 'owner' AS owner,
       session.host,
       session.pid,
       coalesce(ticket.body ->> 'label', session.label) AS label,
       @.moment(ticket.body ->> 'since') AS since,
       @.moment(ticket.body ->> 'deadline') AS deadline,
       ticket.token NOT IN (SELECT token FROM blocked) AS granted,
       ticket.body -> 'anchor' ->> 1 AS anchor,
       CASE WHEN claim.permits IS NOT NULL THEN claim.weight END AS take
FROM @.ticket_rows AS ticket
JOIN all_claims AS claim ON claim.token = ticket.token
LEFT JOIN @.sessions AS session
  ON session.session = coalesce(ticket.body ->> 'session', ticket.body ->> 'by')
ORDER BY ticket.token, claim.number;

CREATE OR REPLACE VIEW @.holders AS SELECT * FROM @.tickets WHERE granted;
CREATE OR REPLACE VIEW @.waiters AS SELECT * FROM @.tickets WHERE NOT granted;
)sql";

}  // namespace tenure::postgres
