#include "tenure/claim.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

#include "core/escape.hpp"
#include "core/typed_path.hpp"

namespace tenure {
namespace {

constexpr std::string_view take_mark = " take=";

// %XX becomes its byte; anything else stands for itself.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    unsigned byte = 0;
    if (text.size() >= 3 && text.front() == '%' &&
        std::from_chars(text.data() + 1, text.data() + 3, byte, 16).ptr == text.data() + 3) {
      out += static_cast<char>(byte);
      text.remove_prefix(3);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

// Null where it is no number from 1 on.
std::optional<std::uint32_t> parse_count(std::string_view digits) {
  std::uint32_t count = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (parsed.ec != std::errc{} || parsed.ptr != digits.data() + digits.size()) return std::nullopt;
  if (digits.starts_with('0')) return std::nullopt;
  return count;
}

// The N of "(N)" at the end, cut off; 0 where there is none, null where it is no limit.
std::optional<std::uint32_t> cut_limit(std::string_view& text) {
  if (!text.ends_with(')')) return 0;
  const std::size_t open = text.rfind('(');
  if (open == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(open + 1, text.size() - open - 2);
  text = text.substr(0, open);
  return parse_count(digits);
}

// The W of " take=W" at the end, cut off; 0 where there is none, null where it is no weight.
std::optional<std::uint32_t> cut_weight(std::string_view& text) {
  const std::size_t at = text.rfind(take_mark);
  if (at == std::string_view::npos) return 0;
  const std::string_view digits = text.substr(at + take_mark.size());
  text = text.substr(0, at);
  return parse_count(digits);
}

// Null where Mode::text() never returns that.
std::optional<Mode> parse_mode(const std::string_view text) {
  if (text == "exclusive") return Mode::exclusive();
  std::string_view bare = text;
  const std::optional<std::uint32_t> weight = cut_weight(bare);
  std::string_view rest = bare;
  const std::optional<std::uint32_t> limit = cut_limit(rest);
  const std::string name = unescaped(rest);
  if (!limit || name.empty() || name.size() > Mode::max_name) return std::nullopt;
  const Mode mode = *limit == 0 ? Mode::group(name) : Mode::group(name, *limit);
  if (mode.text() != bare || !weight || *weight > *limit) return std::nullopt;
  return *weight == 0 ? mode : mode.take(*weight);
}

}  // namespace

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
  if (weight() != 1) {
    out += take_mark;
    out += std::to_string(weight());
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

std::expected<Claim, std::string> Claim::parse(std::string_view text) {
  // A URL has colons of its own.
  const std::size_t colon = text.contains("://") ? std::string_view::npos : text.rfind(':');
  std::optional<Mode> mode = Mode::exclusive();
  if (colon != std::string_view::npos) {
    mode = parse_mode(text.substr(colon + 1));
    if (!mode) {
      std::string what = "'";
      append_escaped(what, text.substr(colon + 1), "");
      return std::unexpected(what +
                             "' after the last ':' is not a mode: use exclusive, shared, "
                             "permits(N), permits(N) take=W with W up to N, or the name of a "
                             "group");
    }
  }
  auto path = parse_typed_path(text.substr(0, colon));
  if (!path) return std::unexpected(std::move(path.error()));
  return Claim{*std::move(path), *std::move(mode)};
}

}  // namespace tenure
