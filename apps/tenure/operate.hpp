// operate.hpp: `tenure evict`, `ask`, `limit`, `doctor` and `shards`: commands for operators.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Return the exit status.
int evict(const EvictOptions& options);
int ask(const AskOptions& options);
int limit(const LimitOptions& options);
int shards(const ShardsOptions& options);
int doctor(const DoctorOptions& options, const Terminal& terminal);

}  // namespace tenure::cli
