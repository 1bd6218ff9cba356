// list.hpp: `tenure ls`, `tree`, `show`: the current content of a space.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Print to standard output and return the exit status.
int ls(const LsOptions& options, const Terminal& terminal);
int tree(const TreeOptions& options, const Terminal& terminal);
int show(const ShowOptions& options, const Terminal& terminal);

}  // namespace tenure::cli
