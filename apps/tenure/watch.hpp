// watch.hpp: `tenure watch`: the list, as it changes.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// On a terminal a screen that q or Ctrl-C leaves; elsewhere one list after the other. Returns the
// exit status. To be called before there are threads.
int watch(const WatchOptions& options, const Terminal& terminal);

}  // namespace tenure::cli
