// views.hpp: the schema, and the plain SQL views that let any SQLite tool read who holds what.
//
//   sqlite3 app.db 'SELECT path, owner, host, pid FROM tenure_holders'
//
// They read the JSON values of Tenure's own entries:
//   key 0x01 … or 0x02 …   a ticket's claim; the one that has "claims" lists them all:
//       {"session":ID,"claims":[[PATH],[PATH,GROUP],[PATH,GROUP,LIMIT],
//        [PATH,GROUP,LIMIT,WEIGHT]],"owner":…,"label":…,"since":NS,"max_hold":NS,"deadline":NS,
//        "number":N,"kept":[I],"replaces":N}; the token is the number, or without one the revision
//        that made the entry. A ticket that is anchored to a key has "anchor":["key",KEY] and
//        "by":ID instead of "session"
//   key 0x03 ID            a session: {"host":…,"pid":…,"boot":…,"label":…,"since":NS}
// NS are nanoseconds since 1970 by the store's clock. Only the kernel knows whether a session is
// alive, so a ticket of a dead process is listed here until somebody removes it.
//
// A change of the keys of tickets (space/stored/keys.hpp) needs a new schema version. Version 2:
// the path comes before the group in keys. A change of the views needs a new views version: a
// process that opens a database with older views replaces them. Version 2: anchors. Version 3:
// workflows (flow_views.hpp). Version 4: weights. Version 5: claims that were granted before their
// limit was lowered ("kept").
#pragma once

namespace tenure::sqlite {

inline constexpr unsigned application_id = 0x544e5552;  // "TNUR"
inline constexpr unsigned schema_version = 2;
inline constexpr unsigned views_version = 5;

inline constexpr const char* schema_sql = R"sql(
CREATE TABLE entry(
  key BLOB PRIMARY KEY,
  value BLOB NOT NULL,
  created INTEGER NOT NULL,
  changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE tenure_meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
)sql";

inline constexpr const char* views_sql = R"sql(
DROP VIEW IF EXISTS tenure_waiters;
DROP VIEW IF EXISTS tenure_holders;
DROP VIEW IF EXISTS tenure_tickets;
DROP VIEW IF EXISTS tenure_claims;
DROP VIEW IF EXISTS tenure_ticket_rows;
DROP VIEW IF EXISTS tenure_sessions;

CREATE VIEW tenure_sessions AS
SELECT CAST(substr(key, 2) AS TEXT) AS session,
       body ->> '$.host' AS host,
       body ->> '$.pid' AS pid,
       body ->> '$.label' AS label,
       strftime('%Y-%m-%dT%H:%M:%fZ', (body ->> '$.since') / 1e9, 'unixepoch') AS since,
       body ->> '$.boot' AS boot
FROM (SELECT key, CAST(value AS TEXT) AS body FROM entry
      WHERE key >= x'03' AND key < x'04' AND json_valid(CAST(value AS TEXT)));

CREATE VIEW tenure_ticket_rows AS
SELECT coalesce(body ->> '$.number', created) AS token, body
FROM (SELECT created, CAST(value AS TEXT) AS body FROM entry
      WHERE key >= x'01' AND key < x'03' AND json_valid(CAST(value AS TEXT)))
WHERE json_type(body, '$.claims') = 'array';

CREATE VIEW tenure_claims AS
SELECT token,
       claim.key AS number,
       claim.value ->> '$[0]' AS path,
       claim.value ->> '$[1]' AS in_group,
       claim.value ->> '$[2]' AS permits,
       coalesce(claim.value ->> '$[3]', 1) AS weight,
       claim.key IN (SELECT value FROM json_each(body, '$.kept')) AS kept,
       body ->> '$.replaces' AS replaces
FROM tenure_ticket_rows, json_each(body, '$.claims') AS claim;

CREATE VIEW tenure_tickets AS
WITH claims AS MATERIALIZED (SELECT * FROM tenure_claims),
blocked AS MATERIALIZED (
  SELECT DISTINCT mine.token
  FROM claims AS mine JOIN claims AS other ON other.token < mine.token
  WHERE other.token IS NOT mine.replaces AND
        (mine.in_group IS NULL OR other.in_group IS NULL OR mine.in_group <> other.in_group)
    AND (mine.path = other.path OR mine.path = '/' OR other.path = '/'
         OR substr(mine.path, 1, length(other.path) + 1) = other.path || '/'
         OR substr(other.path, 1, length(mine.path) + 1) = mine.path || '/')
  UNION
  SELECT mine.token
  FROM claims AS mine
  WHERE NOT mine.kept AND mine.permits < mine.weight +
                       (SELECT coalesce(sum(other.weight), 0) FROM claims AS other
                        WHERE other.token < mine.token AND other.path = mine.path
                          AND other.in_group = mine.in_group))
SELECT ticket.token AS token,
       claim.path AS path,
       coalesce(claim.in_group, 'exclusive') AS mode,
       claim.permits AS "limit",
       ticket.body ->> '$.owner' AS owner,
       session.host AS host,
       session.pid AS pid,
       coalesce(ticket.body ->> '$.label', session.label) AS label,
       strftime('%Y-%m-%dT%H:%M:%fZ', (ticket.body ->> '$.since') / 1e9, 'unixepoch') AS since,
       strftime('%Y-%m-%dT%H:%M:%fZ', (ticket.body ->> '$.deadline') / 1e9, 'unixepoch')
         AS deadline,
       ticket.token NOT IN (SELECT token FROM blocked) AS granted,
       ticket.body ->> '$.anchor[1]' AS anchor,
       iif(claim.permits IS NULL, NULL, claim.weight) AS take
FROM tenure_ticket_rows AS ticket
JOIN claims AS claim ON claim.token = ticket.token
LEFT JOIN tenure_sessions AS session
  ON session.session = coalesce(ticket.body ->> '$.session', ticket.body ->> '$.by')
ORDER BY ticket.token, claim.number;

CREATE VIEW tenure_holders AS SELECT * FROM tenure_tickets WHERE granted;
CREATE VIEW tenure_waiters AS SELECT * FROM tenure_tickets WHERE NOT granted;
)sql";

}  // namespace tenure::sqlite
