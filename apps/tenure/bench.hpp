// bench.hpp: `tenure bench`: puts load on a space, and reports rates and times.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Prints to standard output and returns the exit status. Must be called before there are threads.
int bench(const BenchOptions& options);

}  // namespace tenure::cli
