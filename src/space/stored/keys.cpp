#include "space/stored/keys.hpp"

#include <cstddef>
#include <cstdint>

namespace tenure::stored {
namespace {

constexpr std::size_t group_header = 3;  // The tag and the length of the name.

std::size_t name_size(std::string_view group_key) noexcept {
  return static_cast<std::size_t>(static_cast<unsigned char>(group_key[1])) << 8U |
         static_cast<unsigned char>(group_key[2]);
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

std::string row_key(const Claim& claim, Token number) {
  return here(claim) + stamp(Revision{number.value});
}

Token number_in(std::string_view key) noexcept { return Token{stamp_of(key).value}; }

}  // namespace tenure::stored
