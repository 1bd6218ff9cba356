// ends.hpp: the end of a task, as users see it.
#pragma once

#include "pipeline/plan.hpp"
#include "tenure/pipeline.hpp"

namespace tenure::pipeline {

// Requires: is_end(state).
[[nodiscard]] constexpr TaskEnd end_of(State state) noexcept {
  return static_cast<TaskEnd>(static_cast<int>(state) - static_cast<int>(State::done));
}
static_assert(end_of(State::done) == TaskEnd::done);
static_assert(end_of(State::failed) == TaskEnd::failed);
static_assert(end_of(State::blocked) == TaskEnd::blocked);
static_assert(end_of(State::skipped) == TaskEnd::skipped);
static_assert(end_of(State::cancelled) == TaskEnd::cancelled);

}  // namespace tenure::pipeline
