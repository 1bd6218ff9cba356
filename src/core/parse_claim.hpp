// parse_claim.hpp: a claim as people write it: the text form of Claim::text().
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"

namespace tenure {

// What Claim::text() returns ("book/3:shared", "vendor:permits(3)"), and "book/3:exclusive". The
// last colon begins the mode. The error says what to write instead.
[[nodiscard]] std::expected<Claim, std::string> parse_claim(std::string_view text);

}  // namespace tenure
