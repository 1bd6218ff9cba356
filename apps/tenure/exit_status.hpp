// exit_status.hpp: exit statuses, for scripts. docs/cli.md and the manual page list them.
#pragma once

namespace tenure::cli {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;    // The space can't be used, or nothing was found.
inline constexpr int exit_usage = 2;      // A wrong command line.
inline constexpr int exit_deadlock = 73;  // run: it would have waited for itself for ever.
// run: the lock, or the position in the queue, was taken away.
inline constexpr int exit_lost = 74;
inline constexpr int exit_not_in_time = 75;  // run: EX_TEMPFAIL, unless -E chooses another.
inline constexpr int exit_not_executable = 126;
inline constexpr int exit_not_found = 127;
inline constexpr int exit_signal = 128;  // Plus the number of the signal.

}  // namespace tenure::cli
