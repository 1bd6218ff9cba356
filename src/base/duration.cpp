#include "base/duration.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenure::base {
namespace {

using Unit = std::pair<std::string_view, std::chrono::nanoseconds>;
constexpr std::array units{Unit{"d", std::chrono::days{1}}, Unit{"h", std::chrono::hours{1}},
                           Unit{"m", std::chrono::minutes{1}}, Unit{"s", std::chrono::seconds{1}},
                           Unit{"ms", std::chrono::milliseconds{1}}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Removes the leading digits, or the leading non-digits, from the text and returns them.
template <class Wanted>
std::string_view take(std::string_view& text, Wanted wanted) {
  std::size_t size = 0;
  while (size < text.size() && wanted(text[size])) ++size;
  const std::string_view taken = text.substr(0, size);
  text.remove_prefix(size);
  return taken;
}

// Rounded to that many decimals.
std::string fixed(double value, int decimals) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, decimals);
  return {buffer.data(), end.ptr};
}

// "3m05s": the smaller unit has two digits.
std::string two_units(std::int64_t large, char large_unit, std::int64_t small, char small_unit) {
  return std::to_string(large) + large_unit + (small < 10 ? "0" : "") + std::to_string(small) +
         small_unit;
}

std::unexpected<std::string> not_a_duration(std::string_view text, const std::string& why) {
  return std::unexpected("'" + std::string{text} + "' is not a duration: " + why);
}

}  // namespace

std::expected<std::chrono::nanoseconds, std::string> parse_duration(std::string_view text) {
  using std::chrono::nanoseconds;
  const auto fail = [text](const std::string& why) { return not_a_duration(text, why); };
  nanoseconds total{0};
  std::string_view rest = text;
  std::size_t next_unit = 0;
  if (rest.empty()) return fail("write for example 500ms, 10s, 5m, 2h, 1d or 1h30m");
  while (!rest.empty()) {
    const std::string_view digits = take(rest, is_digit);
    const std::string_view name = take(rest, [](char c) { return !is_digit(c); });
    if (digits.empty()) return fail("write for example 500ms, 10s, 5m, 2h, 1d or 1h30m");
    if (name.empty()) {
      return fail("'" + std::string{digits} + "' has no unit; use ms, s, m, h or d");
    }
    std::size_t unit = 0;
    while (unit < units.size() && units.at(unit).first != name) ++unit;
    if (unit == units.size()) {
      return fail("unknown unit '" + std::string{name} + "'; use ms, s, m, h or d");
    }
    if (unit < next_unit) return fail("put larger units first, and use each unit once");
    next_unit = unit + 1;
    std::uint64_t count = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    const auto most = static_cast<std::uint64_t>((max_duration - total) / units.at(unit).second);
    if (parsed.ec != std::errc{} || count > most) return fail("the maximum is 100 years");
    total += units.at(unit).second * static_cast<std::int64_t>(count);
  }
  return total;
}

std::string age_text(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  if (seconds <= 0) return "0s";
  if (seconds < 60) return std::to_string(seconds) + "s";
  if (seconds < 3600) return two_units(seconds / 60, 'm', seconds % 60, 's');
  if (seconds < 86'400) return two_units(seconds / 3600, 'h', seconds % 3600 / 60, 'm');
  return two_units(seconds / 86'400, 'd', seconds % 86'400 / 3600, 'h');
}

std::string precise_text(std::chrono::nanoseconds time) {
  const auto count = static_cast<double>(time.count());
  const auto digits = [](double value, const char* unit) {
    int decimals = value < 99.95 ? 1 : 0;
    if (value < 9.995) decimals = 2;
    return fixed(value, decimals) + " " + unit;
  };
  if (count < 999.5) return fixed(count, 0) + " ns";
  if (count < 999.5e3) return digits(count / 1e3, "µs");
  if (count < 999.5e6) return digits(count / 1e6, "ms");
  return digits(count / 1e9, "s");
}

}  // namespace tenure::base
