// A time zone is a series of segments with one offset each. Within a segment local time runs
// evenly, so a match is searched in plain calendar arithmetic; what a change of the clocks leaves
// out or repeats is decided where two segments meet.
#include "tenure/cron.hpp"

#include <date/tz.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <span>
#include <stdexcept>

#include "tenure/error.hpp"

namespace tenure {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::local_days;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_seconds;

struct Cron::Limits {
  std::string_view name;
  unsigned low;
  unsigned high;
  std::span<const std::string_view> names;  // Of low, low + 1, ...
};

namespace {

constexpr std::array<std::string_view, 12> month_names{"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                                       "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};
constexpr std::array<std::string_view, 7> day_names{"SUN", "MON", "TUE", "WED",
                                                    "THU", "FRI", "SAT"};
constexpr int max_years = 41;  // A Sunday that is 29 February comes at least so often.

[[noreturn]] void bad(std::string_view field, std::string_view text, std::string_view why) {
  throw BadRequest("cron field '" + std::string{field} + "' is '" + std::string{text} +
                   "': " + std::string{why});
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> found;
  bool inside = false;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      inside = false;
      continue;
    }
    if (!inside) found.emplace_back();
    inside = true;
    found.back() += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return found;
}

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view expanded(std::string_view word) {
  if (word == "@YEARLY" || word == "@ANNUALLY") return "0 0 1 1 *";
  if (word == "@MONTHLY") return "0 0 1 * *";
  if (word == "@WEEKLY") return "0 0 * * 0";
  if (word == "@DAILY" || word == "@MIDNIGHT") return "0 0 * * *";
  if (word == "@HOURLY") return "0 * * * *";
  throw BadRequest("there is no cron expression '" + std::string{word} +
                   "': use @yearly, @monthly, @weekly, @daily or @hourly, or five or six fields");
}

const date::time_zone& zone_of(const void* zone) {
  return *static_cast<const date::time_zone*>(zone);
}

const date::time_zone* locate(std::string_view name) {
  try {
    return date::locate_zone(std::string{name});
  } catch (const std::runtime_error&) {
    throw BadRequest("there is no time zone '" + std::string{name} +
                     "': write one as Europe/Berlin or UTC, and install tzdata if it is missing");
  }
}

}  // namespace

std::optional<unsigned> Cron::Field::first(unsigned from) const noexcept {
  const std::uint64_t left = from > 63 ? 0 : bits >> from << from;
  if (left == 0) return std::nullopt;
  return static_cast<unsigned>(std::countr_zero(left));
}

unsigned Cron::value_of(std::string_view word, std::string_view text, const Limits& limits) {
  for (std::size_t i = 0; i < limits.names.size(); ++i) {
    if (limits.names[i] == word) return limits.low + static_cast<unsigned>(i);
  }
  const std::optional<unsigned> value = number(word);
  if (!value || *value < limits.low || *value > limits.high) {
    bad(limits.name, text,
        "'" + std::string{word} + "' is not a value; use " + std::to_string(limits.low) + " to " +
            std::to_string(limits.high) + (limits.names.empty() ? "" : " or a name's 3 letters"));
  }
  return *value;
}

// One part of a list: `*`, `a`, `a-b`, each with or without a step.
// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a part, then the text that it is of.
std::uint64_t Cron::parse_part(std::string_view part, std::string_view text, const Limits& limits) {
  const std::vector<std::string_view> stepped = split(part, '/');
  unsigned step = 1;
  if (stepped.size() > 2) bad(limits.name, text, "it has more than one step in a part");
  if (stepped.size() == 2) {
    const std::optional<unsigned> given = number(stepped[1]);
    if (!given || *given == 0 || *given > limits.high) {
      bad(limits.name, text, "a step is a number from 1 to " + std::to_string(limits.high));
    }
    step = *given;
  }
  unsigned low = limits.low;
  unsigned high = limits.high;
  if (stepped[0] != "*" && stepped[0] != "?") {
    const std::vector<std::string_view> ends = split(stepped[0], '-');
    if (ends.size() > 2) bad(limits.name, text, "a range has two ends");
    low = value_of(ends[0], text, limits);
    if (ends.size() == 2) {
      high = value_of(ends[1], text, limits);
    } else if (stepped.size() == 1) {
      high = low;
    }
    if (high < low) bad(limits.name, text, "a range begins with the smaller value");
  }
  std::uint64_t bits = 0;
  for (unsigned value = low; value <= high; value += step) bits |= std::uint64_t{1} << value;
  return bits;
}

Cron::Field Cron::parse(std::string_view text, const Limits& limits) {
  Field field;
  field.any = text.starts_with('*') || text == "?";
  for (const std::string_view part : split(text, ',')) {
    field.bits |= parse_part(part, text, limits);
  }
  return field;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): a zone is no expression, and is refused.
