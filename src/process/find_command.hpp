// find_command.hpp: whether there is such a command, as a shell would look for it.
#pragma once

#include <string>

namespace tenure::process {

// 0, ENOENT (not found) or EACCES (found, but not executable). PATH is read on the calling thread.
[[nodiscard]] int find_command(const std::string& name);

}  // namespace tenure::process
