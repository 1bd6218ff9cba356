// content.hpp: the bytes of an edited file, made from those that are there. Pure.
//
// Only the values that are set, and texts that are replaced, change; all other bytes stay. A file
// with a key twice is refused: parsers do not agree on which one counts. The result is parsed: it
// must be the document before with exactly the new values in it.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "pipeline/manifest.hpp"

namespace tenure::pipeline {

// The error says what is wrong, where, and what to do.
using Content = std::expected<std::string, std::string>;

[[nodiscard]] Content edited_content(std::string_view bytes, const Edit& edit);

// One value. The key's last part may be new, and so may tables above it. A part of digits is the
// index of an array's element, which must be there.
[[nodiscard]] Content set_json(std::string_view bytes, const Edit::Set& set);
[[nodiscard]] Content set_toml(std::string_view bytes, const Edit::Set& set);
[[nodiscard]] Content replace_text(std::string_view bytes, const Edit::Replace& replace);

// "a.'b.c'": a key as messages show it.
[[nodiscard]] std::string key_text(const std::vector<std::string>& key);

}  // namespace tenure::pipeline