Cron::Cron(std::string_view expression, std::string_view zone, MissingTime missing,
           RepeatedTime repeated)
    : expression_(expression),
      zone_name_(zone),
      zone_(locate(zone)),
      missing_(missing),
      repeated_(repeated) {
  std::vector<std::string> fields = words(expression);
  if (fields.size() == 1 && fields.front().starts_with('@')) {
    fields = words(expanded(fields.front()));
  }
  if (fields.size() != 5 && fields.size() != 6) {
    throw BadRequest("the cron expression '" + expression_ + "' has " +
                     std::to_string(fields.size()) +
                     " fields: write minute, hour, day, month and day of week, and the second in "
                     "front where it matters");
  }
  if (fields.size() == 5) fields.insert(fields.begin(), "0");
  second_ = parse(fields[0], {.name = "second", .low = 0, .high = 59, .names = {}});
  minute_ = parse(fields[1], {.name = "minute", .low = 0, .high = 59, .names = {}});
  hour_ = parse(fields[2], {.name = "hour", .low = 0, .high = 23, .names = {}});
  day_ = parse(fields[3], {.name = "day", .low = 1, .high = 31, .names = {}});
  month_ = parse(fields[4], {.name = "month", .low = 1, .high = 12, .names = month_names});
  weekday_ = parse(fields[5], {.name = "day of week", .low = 0, .high = 7, .names = day_names});
  if (weekday_.has(7)) weekday_.bits |= 1U;
  every_hour_ = hour_.bits == (std::uint64_t{1} << 24U) - 1;
  check_dates();
}

// 30 February would be searched for for ever.
void Cron::check_dates() const {
  if (!day_.any && !weekday_.any) return;  // Some day of the week comes.
  constexpr std::array<unsigned, 13> longest{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const unsigned first = day_.first(1).value_or(32);
  for (unsigned month = 1; month <= 12; ++month) {
    if (month_.has(month) && first <= longest.at(month)) return;
  }
  throw BadRequest("the cron expression '" + expression_ +
                   "' never comes: none of its months has such a day");
}

bool Cron::matches_day(local_days day) const noexcept {
  const std::chrono::year_month_day date{day};
  if (!month_.has(static_cast<unsigned>(date.month()))) return false;
  const bool by_day = day_.has(static_cast<unsigned>(date.day()));
  const bool by_week = weekday_.has(std::chrono::weekday{day}.c_encoding());
  return day_.any || weekday_.any ? by_day && by_week : by_day || by_week;
}

std::optional<seconds> Cron::first_of_day(seconds from) const noexcept {
  const std::chrono::hh_mm_ss time{from};
  const auto hour = static_cast<unsigned>(time.hours().count());
  for (auto h = hour_.first(hour); h; h = hour_.first(*h + 1)) {
    const bool first_hour = *h == hour;
    const auto minute = first_hour ? static_cast<unsigned>(time.minutes().count()) : 0U;
    for (auto m = minute_.first(minute); m; m = minute_.first(*m + 1)) {
      const bool now = first_hour && *m == minute;
      const auto second = now ? static_cast<unsigned>(time.seconds().count()) : 0U;
      if (const auto s = second_.first(second)) return hours{*h} + minutes{*m} + seconds{*s};
    }
  }
  return std::nullopt;
}

std::optional<Cron::Local> Cron::first_in(Local from, Local to) const {
  const local_days last = std::chrono::floor<days>(to);
  for (local_days day = std::chrono::floor<days>(from); day <= last; day += days{1}) {
    if (!matches_day(day)) continue;
    const Local begin = std::max(from, Local{day});
    if (const std::optional<seconds> time = first_of_day(begin - Local{day})) {
      const Local found = Local{day} + *time;
      if (found >= to) return std::nullopt;
      return found;
    }
  }
  return std::nullopt;
}

std::optional<Instant> Cron::next(Instant after) const {
  const date::time_zone& zone = zone_of(zone_);
  const auto local = [](sys_seconds time, seconds offset) {
    return Local{time.time_since_epoch() + offset};
  };
  sys_seconds from = std::chrono::floor<seconds>(after) + seconds{1};
  const sys_seconds end =
      std::min(from + days{max_years * 366}, std::chrono::floor<seconds>(Instant::max()) - days{1});
  while (from < end) {
    const date::sys_info now = zone.get_info(from);
    const sys_seconds to = std::min(now.end, end);
    Local begin = local(from, now.offset);
    if (now.begin > std::chrono::floor<seconds>(Instant::min()) + days{1}) {
      const seconds before = zone.get_info(now.begin - seconds{1}).offset;
      const Local old_end = local(now.begin, before);
      if (from == now.begin && missing_ == MissingTime::at_change &&
          first_in(old_end, begin)) {  // Empty where the clocks were not set forward.
        return Instant{now.begin};
      }
      if (repeated_ == RepeatedTime::once && !every_hour_) begin = std::max(begin, old_end);
    }
    if (const std::optional<Local> found = first_in(begin, local(to, now.offset))) {
      return Instant{sys_seconds{found->time_since_epoch() - now.offset}};
    }
    from = to;
  }
  return std::nullopt;
}

std::vector<Instant> Cron::next(Instant after, std::size_t count) const {
  std::vector<Instant> times;
  while (times.size() < count) {
    const std::optional<Instant> time = next(after);
    if (!time) break;
    after = times.emplace_back(*time);
  }
  return times;
}

}  // namespace tenure
