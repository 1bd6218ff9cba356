// bench.hpp: `tenure bench`: a load for any space, and what it bore.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Prints to standard output and returns the exit status. To be called before there are threads.
int bench(const BenchOptions& options);

}  // namespace tenure::cli
