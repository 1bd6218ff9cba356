// log_writes.hpp: SQLite's file system, with half as many writes to the log.
//
// SQLite writes each frame of its write-ahead log in two calls: 24 bytes of header, then the page.
// A transaction of ours is one page, and the two calls are a sixth of it. Here the header waits for
// its page and both are written at once. Everything else is the file system's underneath.
//
// Whoever reads the log is not concerned: a frame counts only after both writes, when the log's
// index says so.
#pragma once

#include <string>

namespace tenure::sqlite {

// The name of a file system that does so on top of that one (empty: the default). Made when first
// asked for, never removed. Throws StoreError where there is none of that name.
[[nodiscard]] std::string with_joined_log_writes(const std::string& under);

}  // namespace tenure::sqlite
