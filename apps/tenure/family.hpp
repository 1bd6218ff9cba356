// family.hpp: the processes that a process started, and those that they started.
//
// A process that adopts (PR_SET_CHILD_SUBREAPER) is the parent of all that lose theirs below it,
// daemons included, so none gets lost however it closes files or changes its group.
#pragma once

#include <sys/types.h>

#include <vector>

namespace tenure::cli {

struct Relative {
  pid_t pid = 0;
  pid_t group = 0;
};

// Takes in the orphans of this process's family from now on.
void adopt_orphans();

// Everything below this process that is alive, as /proc shows it.
[[nodiscard]] std::vector<Relative> family();

// To the whole group in one step, where there is one (not 0), and to each relative outside it. One
// that is stopped is continued, so that it can obey.
void signal_family(int signal, pid_t group);

}  // namespace tenure::cli
