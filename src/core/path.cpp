#include "tenure/path.hpp"

#include <optional>
#include <ostream>

#include "core/escape.hpp"
#include "core/typed_path.hpp"
#include "tenure/claim.hpp"

namespace tenure {
namespace {

constexpr std::string_view empty_segment = "\"\"";

std::unexpected<PathError> fail(std::size_t at, std::string_view why) {
  return std::unexpected(PathError{.at = at, .why = why});
}

std::optional<unsigned> upper_nibble(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

bool is_lower_hex(char c) { return c >= 'a' && c <= 'f'; }

// The byte that the escape at the front of `text` stands for.
std::expected<char, PathError> parse_escape(std::string_view text) {
  unsigned value = 0;
  for (std::size_t i = 1; i <= 2; ++i) {
    const auto nibble = i < text.size() ? upper_nibble(text[i]) : std::nullopt;
    if (!nibble) {
      if (i < text.size() && is_lower_hex(text[i])) {
        return fail(i, "an escape needs upper-case digits: write %2F, not %2f");
      }
      return fail(0, "% must be followed by two hex digits: write %25 for a percent sign");
    }
    value = value * 16 + *nibble;
  }
  return static_cast<char>(value);
}

std::string_view why_escape(std::string_view rest) {
  switch (rest.front()) {
    case ' ': return "write a space as %20";
    case '"': return "write a double quote as %22; \"\" alone is the empty segment";
    default: break;
  }
  if (first_character(rest).size == 0) return "this byte is not UTF-8: write it as %XX";
  return "this character is not printable: write each of its bytes as %XX";
}

// The bytes of one segment with the text `raw`. The offset of an error counts from the start of the
// segment.
std::expected<std::string, PathError> parse_segment(std::string_view raw) {
  if (raw == empty_segment) return std::string{};
  std::string bytes;
  for (std::size_t at = 0; at < raw.size();) {
    if (raw[at] != '%') {
      bytes += raw[at++];
      continue;
    }
    const auto byte = parse_escape(raw.substr(at));
    if (!byte) return fail(at + byte.error().at, byte.error().why);
    bytes += *byte;
    at += 3;
  }
  // Both texts stand for the same bytes, so at the first difference one of them has an escape.
  std::string canonical;
  append_escaped(canonical, bytes);
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(raw, canonical).in1 - raw.begin());
  if (at == raw.size()) return bytes;
  if (raw[at] == '%') return fail(at, "this escape is not needed: write the character itself");
  return fail(at, why_escape(raw.substr(at)));
}

}  // namespace

std::string PathError::message(std::string_view text) const {
  constexpr std::size_t shown = 100;
  std::string out = "bad path \"";
  append_escaped(out, text.substr(0, shown), "");
  if (text.size() > shown) out += "...";
  out += "\" at byte ";
  out += std::to_string(at);
  out += ": ";
  out += why;
  return out;
}

std::expected<Path, PathError> Path::parse(std::string_view text) {
  if (text.empty()) return fail(0, "the path is empty: write / for the root");
  if (text == "/") return Path{};
  if (text.front() == '/') return fail(0, "a path does not start with a slash: remove it");
  if (text.back() == '/')
    return fail(text.size() - 1, "a path does not end with a slash: remove it");
  Path path;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    if (end == at)
      return fail(at, "this segment is empty: remove a slash, or write \"\" for an empty segment");
    const auto segment = parse_segment(text.substr(at, end - at));
    if (!segment) return fail(at + segment.error().at, segment.error().why);
    if (path.depth() == max_depth) return fail(at, "this is segment 65: use at most 64");
    if (!path.has_room_for(*segment)) {
      return fail(at, "this segment makes the path longer than 4096 bytes: replace it by a hash");
    }
    path.append(*segment);
    at = end + 1;
  }
  return path;
}

Path Path::from_typed(std::string_view text) {
  std::expected<Path, std::string> path = parse_typed_path(text);
  if (!path) throw BadRequest(path.error());
  return *std::move(path);
}

// By way of the text form, so that there is one parser, and its errors.
std::expected<Path, std::string> parse_typed_path(std::string_view text) {
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    std::string shown;  // The rest may contain a password.
    append_escaped(shown, text.substr(0, scheme), "");
    return std::unexpected("'" + shown +
                           "://…' is a URL, not a path: pass it to tenure::open(), or as --space");
  }
  if (text.size() > 1 && text.starts_with('/')) text.remove_prefix(1);
  if (text.size() > 1 && text.ends_with('/')) text.remove_suffix(1);
  std::string canonical;
  for (;;) {
    const std::string_view segment = text.substr(0, text.find('/'));
    if (segment == empty_segment) {
      canonical += segment;
    } else {
      append_escaped(canonical, segment, "\" ");
    }
    if (segment.size() == text.size()) break;
    canonical += '/';
    text.remove_prefix(segment.size() + 1);
  }
  std::expected<Path, PathError> path = Path::parse(canonical);
  if (!path) return std::unexpected(path.error().message(canonical));
  return *std::move(path);
}

std::string Path::text() const {
  if (is_root()) return "/";
  std::string out;
  for (const std::string_view segment : segments()) {
    if (!out.empty()) out += '/';
    if (segment.empty()) out += empty_segment;
    append_escaped(out, segment);
  }
  return out;
}

Claim Path::exclusive() const { return {*this, Mode::exclusive()}; }
Claim Path::shared() const { return {*this, Mode::shared()}; }
Claim Path::group(std::string_view name) const { return {*this, Mode::group(name)}; }
Claim Path::group(std::string_view name, std::uint32_t limit) const {
  return {*this, Mode::group(name, limit)};
}
Claim Path::permits(std::uint32_t limit) const { return {*this, Mode::permits(limit)}; }

std::ostream& operator<<(std::ostream& out, const Path& path) { return out << path.text(); }

}  // namespace tenure
