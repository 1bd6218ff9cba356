// pipeline_status.hpp: `tenure pipeline status`: the last run of a manifest, once or live.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Returns the exit status. With `watch` it returns when the run has ended.
int show_status(const PipelineCommand& options);

}  // namespace tenure::cli
