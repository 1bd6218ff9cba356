// pipeline.hpp: `tenure pipeline`: run the tasks of a manifest, look at them, go on with a run.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Returns the exit status. To be called before there are threads.
int pipeline(const PipelineCommand& options);

}  // namespace tenure::cli
