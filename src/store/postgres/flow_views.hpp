// flow_views.hpp: plain SQL views of workflows and their logs. @ stands for the schema.
//
//   SELECT id, type, state, tags FROM tenure.flows WHERE state = 'failed';
//   SELECT time, kind, name, value FROM tenure.flow_log WHERE workflow = 'order-7';
//
// Keys and values are binary with readable texts inside (flow/keys.hpp, flow/entry.hpp). A value
// that cannot be decoded has NULLs. A change of those formats needs a new routines_version.
#pragma once

#include <string>

namespace tenure::postgres {

// In the order in which they must be created.
[[nodiscard]] std::string flow_views_sql();

}  // namespace tenure::postgres
