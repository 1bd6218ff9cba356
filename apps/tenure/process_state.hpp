// process_state.hpp: whether a process that holds something is stopped (SIGSTOP, Ctrl-Z, a
// debugger). In `sqlite:` it counts as alive, so others wait until it goes on or is killed.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenure::cli {

// False also for a process of another machine, and for one that is gone.
[[nodiscard]] bool is_stopped(std::string_view host, std::int64_t pid);

}  // namespace tenure::cli
