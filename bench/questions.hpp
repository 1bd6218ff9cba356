// questions.hpp: what local_bench asks, one source file each. README.md has the bars.
#pragma once

#include "bench/ratio.hpp"

namespace tenure::bench {

void ask_uncontended(Report& report);
void ask_uncontended_alone(Report& report);  // In a process that never had a second thread.
void ask_deep(Report& report);
void ask_rotation(Report& report);
void ask_claims(Report& report);
void ask_handoff(Report& report);
void ask_threads(Report& report);
void ask_memory(Report& report);
void ask_waiters(Report& report);
void ask_curve(Report& report);

}  // namespace tenure::bench
