// demo.hpp: `tenure demo`: shows live what a lock space does.
#pragma once

#include "terminal.hpp"

namespace tenure::cli {

// Prints to standard output, for about three seconds. Returns the exit status.
int demo(const Terminal& terminal);

}  // namespace tenure::cli
