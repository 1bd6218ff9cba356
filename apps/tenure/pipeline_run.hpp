// pipeline_run.hpp: `tenure pipeline run` and `resume`.
//
//   signal                | what happens
//   ----------------------+-------------------------------------------------------------------
//   SIGINT, SIGTERM, HUP  | tasks that run get SIGTERM, and SIGKILL after their `grace`; nothing
//                         | more starts; exit status 130
//   a second one          | tasks that run are killed at once
//   SIGUSR1, SIGUSR2      | nothing more starts; tasks start again
#pragma once

#include "options.hpp"

namespace tenure::cli {

int run_pipeline(const PipelineCommand& options);

}  // namespace tenure::cli
