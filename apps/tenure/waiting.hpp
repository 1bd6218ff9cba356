// waiting.hpp: acquires the lock for `tenure run`: the wait, what it shows, and what ends it.
#pragma once

#include <optional>

#include "options.hpp"
#include "process/signals.hpp"
#include "space_choice.hpp"
#include "tenure/file_lock.hpp"
#include "tenure/hold.hpp"
#include "tenure/ticket.hpp"

namespace tenure::cli {

struct Acquired {
  std::optional<Hold> hold;
  std::optional<FileLock> file;  // With --flock, and a hold.
  int signal = 0;  // The signal that ended the wait. Neither: the lock was not granted in time.
};

// Waits on another thread, and reads signals on this one: a signal that would end the process ends
// the wait, and leaves no ticket behind. Throws what Locker's calls throw.
[[nodiscard]] Acquired acquire(const RunOptions& options, const OpenSpace& in, const Owner& owner,
                               const process::Signals& signals);

}  // namespace tenure::cli
