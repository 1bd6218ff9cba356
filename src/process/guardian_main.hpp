// guardian_main.hpp: the guardian's side of guardian.hpp. One thread, in a process of its own.
#pragma once

#include "process/descriptor.hpp"
#include "process/guardian.hpp"

namespace tenure::process {

// In the forked process; returns its exit status.
[[nodiscard]] int guardian_main(const GuardianOptions& options, Descriptor owner);

}  // namespace tenure::process
