// terminal_block.hpp: some lines at the end of a terminal that are drawn over and over.
//
// No alternate screen and no hidden cursor: after SIGKILL of this process the terminal shows the
// last lines, and is as usable as before.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tenure::cli {

class TerminalBlock {
 public:
  // Lines may have colours, and must fit into the columns of the terminal.
  void show(const std::vector<std::string>& lines);
  // Removes the lines; what is printed next begins where they were.
  void clear();
  // The lines stay, and what is printed next comes below.
  void leave();
  // Prints whole lines where the block was; the next show() draws it below them.
  void above(std::string_view text);

 private:
  [[nodiscard]] std::string to_top() const;

  std::vector<std::size_t> widths_;  // Of the lines that are there now.
};

}  // namespace tenure::cli
