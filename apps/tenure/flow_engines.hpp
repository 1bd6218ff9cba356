// flow_engines.hpp: `tenure flow engines` and `tenure flow take-over ENGINE`.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Lists the engines of a store and the partitions that each one runs.
int flow_engines(const FlowCommand& options, const Terminal& terminal);
// Takes its partitions from an engine, so that others, or the next one that starts, run its
// workflows. Its writes are refused from then on; when it goes on, it queues again.
int flow_take_over(const FlowCommand& options);

}  // namespace tenure::cli
