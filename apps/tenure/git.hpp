// git.hpp: `tenure git`: a command in a worktree of a git branch, committed and pushed, or nothing.
#pragma once

#include "options.hpp"

namespace tenure::cli {

// Returns the exit status. To be called before there are threads.
int git(const GitOptions& options);

}  // namespace tenure::cli
