// run.hpp: `tenure run`: a command that runs while a lock is held, and no longer.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Returns the exit status. To be called before there are threads.
int run(const RunOptions& options);

}  // namespace tenure::cli
