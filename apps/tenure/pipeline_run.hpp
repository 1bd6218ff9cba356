// pipeline_run.hpp: `tenure pipeline run` and `resume`. pipeline_control.hpp has signals and keys.
#pragma once

#include "options.hpp"

namespace tenure::cli {

int run_pipeline(const PipelineCommand& options);

}  // namespace tenure::cli
