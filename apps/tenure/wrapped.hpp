// wrapped.hpp: what subcommands have in common that take a lock and run a command under it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenure::cli {

// Looks for the command, so that a missing one is reported before anybody waits for a lock, and
// calls `run`. Returns its exit status, or that of what went wrong, which was printed. Throws
// UsageError that names `subcommand` for a bad request.
int run_wrapped(const std::string& subcommand, const std::vector<std::string>& command,
                const std::function<int()>& run);

}  // namespace tenure::cli
