#include "space/stored/keys.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace tenure::stored {
namespace {

constexpr std::size_t group_header = 3;  // The tag and the length of the name.

std::size_t name_size(std::string_view group_key) noexcept {
  return static_cast<std::size_t>(static_cast<unsigned char>(group_key[1])) << 8U |
         static_cast<unsigned char>(group_key[2]);
}

std::optional<Mode> mode_in(std::string_view cls) {
  if (cls == exclusive_class) return Mode::exclusive();
  const std::string_view name = group_in(cls);
  if (name.empty() || name.size() > Mode::max_name) return std::nullopt;
  return cls.back() == '\0' ? Mode::group(name) : Mode::group(name, 1);
}

// As `place` writes it: each segment with a \1 in front, and its length as Path has it.
std::optional<Path> path_in(std::string_view text) {
  Path path;
  while (!text.empty()) {
    if (!text.starts_with('\1') || text.size() < 2 || path.depth() == Path::max_depth) return {};
    std::size_t size = static_cast<unsigned char>(text[1]);
    std::size_t from = 2;
    if (size >= 0x80U) {
      if (text.size() < 3) return std::nullopt;
      size = (size & 0x7fU) | (static_cast<std::size_t>(static_cast<unsigned char>(text[2])) << 7U);
      from = 3;
    }
    if (text.size() - from < size) return std::nullopt;
    if (path.bytes().size() + from - 1 + size > Path::max_bytes) return std::nullopt;
    path.append(text.substr(from, size));
    text.remove_prefix(from + size);
  }
  return path;
}

std::string place(std::string_view cls, const Path& path, char end) {
  std::string out{cls};
  out.reserve(cls.size() + path.bytes().size() + path.depth() + 1 + stamp_size);
  const char* at = path.bytes().data();
  for (const std::string_view segment : path.segments()) {
    const char* const behind = segment.data() + segment.size();
    out += '\1';
    out.append(at, behind);
    at = behind;
  }
  out += end;
  return out;
}

}  // namespace

std::string group_class(std::string_view group, bool limited) {
  std::string cls{group_tag};
  cls += static_cast<char>(group.size() >> 8U);
  cls += static_cast<char>(group.size() & 0xffU);
  cls += group;
  cls += limited ? '\1' : '\0';
  return cls;
}

std::string class_of(const Mode& mode) {
  if (mode.is_exclusive()) return std::string{exclusive_class};
  return group_class(mode.name(), mode.limit() != 0);
}

std::string other_limit_class(const Mode& mode) {
  return group_class(mode.name(), mode.limit() == 0);
}

std::string_view class_in(std::string_view key) noexcept {
  if (key.starts_with(exclusive_class)) return key.substr(0, 1);
  if (!key.starts_with(group_tag) || key.size() < group_header) return {};
  const std::size_t size = group_header + name_size(key) + 1;
  return key.size() < size ? std::string_view{} : key.substr(0, size);
}

std::string_view group_in(std::string_view cls) noexcept {
  if (!cls.starts_with(group_tag) || cls.size() < group_header) return {};
  return cls.substr(group_header, name_size(cls));
}

std::string here(std::string_view cls, const Path& path) { return place(cls, path, '\0'); }

std::string below(std::string_view cls, const Path& path) { return place(cls, path, '\1'); }

std::optional<RowKey> parse_key(std::string_view key) {
  const std::string_view cls = class_in(key);
  if (cls.empty() || key.size() < cls.size() + 1 + stamp_size) return std::nullopt;
  const std::string_view text = key.substr(cls.size(), key.size() - cls.size() - 1 - stamp_size);
  std::optional<Mode> mode = mode_in(cls);
  std::optional<Path> path = path_in(text);
  const Token number = number_in(key);
  if (!mode || !path || number == Token{} || number.value == this_apply.value) return std::nullopt;
  RowKey parsed{.claim = {*std::move(path), *std::move(mode)}, .number = number};
  // One spelling only: two keys would be two tickets with the same claim and number.
  if (row_key(parsed.claim, number) != key) return std::nullopt;
  return parsed;
}

std::string row_key(const Claim& claim, Token number) {
  return here(claim) + stamp(Revision{number.value});
}

Token number_in(std::string_view key) noexcept { return Token{stamp_of(key).value}; }

}  // namespace tenure::stored
