#include "tenure/claim.hpp"

#include "core/escape.hpp"

namespace tenure {

std::string Mode::text() const {
  if (is_exclusive()) return "exclusive";
  std::string out;
  std::string_view rest = name();
  // A group of that name: its first letter is escaped to make the difference visible.
  if (rest == "exclusive") {
    append_escaped_byte(out, rest.front());
    rest.remove_prefix(1);
  }
  append_escaped(out, rest, "/%\" :()");
  if (limit() != 0) {
    out += '(';
    out += std::to_string(limit());
    out += ')';
  }
  return out;
}

std::string Claim::text() const {
  std::string out = path.text();
  // The path may contain a colon; the last colon always begins the mode.
  if (!mode.is_exclusive() || out.contains(':')) {
    out += ':';
    out += mode.text();
  }
  return out;
}

}  // namespace tenure
