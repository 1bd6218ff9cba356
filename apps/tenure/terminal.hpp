// terminal.hpp: whether and how standard output is coloured.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenure::cli {

enum class Style : std::uint8_t { plain, bold, dim, red, green, yellow };

class Terminal {
 public:
  explicit Terminal(bool colours) noexcept : colours_(colours) {}
  // Colours where standard output is a terminal that has them, and NO_COLOR is not set.
  [[nodiscard]] static Terminal detect();

  [[nodiscard]] std::string paint(Style style, std::string_view text) const;

 private:
  bool colours_;
};

// Breaks at spaces. A word that is longer than `columns` has a line to itself.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t columns, std::string_view indent);

}  // namespace tenure::cli
