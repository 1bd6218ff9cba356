// flow_schedules.hpp: `tenure flow schedules`.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Lists the schedules of a store with their next times, or pauses, resumes or triggers one. Returns
// the exit status; throws Error.
int flow_schedules(const FlowCommand& options, const Terminal& terminal);

}  // namespace tenure::cli
