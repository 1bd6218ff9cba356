// owner.hpp: on whose behalf a command of this program asks for a lock.
#pragma once

#include <string>

#include "tenure/ticket.hpp"

namespace tenure::cli {

// A new one. Inside the command of another `tenure run` it is a child of that one's owner. Throws
// UsageError, about `command`, for a TENURE_OWNER that is not valid.
[[nodiscard]] Owner new_owner(const std::string& command);

}  // namespace tenure::cli
