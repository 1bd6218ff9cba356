#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cwchar>

#include "core/escape.hpp"
#include "environment.hpp"

namespace tenure::cli {
namespace {

std::size_t columns_of(char32_t code) {
  const int columns = ::wcwidth(static_cast<wchar_t>(code));
  return columns < 0 ? 1 : static_cast<std::size_t>(columns);
}

}  // namespace

Terminal Terminal::of(int descriptor) {
  return Terminal{can_rewrite(descriptor) && environment("NO_COLOR").empty()};
}

Terminal Terminal::detect() { return of(STDOUT_FILENO); }

bool can_rewrite(int descriptor) {
  return ::isatty(descriptor) == 1 && environment("TERM") != "dumb";
}

ScreenSize screen_size(int descriptor) {
  winsize size{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {.rows = size.ws_row, .columns = size.ws_col};
}

std::string Terminal::paint(Style style, std::string_view text) const {
  constexpr std::array codes = {"", "1", "2", "31", "32", "33"};
  if (!colours_ || style == Style::plain) return std::string{text};
  std::string out = "\x1b[";
  out += codes.at(static_cast<std::size_t>(style));
  return out.append("m").append(text).append("\x1b[0m");
}

std::string printable(std::string_view text) {
  std::string out;
  append_escaped(out, text, {});
  return out;
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += character.size == 0 ? 1 : columns_of(character.code);
    text.remove_prefix(character.size == 0 ? 1 : character.size);
  }
  return columns;
}

std::string fit(std::string_view text, std::size_t columns) {
  if (columns == 0) return {};
  if (width(text) <= columns) return std::string{text};
  std::size_t size = 0;
  std::size_t used = 1;  // The … itself.
  while (size < text.size()) {
    const Character character = first_character(text.substr(size));
    used += character.size == 0 ? 1 : columns_of(character.code);
    if (used > columns) break;
    size += character.size == 0 ? 1 : character.size;
  }
  return std::string{text.substr(0, size)} + "…";
}

std::string wrap(std::string_view text, std::size_t columns, std::string_view indent) {
  std::string out;
  std::size_t used = columns;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (used + 1 + word.size() > columns) {
      out.append(out.empty() ? "" : "\n").append(indent).append(word);
      used = indent.size() + word.size();
    } else {
      out.append(" ").append(word);
      used += 1 + word.size();
    }
    text.remove_prefix(word.size() == text.size() ? text.size() : word.size() + 1);
  }
  return out;
}

}  // namespace tenure::cli
