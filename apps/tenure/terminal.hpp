// terminal.hpp: what may be written to a terminal: colours, and text of others made harmless.
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
  // Colours where the descriptor is a terminal that has them, and NO_COLOR is not set.
  [[nodiscard]] static Terminal of(int descriptor);
  [[nodiscard]] static Terminal detect();  // Of standard output.

  [[nodiscard]] std::string paint(Style style, std::string_view text) const;

 private:
  bool colours_;
};

// Whether it is a terminal on which a line can be written anew.
[[nodiscard]] bool can_rewrite(int descriptor);

struct ScreenSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};
[[nodiscard]] ScreenSize screen_size(int descriptor);

// Text that somebody else chose: what can't be seen, or is no UTF-8, becomes %XX, so that nothing
// in it can move the cursor, change colours or turn the direction of what stands beside it.
[[nodiscard]] std::string printable(std::string_view text);

// Columns that printable text takes; and as much of it as fits, with … where some is missing.
[[nodiscard]] std::size_t width(std::string_view text);
[[nodiscard]] std::string fit(std::string_view text, std::size_t columns);

// Breaks at spaces. A word that is longer than `columns` has a line to itself.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t columns, std::string_view indent);

}  // namespace tenure::cli
