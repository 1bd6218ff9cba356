// graph.hpp: the names in `needs` become tasks, and cycles are refused.
#pragma once

#include <vector>

#include "pipeline/manifest/read_task.hpp"

namespace tenure::pipeline {

[[nodiscard]] std::vector<Task> resolve_needs(const Scope& scope, std::vector<ReadTask> tasks);

}  // namespace tenure::pipeline
