#include "net/retry.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace tenure::net {
namespace {

using std::chrono::seconds;

constexpr seconds longest = std::chrono::days{36'525};

// Takes words and numbers off the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) noexcept : rest_(text) {}

  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
  bool take(std::string_view expected) noexcept {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  // Exactly so many digits.
  std::optional<int> number(std::size_t digits) noexcept {
    if (rest_.size() < digits) return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, digits)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = (value * 10) + (c - '0');
    }
    rest_.remove_prefix(digits);
    return value;
  }
  // Which of these words is next, counted from 1.
  template <std::size_t Count>
  std::optional<int> word(const std::array<std::string_view, Count>& words) noexcept {
    for (std::size_t i = 0; i < Count; ++i) {
      if (take(words.at(i))) return static_cast<int>(i) + 1;
    }
    return std::nullopt;
  }

 private:
  std::string_view rest_;
};

constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> short_days{"Mon", "Tue", "Wed", "Thu",
                                                     "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> long_days{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                    "Friday", "Saturday", "Sunday"};

struct Date {
  std::optional<int> year;
  std::optional<int> month;
  std::optional<int> day;
  std::optional<seconds> time;
};

std::optional<seconds> time_of_day(Scanner& text) {
  const auto hour = text.number(2);
  const bool first = text.take(":");
  const auto minute = text.number(2);
  const bool second = text.take(":");
  const auto s = text.number(2);
  if (!hour || !first || !minute || !second || !s) return std::nullopt;
  if (*hour > 23 || *minute > 59 || *s > 60) return std::nullopt;  // 60: a leap second.
  return std::chrono::hours{*hour} + std::chrono::minutes{*minute} + seconds{*s};
}

// Sun, 06 Nov 1994 08:49:37 GMT
std::optional<Date> imf_date(Scanner text) {
  Date date;
  if (!text.word(short_days) || !text.take(", ")) return std::nullopt;
  date.day = text.number(2);
  if (!text.take(" ")) return std::nullopt;
  date.month = text.word(months);
  if (!text.take(" ")) return std::nullopt;
  date.year = text.number(4);
  if (!text.take(" ")) return std::nullopt;
  date.time = time_of_day(text);
  if (!text.take(" GMT") || !text.at_end()) return std::nullopt;
  return date;
}

// Sunday, 06-Nov-94 08:49:37 GMT. A year that seems to be more than 50 years ahead is in the past.
std::optional<Date> rfc850_date(Scanner text, WallTime now) {
  Date date;
  if (!text.word(long_days) || !text.take(", ")) return std::nullopt;
  date.day = text.number(2);
  if (!text.take("-")) return std::nullopt;
  date.month = text.word(months);
  if (!text.take("-")) return std::nullopt;
  const auto short_year = text.number(2);
  if (!short_year || !text.take(" ")) return std::nullopt;
  date.time = time_of_day(text);
  if (!text.take(" GMT") || !text.at_end()) return std::nullopt;
  const std::chrono::year_month_day today{std::chrono::floor<std::chrono::days>(now)};
  const int this_year = static_cast<int>(today.year());
  int year = this_year - (this_year % 100) + *short_year;
  if (year > this_year + 50) year -= 100;
  date.year = year;
  return date;
}

// Sun Nov  6 08:49:37 1994
std::optional<Date> asctime_date(Scanner text) {
  Date date;
  if (!text.word(short_days) || !text.take(" ")) return std::nullopt;
  date.month = text.word(months);
  if (!text.take(" ")) return std::nullopt;
  date.day = text.take(" ") ? text.number(1) : text.number(2);
  if (!text.take(" ")) return std::nullopt;
  date.time = time_of_day(text);
  if (!text.take(" ")) return std::nullopt;
  date.year = text.number(4);
  if (!text.at_end()) return std::nullopt;
  return date;
}

std::optional<std::chrono::sys_seconds> instant_of(const std::optional<Date>& date) {
  if (!date || !date->year || !date->month || !date->day || !date->time) return std::nullopt;
  const std::chrono::year_month_day day{std::chrono::year{*date->year},
                                        std::chrono::month{static_cast<unsigned>(*date->month)},
                                        std::chrono::day{static_cast<unsigned>(*date->day)}};
  if (!day.ok()) return std::nullopt;
  return std::chrono::sys_days{day} + *date->time;
}

}  // namespace

std::optional<seconds> parse_retry_after(std::string_view text, WallTime now) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (text.empty()) return std::nullopt;
  if (std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) {
    std::uint64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto most = static_cast<std::uint64_t>(longest.count());
    if (parsed.ec != std::errc{} || number > most) return longest;
    return seconds{static_cast<std::int64_t>(number)};
  }
  const Scanner scanner{text};
  auto instant = instant_of(imf_date(scanner));
  if (!instant) instant = instant_of(rfc850_date(scanner, now));
  if (!instant) instant = instant_of(asctime_date(scanner));
  if (!instant) return std::nullopt;
  const auto pause = std::chrono::ceil<seconds>(*instant - now);
  return std::clamp(pause, seconds{0}, longest);
}

}  // namespace tenure::net
