// routines.hpp: the tables, routines and views of a store's schema, as SQL.
//
// In all of these texts @ stands for the schema's quoted name.
//
//   head     a row for each bucket (buckets.hpp): the newest revision of its order. A writer locks
//            the rows of its buckets first, and only then takes its revision. Commits of one bucket
//            are therefore in the order of revisions, and the transaction that holds a row's lock
//            sees all earlier commits of that bucket. The fill factor is low, so that old versions
//            of a row are pruned early: every reader has to skip them.
//   marker   unlogged, so that a crash of the server, or of one backend, empties it. Relaxed
//            commits may then have been lost, and the next writer raises the epoch. The row names
//            its own table, so that a dump that was restored elsewhere is not the same store.
//   entry    keys and values
//   session  until when each session lives, on the server's clock
//
// change() applies one transaction. It is a procedure, so that it commits by itself: the lock on
// `head` is never held while the server waits for a client, which may have been stopped or cut off.
// It sets the isolation level, whatever the server's default: every statement after the update of
// `head` must see what was committed while the update waited. The commit is relaxed, which releases
// the lock without waiting for the disk. The empty message that follows it is a commit as well, and
// a durable one, which makes all earlier commits durable too. PL/pgSQL prepares each expression
// anew in every transaction, so change() has few: as much as possible is in the first UPDATE.
//
// look() only reads. A stable function runs on the snapshot of the statement that calls it,
// whatever the isolation level.
//
// A process that watches anything holds a shared advisory lock, which a writer tries to take: if it
// gets it, nobody is notified. Otherwise tell() finds out who watches what was written
// (notices.hpp).
//
// Names without a schema are looked up in pg_catalog only. Otherwise a user who may create
// functions or operators in `public` could add one that fits our arguments better, and our role
// would run it. Each function sets its own search_path, because other roles call it too: fence()
// and the functions of the views run as their reader. A procedure that commits can't have such a
// clause, so change() sets the path for its transaction; only change() and change_all() call
// raise_epoch(). Our own connections set the path once, but behind a pooler no setting lasts. SQL
// outside of functions, and change() before it has set the path or after its COMMIT has reset it,
// therefore uses only operators whose types match exactly (||, <> of text, float8 * float8): an
// exact match in pg_catalog comes first.
//
// take() leaves the order of what it found to the caller.
#pragma once

#include <string>
#include <vector>

namespace tenure::postgres {

// The version of the tables and of the keys of tickets. 2: the path comes before the group in keys.
// 3: a row of `head` for each bucket. A schema of version 2 is upgraded.
inline constexpr int schema_version = 3;
inline constexpr int upgraded_version = 2;
// The version of the routines and views of such a schema: a later one accepts the same calls. 2:
// each has its search_path. 3: change_all. 4: anchors in the views. 5: change_all reads by index.
// 6: views of workflows, notices of exact interests, watch(). 7: weights in the views. 8: buckets.
// 9: kept claims in the views.
inline constexpr int routines_version = 9;

[[nodiscard]] std::string tables_sql();
// In the order in which they must be created.
[[nodiscard]] std::vector<std::string> routines_sql();
[[nodiscard]] std::string revoke_sql();
// Before and after the routines are made in a schema of upgraded_version.
[[nodiscard]] std::string begin_upgrade_sql();
[[nodiscard]] std::string end_upgrade_sql();

}  // namespace tenure::postgres
