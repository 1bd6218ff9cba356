// find_command.hpp: whether there is such a command, as a shell would look for it.
#pragma once

#include <string>

namespace tenure::cli {

// 0, exit_not_executable or exit_not_found. A command that is missing should not wait for a lock
// first.
[[nodiscard]] int find_command(const std::string& name);

}  // namespace tenure::cli
