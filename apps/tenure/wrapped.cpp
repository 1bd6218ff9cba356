#include "wrapped.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>

#include "cli.hpp"
#include "exit_status.hpp"
#include "process/find_command.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {

int run_wrapped(const std::string& subcommand, const std::vector<std::string>& command,
                const std::function<int()>& run) {
  if (const int error = process::find_command(command.front()); error != 0) {
    const bool missing = error == ENOENT;
    fmt::print(stderr, "tenure: {}: {}\n", printable(command.front()),
               missing ? "command not found" : "not executable");
    return missing ? exit_not_found : exit_not_executable;
  }
  try {
    return run();
  } catch (const Deadlock& error) {
    fmt::print(stderr, "tenure: {}\n", printable(error.what()));
    return exit_deadlock;
  } catch (const Evicted& error) {
    fmt::print(stderr, "tenure: {}\n", printable(error.what()));
    return exit_lost;
  } catch (const BadRequest& error) {
    throw UsageError(printable(error.what()), subcommand);
  }
}

}  // namespace tenure::cli
