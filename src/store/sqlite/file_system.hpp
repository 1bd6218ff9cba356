// file_system.hpp: SQLite's file system, with a third of its calls into the kernel left out. They
// are most of what a small transaction costs.
//
// One write a frame of the log. SQLite makes two: 24 bytes of header, then the page. Here the
// header waits for its page. Whoever reads the log is not concerned: a frame counts only after
// both, when the log's index says so.
//
// Fewer read marks. A transaction locks one of a few marks in the log's index, which say how far a
// checkpoint may go without taking anything from it. Before, SQLite moves the mark to the end of
// the log, under an exclusive lock: two calls, in every transaction that follows a commit. A mark
// that is too low is right too, and SQLite takes it where somebody else has the lock; so here it is
// told so most of the time. Meanwhile a checkpoint by another process gets less far, or has to be
// tried again: hence "most of the time".
#pragma once

#include <string>

namespace tenure::sqlite {

// The name of a file system that does so on top of that one (empty: the default). Made when first
// asked for, never removed. Throws StoreError where there is none of that name.
[[nodiscard]] std::string with_fewer_calls(const std::string& under);

}  // namespace tenure::sqlite
