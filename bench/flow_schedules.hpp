// flow_schedules.hpp: questions of flow_bench about what starts workflows, and when.
#pragma once

#include "bench/ratio.hpp"

namespace tenure::bench {

void ask_idle_schedules(Report& report);
void ask_firing(Report& report);
void ask_queue(Report& report);

}  // namespace tenure::bench
