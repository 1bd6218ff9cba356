// demo_flow.hpp: the scene of `tenure demo` in which a workflow is killed and recovered.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

void show_flow(const Terminal& terminal);

// The work of each of its processes: goes on with the workflow, or starts it.
int work_on_demo_flow(const DemoWorkerOptions& options);

}  // namespace tenure::cli
