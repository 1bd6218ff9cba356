// file_system.hpp: a SQLite file system (VFS) that makes a third fewer system calls. They are most
// of the cost of a small transaction.
//
// One write per frame of the log. SQLite makes two: 24 bytes of header, then the page. Here the
// header waits for its page. Readers are not affected: a frame counts only when the log's index
// says so, after both parts are written.
//
// One write for all frames of a commit that is synced. They wait for the sync, which SQLite asks
// for before it changes the log's index, and which fails if they cannot be written. A commit that
// is not synced has no such moment, so its frames are not gathered.
//
// One write for pages of a checkpoint that are neighbours. They wait for the next page, and at the
// latest for the sync that SQLite asks for before it tells others that the pages are there.
//
// Fewer updates of read marks. A transaction locks one of a few marks in the log's index, which
// tell a checkpoint how far it may go. Before that, SQLite moves the mark to the end of the log
// under an exclusive lock: two calls, in every transaction that follows a commit. A mark that is
// too low is valid too, and SQLite uses it if another process holds the exclusive lock. So this VFS
// refuses that lock while the log is too short for a checkpoint, when a low mark delays nobody.
#pragma once

#include <sqlite3.h>

#include <string>

namespace tenure::sqlite {

// Returns the name of such a VFS on top of the given one (empty: SQLite's default). It is
// registered at the first call and never removed. Throws StoreError if there is no VFS of that
// name.
[[nodiscard]] std::string with_fewer_calls(const std::string& under);

// Around a commit that is synced. No effect with another file system. If the commit failed, frames
// that still wait are dropped: another process may write to their place.
void gather_frames(sqlite3* database) noexcept;
[[nodiscard]] int end_frames(sqlite3* database, bool committed) noexcept;

}  // namespace tenure::sqlite
