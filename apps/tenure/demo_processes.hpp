// demo_processes.hpp: the part of `tenure demo` with processes: the holder is killed, and the next
// process gets the lock.
#pragma once

#include "options.hpp"
#include "terminal.hpp"

namespace tenure::cli {

// Starts four processes that want one path of a temporary file, kills whoever holds it, and prints
// how soon the next one has it.
void show_processes(const Terminal& terminal);

// What each of the four does: says when it has the lock, and gives it back when its input ends.
int contend(const ContenderOptions& options);

}  // namespace tenure::cli
