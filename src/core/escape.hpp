// escape.hpp: any bytes as text that people can read, copy and type (the text form of path.hpp).
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

// Cannot be seen, or turns the direction of text: never stands for itself in a text form.
[[nodiscard]] bool is_invisible(char32_t code) noexcept;

// What a segment escapes besides invisible characters and bytes that are not UTF-8.
inline constexpr std::string_view reserved_in_segment = "/%\" ";

void append_escaped_byte(std::string& out, char byte);
void append_escaped(std::string& out, std::string_view bytes,
                    std::string_view reserved = reserved_in_segment);

// The same text where it is valid UTF-8 without zero bytes; other bytes become %XX. JSON parsers
// refuse a document with other bytes, and PostgreSQL's jsonb one with a zero byte.
[[nodiscard]] std::string as_utf8(std::string_view bytes);

}  // namespace tenure
