// file_system.hpp: a SQLite file system (VFS) that makes a third fewer system calls. They are most
// of the cost of a small transaction.
//
// One write per frame of the log. SQLite makes two: 24 bytes of header, then the page. Here the
// header waits for its page. Readers are not affected: a frame counts only when the log's index
// says so, after both parts are written.
//
// Fewer updates of read marks. A transaction locks one of a few marks in the log's index, which
// tell a checkpoint how far it may go. Before that, SQLite moves the mark to the end of the log
// under an exclusive lock: two calls, in every transaction that follows a commit. A mark that is
// too low is valid too, and SQLite uses it if another process holds the exclusive lock. So this VFS
// refuses that lock while the log is too short for a checkpoint, when a low mark delays nobody.
#pragma once

#include <string>

namespace tenure::sqlite {

// Returns the name of such a VFS on top of the given one (empty: SQLite's default). It is
// registered at the first call and never removed. Throws StoreError if there is no VFS of that
// name.
[[nodiscard]] std::string with_fewer_calls(const std::string& under);

}  // namespace tenure::sqlite
