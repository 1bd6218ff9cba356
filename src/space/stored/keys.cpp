#include "space/stored/keys.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace tenure::stored {
namespace {

std::size_t byte_at(std::string_view text, std::size_t at) noexcept {
  return static_cast<unsigned char>(text[at]);
}

std::string place(std::string_view region, const Path& path, char end) {
  std::string out{region};
  out.reserve(region.size() + path.bytes().size() + path.depth() + 1 + stamp_size);
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

std::string line(const Path& path, const Mode& mode, bool limited) {
  if (mode.is_exclusive()) return here(exclusive_region, path);
  if (mode.kind() == Mode::Kind::shared && !limited) return here(shared_region, path);
  return here(path, mode.name()) + (limited ? '\1' : '\0');
}

// Stores limit the size of keys.
constexpr std::size_t max_owner_segment = 32;
Path cut(const Path& id) {
  Path out;
  for (const std::string_view segment : id.segments()) {
    out.append(segment.substr(0, max_owner_segment));
  }
  return out;
}

// As `place` writes a segment: a \1, and its length as Path has it. Takes it off the front.
std::optional<std::string_view> take_segment(std::string_view& text) noexcept {
  if (!text.starts_with('\1') || text.size() < 2) return std::nullopt;
  std::size_t size = byte_at(text, 1);
  std::size_t from = 2;
  if (size >= 0x80U) {
    if (text.size() < 3) return std::nullopt;
    size = (size & 0x7fU) | byte_at(text, 2) << 7U;
    from = 3;
  }
  if (text.size() - from < size) return std::nullopt;
  const std::string_view segment = text.substr(from, size);
  text.remove_prefix(from + size);
  return segment;
}

// In front of `text`: the length of a group's name, and the name.
std::string_view take_group(std::string_view& text) noexcept {
  if (text.size() < 2) return {};
  const std::size_t size = byte_at(text, 0) << 8U | byte_at(text, 1);
  if (text.size() - 2 < size) return {};
  const std::string_view name = text.substr(2, size);
  text.remove_prefix(2 + size);
  return name;
}

// What is between the path's end and the stamp.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
std::optional<Mode> mode_in(std::string_view region, std::string_view rest) {
  if (region != group_region) {
    if (!rest.empty()) return std::nullopt;
    return region == exclusive_region ? Mode::exclusive() : Mode::shared();
  }
  const std::string_view name = take_group(rest);
  if (name.empty() || name.size() > Mode::max_name || rest.size() != 1) return std::nullopt;
  return rest.front() == '\0' ? Mode::group(name) : Mode::group(name, 1);
}

std::string_view region_in(std::string_view key) noexcept {
  for (const std::string_view region : {exclusive_region, shared_region, group_region}) {
    if (key.starts_with(region)) return region;
  }
  return {};
}

}  // namespace

std::string here(std::string_view region, const Path& path) { return place(region, path, '\0'); }

std::string below(std::string_view region, const Path& path) { return place(region, path, '\1'); }

std::string here(const Path& path, std::string_view group) {
  std::string out = here(group_region, path);
  out += static_cast<char>(group.size() >> 8U);
  out += static_cast<char>(group.size() & 0xffU);
  return out.append(group);
}

std::string line_of(const Claim& claim) {
  return line(claim.path, claim.mode, claim.mode.limit() != 0);
}

std::string other_limit_line(const Claim& claim) {
  return line(claim.path, claim.mode, claim.mode.limit() == 0);
}

std::string shadow_line(const Claim& claim) {
  return claim.mode.weight() == 1 ? std::string{} : other_limit_line(claim);
}

std::string_view group_in(std::string_view key) noexcept {
  if (key.starts_with(shared_region)) return "shared";
  if (!key.starts_with(group_region)) return {};
  key.remove_prefix(group_region.size());
  while (take_segment(key)) {
  }
  if (!key.starts_with('\0')) return {};
  key.remove_prefix(1);
  return take_group(key);
}

std::optional<RowKey> parse_key(std::string_view key) {
  const std::string_view region = region_in(key);
  if (region.empty() || key.size() < region.size() + 1 + stamp_size) return std::nullopt;
  std::string_view text = key.substr(region.size(), key.size() - region.size() - stamp_size);
  Path path;
  while (text.starts_with('\1')) {
    const std::optional<std::string_view> segment = take_segment(text);
    if (!segment || path.depth() == Path::max_depth) return std::nullopt;
    const std::size_t size = segment->size() + (segment->size() < 0x80U ? 1 : 2);
    if (path.bytes().size() + size > Path::max_bytes) return std::nullopt;
    path.append(*segment);
  }
  if (!text.starts_with('\0')) return std::nullopt;
  std::optional<Mode> mode = mode_in(region, text.substr(1));
  const Token number = number_in(key);
  if (!mode || number == Token{} || number.value == this_apply.value) return std::nullopt;
  RowKey parsed{.claim = {std::move(path), *std::move(mode)}, .number = number};
  // One spelling only: two keys would be two tickets with the same claim and number.
  if (row_key(parsed.claim, number) != key) return std::nullopt;
  return parsed;
}

std::string owner_line(const Owner& owner) { return here(reserved::owner_tickets, cut(owner.id)); }

std::string below_owner(const Owner& owner) {
  return below(reserved::owner_tickets, cut(owner.id));
}

std::string row_key(const Claim& claim, Token number) {
  return line_of(claim) + stamp(Revision{number.value});
}

std::string shadow_key(const Claim& claim, Token number) {
  const std::string line = shadow_line(claim);
  return line.empty() ? line : line + stamp(Revision{number.value});
}

Token number_in(std::string_view key) noexcept { return Token{stamp_of(key).value}; }

}  // namespace tenure::stored
