#include "core/escape.hpp"

namespace tenure {
namespace {

constexpr char32_t value_of(char byte) noexcept { return static_cast<unsigned char>(byte); }

// The number of bytes of a character that begins with `lead`, and the smallest code point that
// needs them.
struct Form {
  std::size_t size = 0;
  char32_t first = 0;
};

constexpr Form form_of(char32_t lead) noexcept {
  if (lead < 0x80U) return {.size = 1, .first = 0};
  if (lead < 0xc0U) return {};
  if (lead < 0xe0U) return {.size = 2, .first = 0x80};
  if (lead < 0xf0U) return {.size = 3, .first = 0x800};
  if (lead < 0xf8U) return {.size = 4, .first = 0x10000};
  return {};
}

}  // namespace

Character first_character(std::string_view bytes) noexcept {
  if (bytes.empty()) return {};
  const char32_t lead = value_of(bytes.front());
  const Form form = form_of(lead);
  if (form.size <= 1) return {.size = form.size, .code = lead};
  if (bytes.size() < form.size) return {};
  char32_t code = lead & (0x7fU >> form.size);
  for (const char byte : bytes.substr(1, form.size - 1)) {
    if ((value_of(byte) & 0xc0U) != 0x80U) return {};
    code = (code << 6U) | (value_of(byte) & 0x3fU);
  }
  const bool surrogate = code >= 0xd800U && code <= 0xdfffU;
  if (code < form.first || code > 0x10ffffU || surrogate) return {};
  return {.size = form.size, .code = code};
}

bool is_invisible(char32_t code) noexcept {
  return code < 0x20U || (code >= 0x7fU && code <= 0x9fU) ||  // C0, DEL, C1.
         (code >= 0x200bU && code <= 0x200fU) ||              // Zero width, direction marks.
         (code >= 0x2028U && code <= 0x202eU) ||              // Separators, embeddings, overrides.
         (code >= 0x2060U && code <= 0x2069U) ||              // Word joiner to isolates.
         code == 0xfeffU;                                     // Byte order mark.
}

void append_escaped_byte(std::string& out, char byte) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  out += '%';
  out += digits[value_of(byte) >> 4U];
  out += digits[value_of(byte) & 15U];
}

void append_escaped(std::string& out, std::string_view bytes, std::string_view reserved) {
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    const std::size_t size = character.size == 0 ? 1 : character.size;
    const std::string_view taken = bytes.substr(0, size);
    if (character.size == 0 || is_invisible(character.code) || reserved.contains(bytes.front())) {
      for (const char byte : taken) append_escaped_byte(out, byte);
    } else {
      out += taken;
    }
    bytes.remove_prefix(size);
  }
}

std::string as_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    if (character.size == 0 || character.code == 0) {
      append_escaped_byte(out, bytes.front());
      bytes.remove_prefix(1);
    } else {
      out += bytes.substr(0, character.size);
      bytes.remove_prefix(character.size);
    }
  }
  return out;
}

}  // namespace tenure
