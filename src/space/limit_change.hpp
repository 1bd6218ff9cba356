// limit_change.hpp: Space::set_limit, as far as it is the same in every space: what is changed
// (rule.hpp says how), and when it is refused.
//
// Thread safety: all calls; no state.
#pragma once

#include <span>

#include "tenure/rule.hpp"

namespace tenure::space {

// Throws BadRequest for a claim that names no group with a limit.
void check_limit(const Claim& limit);

// `tickets`: all live ones. Throws LimitMismatch if the limit can't be changed, and Deadlock if
// owners would wait for each other under it.
[[nodiscard]] LimitChange plan_limit_change(const Claim& limit, std::span<const Ticket> tickets);

}  // namespace tenure::space
