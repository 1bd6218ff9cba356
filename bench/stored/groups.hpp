// groups.hpp: the same lock beside few groups and beside many, in any kind of space.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "bench/program.hpp"
#include "bench/ratio.hpp"
#include "tenure/space.hpp"

namespace tenure::bench::stored {

// `open` opens the space of that name, each time with a new session.
void compare_groups(Report& report, const std::function<Space(const std::string& name)>& open,
                    std::chrono::microseconds round_time, std::size_t rounds);

}  // namespace tenure::bench::stored
