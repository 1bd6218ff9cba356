// questions.hpp: what flow_bench asks, one source file each. README.md has the bars.
#pragma once

#include "bench/ratio.hpp"

namespace tenure::bench::flow {

void ask_steps(Report& report);
void ask_postgres(Report& report);
void ask_replay(Report& report);
void ask_long_history(Report& report);
void ask_sleepers(Report& report);
void ask_admission(Report& report);
void ask_handoff(Report& report);
void ask_idle_schedules(Report& report);
void ask_firing(Report& report);
void ask_queue(Report& report);
void ask_fan_out(Report& report);
void ask_signals(Report& report);

}  // namespace tenure::bench::flow
