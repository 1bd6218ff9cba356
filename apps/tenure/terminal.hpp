// terminal.hpp: output to a terminal: colours, and escaping of text from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenure::cli {

enum class Style : std::uint8_t { plain, bold, dim, red, green, yellow };

class Terminal {
 public:
  explicit Terminal(bool colours) noexcept : colours_(colours) {}
  // Uses colours if the descriptor is a terminal that has them, and NO_COLOR is not set.
  [[nodiscard]] static Terminal of(int descriptor);
  [[nodiscard]] static Terminal detect();  // Of standard output.

  [[nodiscard]] std::string paint(Style style, std::string_view text) const;

 private:
  bool colours_;
};

// Whether it is a terminal on which a line can be overwritten.
[[nodiscard]] bool can_rewrite(int descriptor);

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};
[[nodiscard]] ScreenSize screen_size(int descriptor);

// Text from outside: invisible characters and bytes that are not UTF-8 become %XX, so that the text
// can't move the cursor, change colours or change the direction of other text.
[[nodiscard]] std::string printable(std::string_view text);

// The columns that printable text takes; and as much of it as fits, with … for the rest.
[[nodiscard]] std::size_t width(std::string_view text);
[[nodiscard]] std::string fit(std::string_view text, std::size_t columns);

// Breaks at spaces. A word longer than `columns` has its own line.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t columns, std::string_view indent);

}  // namespace tenure::cli
