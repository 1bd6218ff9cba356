// demo_processes.hpp: the part of `tenure demo` with processes: the holder is killed, and the next
// process gets the lock.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Starts four processes that request one path in a temporary file, kills the holder, and prints how
// soon the next one is granted.
void show_processes(const Terminal& terminal);

// The work of each of the four: reports when it holds the lock, and releases it when its input
// ends.
int contend(const ContenderOptions& options);

}  // namespace tenure::cli
