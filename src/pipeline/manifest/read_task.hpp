// read_task.hpp: one task of a manifest.
#pragma once

#include <vector>

#include "pipeline/manifest/table.hpp"

namespace tenure::pipeline {

// A task before the names in its `needs` are looked up.
struct ReadTask {
  Task task;
  std::vector<Text> needs;
};

// `scope` has the name of the task and the values of its matrix. `defaults` may be null.
[[nodiscard]] ReadTask read_task(const Scope& scope, const toml::table& task, Position position,
                                 const toml::table* defaults);

// One edit of a file.
[[nodiscard]] Edit read_edit(const Table& table);

}  // namespace tenure::pipeline
