// own_files.hpp: which of its open files a guardian keeps. Its own are close-on-exec, at numbers
// from 64 on: scripts use small numbers for files of their own.
#pragma once

#include <span>

#include "process/descriptor.hpp"

namespace tenure::process {

// The same file, close-on-exec, at such a number.
[[nodiscard]] Descriptor lift(Descriptor descriptor);

// Closes every close-on-exec descriptor that is not in `own`: what no command would inherit.
// Sockets of other guardians are among them, through which a dead owner would seem to live.
void close_files_of_owner(std::span<const int> own);

// Closes what commands inherit; /dev/null takes the place of the standard descriptors, and the root
// that of the current directory.
void close_inherited_files();

}  // namespace tenure::process
