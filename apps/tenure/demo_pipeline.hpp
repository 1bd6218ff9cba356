// demo_pipeline.hpp: the scene of `tenure demo` in which a pipeline is killed and resumed.
#pragma once

#include "terminal.hpp"

namespace tenure::cli {

void show_pipeline(const Terminal& terminal);

}  // namespace tenure::cli
