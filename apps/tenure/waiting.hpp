// waiting.hpp: getting the lock for `tenure run`: the wait, what it shows, and what ends it.
#pragma once

#include <optional>

#include "options.hpp"
#include "process/signals.hpp"
#include "space_choice.hpp"
#include "tenure/hold.hpp"
#include "tenure/ticket.hpp"

namespace tenure::cli {

struct Acquired {
  std::optional<Hold> hold;
  int signal = 0;  // This ended the wait. Neither: the lock was not had in time.
};

// Waits on another thread, reading signals on this one: what would end a process ends the wait,
// and then nothing is left in line. Throws what Locker's calls throw.
[[nodiscard]] Acquired acquire(const RunOptions& options, const OpenSpace& in, const Owner& owner,
                               const process::Signals& signals);

}  // namespace tenure::cli
