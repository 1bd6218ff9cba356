// flow.hpp: `tenure flow`: workflows of a store, for operators. No workflow runs in this program.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Returns the exit status.
int flow(const FlowCommand& options, const Terminal& terminal);

}  // namespace tenure::cli
