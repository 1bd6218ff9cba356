#include <fmt/core.h>
#include <unistd.h>

#include "exit_status.hpp"
#include "list.hpp"
#include "snapshot.hpp"

namespace tenure::cli {

int ls(const LsOptions& options, const Terminal& terminal) {
  const Snapshot snapshot = look_once(options);
  report_missing_shards(snapshot);
  if (options.json) {
    fmt::print("{}", json_text(snapshot));
    return exit_ok;
  }
  const bool on_terminal = ::isatty(STDOUT_FILENO) == 1;
  const std::size_t columns = on_terminal ? screen_size(STDOUT_FILENO).columns : 0;
  if (!snapshot.tickets.empty()) fmt::print("{}", table_text(snapshot, terminal, columns));
  if (snapshot.tickets.empty() && on_terminal) fmt::print("There are no locks.\n");
  return exit_ok;
}

}  // namespace tenure::cli
