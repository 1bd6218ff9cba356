// pipeline_questions.hpp: what pipeline_bench asks in a source of its own.
#pragma once

#include "bench/ratio.hpp"

namespace tenure::bench {

void ask_pipeline_commands(Report& report);
void ask_pipeline_resume(Report& report);

}  // namespace tenure::bench
