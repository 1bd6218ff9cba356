#include "tenure/uuid.hpp"

#include <cstdint>

namespace tenure {
namespace {

constexpr std::size_t text_size = 36;
constexpr std::string_view digits = "0123456789abcdef";

constexpr bool dash_at(std::size_t index) {
  return index == 8 || index == 13 || index == 18 || index == 23;
}

std::optional<unsigned> nibble(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) noexcept {
  if (text.size() != text_size) return std::nullopt;
  Uuid uuid;
  std::size_t filled = 0;  // Counted in half bytes.
  for (std::size_t i = 0; i < text_size; ++i) {
    if (dash_at(i)) {
      if (text[i] != '-') return std::nullopt;
      continue;
    }
    const auto value = nibble(text[i]);
    if (!value) return std::nullopt;
    const unsigned shift = filled % 2 == 0 ? 4 : 0;
    uuid.bytes[filled / 2] |= static_cast<std::byte>(*value << shift);
    ++filled;
  }
  return uuid;
}

std::string Uuid::text() const {
  std::string out;
  out.reserve(text_size);
  for (const std::byte byte : bytes) {
    if (dash_at(out.size())) out += '-';
    out += digits[std::to_integer<std::uint8_t>(byte) >> 4U];
    out += digits[std::to_integer<std::uint8_t>(byte) & 15U];
  }
  return out;
}

}  // namespace tenure
