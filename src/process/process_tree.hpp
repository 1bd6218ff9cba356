// process_tree.hpp: the processes that this process started, and those that they started.
//
// A subreaper becomes the parent of every process below it that loses its own parent, daemons
// included. So nothing below a subreaper can leave its tree, whatever files it closes and whatever
// session it moves to, and wait() = ECHILD says that nothing is left.
//
// Thread safety: all of it.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tenure::process {

struct TreeMember {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  bool dead = false;  // A zombie, waiting for its parent.
};

// Makes this process a subreaper.
void adopt_orphans();

// Everything below this process as /proc shows it, except `skipped` processes and what is below
// them. /proc is not a snapshot: a process that is born meanwhile may be missing, so repeat.
[[nodiscard]] std::vector<TreeMember> process_tree(std::span<const pid_t> skipped = {});

// Sends a signal to the whole group in one step, if it has members in the tree (0: no group), and
// to every process of the tree outside it. Continues those that are stopped, so that they can act.
void signal_tree(int signal, pid_t group);

// Stops (SIGSTOP) everything below this process, also what is born meanwhile.
void stop_tree();
void resume_tree();

// For an owner (guardian.hpp) whose guardian was killed: kills everything below this process except
// `kept` children, the living guardians among them, and reaps it. Returns when nothing is left.
void end_orphans(std::span<const pid_t> kept);

}  // namespace tenure::process
