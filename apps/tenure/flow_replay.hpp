// flow_replay.hpp: `tenure flow replay --program PROGRAM [ID]`.
#pragma once

#include "flow/queries.hpp"
#include "options.hpp"

namespace tenure::cli {

// Exports the history of the workflow, or of all that the filters let through, into files, and runs
// the user's program on them, which has the definitions (tenure/flow_replay.hpp). The worst of its
// exit statuses: 0 where all fit, 1 where one does not, 2 where one cannot be read.
int flow_replay(const FlowCommand& options, Store& store, const flow::Queries& queries);

}  // namespace tenure::cli
