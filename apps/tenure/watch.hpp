// watch.hpp: `tenure watch`: the list of tickets, updated as it changes.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// On a terminal, a full screen that q or Ctrl-C leaves; otherwise one list after the other. Returns
// the exit status. Must be called before there are threads.
int watch(const WatchOptions& options, const Terminal& terminal);

}  // namespace tenure::cli
