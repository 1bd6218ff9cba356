#include "terminal_block.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "terminal.hpp"

namespace tenure::cli {
namespace {

// Without colours.
std::size_t visible_width(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size());
    } else {
      plain += text[i];
    }
  }
  return width(plain);
}

void write_out(std::string_view text) {
  fmt::print("{}", text);
  (void)std::fflush(stdout);
}

}  // namespace

// The cursor is at the end of the last line. A terminal that became narrower has wrapped lines.
std::string TerminalBlock::to_top() const {
  if (widths_.empty()) return {};
  const ScreenSize size = screen_size(STDOUT_FILENO);
  std::size_t rows = 0;
  for (const std::size_t width : widths_) {
    rows += std::max<std::size_t>(1, (width + size.columns - 1) / size.columns);
  }
  rows = std::min(rows, size.rows);
  return rows > 1 ? fmt::format("\r\x1b[{}A", rows - 1) : "\r";
}

void TerminalBlock::show(const std::vector<std::string>& lines) {
  std::string out = to_top();
  widths_.clear();
  for (const std::string& line : lines) {
    out.append(widths_.empty() ? "" : "\r\n").append(line).append("\x1b[K");
    widths_.push_back(visible_width(line));
  }
  write_out(out + "\x1b[J");
}

void TerminalBlock::clear() {
  if (widths_.empty()) return;
  write_out(to_top() + "\x1b[J");
  widths_.clear();
}

void TerminalBlock::leave() {
  if (!widths_.empty()) write_out("\r\n");
  widths_.clear();
}

void TerminalBlock::above(std::string_view text) {
  clear();
  write_out(text);
}

}  // namespace tenure::cli
