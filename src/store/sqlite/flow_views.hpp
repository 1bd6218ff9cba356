// flow_views.hpp: plain SQL views of workflows and their logs, for any SQLite tool.
//
//   sqlite3 app.db "SELECT id, type, state, tags FROM tenure_flows WHERE state = 'failed'"
//   sqlite3 app.db "SELECT time, kind, name, value FROM tenure_flow_log WHERE workflow = 'order-7'"
//
// Keys and values are binary with readable texts inside (flow/keys.hpp, flow/entry.hpp). SQLite has
// no function that reads a number out of a blob: a byte is its place in a blob of all 256 bytes.
// Numbers of variable length are read by a recursive query, once per row; a row that a condition on
// the workflow excludes is not decoded. A value that cannot be decoded has NULLs.
//
// A change of those formats or of these views needs a new views_version (views.hpp).
#pragma once

#include <string>

namespace tenure::sqlite {

[[nodiscard]] std::string flow_views_sql();

}  // namespace tenure::sqlite
