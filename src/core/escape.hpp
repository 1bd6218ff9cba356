// escape.hpp: arbitrary bytes as text that people can read, copy and type (the text form of
// path.hpp).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenure {

// The valid UTF-8 character at the front of some bytes.
struct Character {
  std::size_t size = 0;  // In bytes. 0: the first byte begins no valid character.
  char32_t code = 0;
};
[[nodiscard]] Character first_character(std::string_view bytes) noexcept;

// The character is invisible, or changes the direction of text: it is always escaped.
[[nodiscard]] bool is_invisible(char32_t code) noexcept;

// Characters that are escaped in a segment, in addition to invisible ones and bytes that are not
// UTF-8.
inline constexpr std::string_view reserved_in_segment = "/%\" ";

void append_escaped_byte(std::string& out, char byte);
void append_escaped(std::string& out, std::string_view bytes,
                    std::string_view reserved = reserved_in_segment);

// Returns valid UTF-8 without zero bytes unchanged; other bytes become %XX. JSON parsers reject
// documents with such bytes, and PostgreSQL's jsonb rejects a zero byte.
[[nodiscard]] std::string as_utf8(std::string_view bytes);

}  // namespace tenure
