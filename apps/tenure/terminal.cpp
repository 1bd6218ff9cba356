#include "terminal.hpp"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>

namespace tenure::cli {
namespace {

// Called before there are other threads.
std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

}  // namespace

Terminal Terminal::detect() {
  return Terminal{::isatty(STDOUT_FILENO) == 1 && environment("NO_COLOR").empty() &&
                  environment("TERM") != "dumb"};
}

std::string Terminal::paint(Style style, std::string_view text) const {
  constexpr std::array codes = {"", "1", "2", "31", "32", "33"};
  if (!colours_ || style == Style::plain) return std::string{text};
  std::string out = "\x1b[";
  out += codes.at(static_cast<std::size_t>(style));
  return out.append("m").append(text).append("\x1b[0m");
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
