#include "pipeline/edits/content.hpp"

#include <cstddef>
#include <utility>

#include "core/escape.hpp"

namespace tenure::pipeline {

std::string key_text(const std::vector<std::string>& key) {
  std::string out;
  for (const std::string& part : key) {
    if (!out.empty()) out += '.';
    const bool plain = !part.empty() && !part.contains('.') && !part.contains('\'');
    if (!plain) out += '\'';
    append_escaped(out, part, "");
    if (!plain) out += '\'';
  }
  return "`" + out + "`";
}

Content replace_text(std::string_view bytes, const Edit::Replace& replace) {
  const std::size_t at = bytes.find(replace.from);
  std::string shown;
  append_escaped(shown, std::string_view{replace.from}.substr(0, 80), "");
  if (at == std::string_view::npos) {
    return std::unexpected("the text '" + shown + "' does not occur: check `from`");
  }
  if (bytes.find(replace.from, at + 1) != std::string_view::npos) {
    return std::unexpected("the text '" + shown +
                           "' occurs more than once: make `from` longer until it is unique");
  }
  std::string out{bytes.substr(0, at)};
  out += replace.to;
  out += bytes.substr(at + replace.from.size());
  return out;
}

Content edited_content(std::string_view bytes, const Edit& edit) {
  Content out{std::string{bytes}};
  for (const Edit::Set& set : edit.set) {
    out = edit.format == Edit::Format::json ? set_json(*out, set) : set_toml(*out, set);
    if (!out) return out;
  }
  for (const Edit::Replace& replace : edit.replace) {
    out = replace_text(*out, replace);
    if (!out) return out;
  }
  return out;
}

}  // namespace tenure::pipeline
