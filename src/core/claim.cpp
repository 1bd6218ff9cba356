#include "tenure/claim.hpp"

#include "core/escape.hpp"

namespace tenure {

std::string Mode::text() const {
  if (is_exclusive()) return "exclusive";
  std::string out;
  std::string_view rest = name();
  if (rest == "exclusive") {  // A group of that name: its first letter is escaped, to be seen.
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
  // A colon may be part of the path; the last one always begins the mode.
  if (!mode.is_exclusive() || out.contains(':')) {
    out += ':';
    out += mode.text();
  }
  return out;
}

}  // namespace tenure
