// typed_path.hpp: a path as people type it; path.hpp describes the syntax.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "tenure/path.hpp"

namespace tenure {

// The error says what to write instead.
[[nodiscard]] std::expected<Path, std::string> parse_typed_path(std::string_view text);

}  // namespace tenure
