// flow_names.hpp: what the numbers of workflow records and log entries mean (flow/entry.hpp), for
// the SQL views of the stores: the branches of a CASE. src/flow/flow_views_test.cpp compares them
// with the names that programs see.
#pragma once

#include <string_view>

namespace tenure::stored_flow {

inline constexpr std::string_view kind_branches =
    " WHEN 1 THEN 'step done' WHEN 2 THEN 'step failed' WHEN 3 THEN 'attempt failed'"
    " WHEN 4 THEN 'step cancelled' WHEN 5 THEN 'step begun' WHEN 6 THEN 'timer'"
    " WHEN 7 THEN 'signal' WHEN 8 THEN 'cancel' WHEN 9 THEN 'slot' WHEN 10 THEN 'slot failed'"
    " WHEN 11 THEN 'lock queued' WHEN 12 THEN 'lock granted' WHEN 13 THEN 'lock failed'"
    " WHEN 14 THEN 'lock released' WHEN 40 THEN 'child started' WHEN 41 THEN 'child refused'"
    " WHEN 42 THEN 'child done' WHEN 43 THEN 'child failed' WHEN 44 THEN 'patch'"
    " WHEN 45 THEN 'update' ELSE 'unknown' END ";

// 'scheduled' is not stored: it is a running one whose start is in the future.
inline constexpr std::string_view state_branches =
    " WHEN 1 THEN 'running' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' WHEN 4 THEN 'cancelled'"
    " WHEN 5 THEN 'timed-out' WHEN 6 THEN 'queued' ELSE 'unknown' END ";

}  // namespace tenure::stored_flow
