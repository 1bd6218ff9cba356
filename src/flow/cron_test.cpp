#include "tenure/cron.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/error.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;

Instant at(int year, unsigned month, unsigned day, int hour = 0, int minute = 0, int second = 0) {
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{month},
                                         std::chrono::day{day}};
  return Instant{std::chrono::sys_days{date}} + std::chrono::hours{hour} +
         std::chrono::minutes{minute} + std::chrono::seconds{second};
}

// "2026-03-29T01:00:00Z 2026-..."
std::string text(const std::vector<Instant>& times) {
  std::string all;
  for (const Instant time : times) {
    const auto day = std::chrono::floor<days>(time);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss clock{std::chrono::floor<std::chrono::seconds>(time - day)};
    std::array<char, 32> buffer{};
    static_cast<void>(std::snprintf(buffer.data(), buffer.size(), "%02u-%02u %02ld:%02ld:%02ld",
                                    static_cast<unsigned>(date.month()),
                                    static_cast<unsigned>(date.day()), clock.hours().count(),
                                    clock.minutes().count(), clock.seconds().count()));
    all += (all.empty() ? "" : ", ") + std::string{buffer.data()};
  }
  return all;
}

std::string refusal(std::string_view expression, std::string_view zone = "UTC") {
  try {
    const Cron cron{expression, zone};
    return "none";
  } catch (const BadRequest& error) {
    return error.what();
  }
}

TEST(Cron, ReadsFieldsNamesRangesStepsAndLists) {
  const Instant monday = at(2026, 11, 16, 12);
  EXPECT_EQ(text(Cron{"30 2 * * *"}.next(monday, 2)), "11-17 02:30:00, 11-18 02:30:00");
  EXPECT_EQ(text(Cron{"*/20 9-10 * * mon-fri"}.next(at(2026, 11, 20, 10, 20), 3)),
            "11-20 10:40:00, 11-23 09:00:00, 11-23 09:20:00");
  EXPECT_EQ(text(Cron{"15,45 30 2 * * *"}.next(monday, 2)), "11-17 02:30:15, 11-17 02:30:45");
  EXPECT_EQ(text(Cron{"0 0 1 JAN,jul *"}.next(monday, 2)), "01-01 00:00:00, 07-01 00:00:00");
  EXPECT_EQ(text(Cron{"0 0 * * 7"}.next(monday, 1)), text(Cron{"0 0 * * SUN"}.next(monday, 1)));
  EXPECT_EQ(text(Cron{"5/20 * * * *"}.next(monday, 3)),
            "11-16 12:05:00, 11-16 12:25:00, 11-16 12:45:00");
  EXPECT_EQ(text(Cron{"10-20/5 0 ? * *"}.next(monday, 2)), "11-17 00:10:00, 11-17 00:15:00");
  EXPECT_EQ(text(Cron{"@hourly"}.next(monday, 1)), "11-16 13:00:00");
  EXPECT_EQ(text(Cron{"@Weekly"}.next(monday, 1)), "11-22 00:00:00");
}

TEST(Cron, IsStrictlyAfter) {
  EXPECT_EQ(text(Cron{"0 12 * * *"}.next(at(2026, 11, 16, 12), 1)), "11-17 12:00:00");
  EXPECT_EQ(text(Cron{"0 12 * * *"}.next(at(2026, 11, 16, 12) - 1ns, 1)), "11-16 12:00:00");
  EXPECT_EQ(text(Cron{"0 12 * * *"}.next(at(2026, 11, 16, 12) + 1ns, 1)), "11-17 12:00:00");
}

TEST(Cron, JoinsDayAndDayOfWeekAsEveryCron) {
  // Both restricted: the 13th, and Fridays.
  EXPECT_EQ(text(Cron{"0 0 13 * FRI"}.next(at(2026, 11, 10), 3)),
            "11-13 00:00:00, 11-20 00:00:00, 11-27 00:00:00");
  // One of them begins with *: both must match.
  EXPECT_EQ(text(Cron{"0 0 */2 * FRI"}.next(at(2026, 11, 10), 2)),
            "11-13 00:00:00, 11-27 00:00:00");
}

TEST(Cron, FindsRareDates) {
  EXPECT_EQ(Cron{"0 0 29 2 *"}.next(at(2096, 3, 1)), at(2104, 2, 29));
  EXPECT_EQ(Cron{"0 0 29 2 */7"}.next(at(2060, 3, 1)), at(2088, 2, 29));  // A Sunday.
  EXPECT_EQ(Cron{"0 0 1 1 *"}.next(Instant::max()), std::nullopt);
}

TEST(Cron, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("61 * * * *"), "cron field 'minute' is '61': '61' is not a value; use 0 to 59");
  EXPECT_EQ(refusal("* * * FOO *"),
            "cron field 'month' is 'FOO': 'FOO' is not a value; use 1 to 12 or a name's 3 letters");
  EXPECT_EQ(refusal("*/0 * * * *"),
            "cron field 'minute' is '*/0': a step is a number from 1 to 59");
  EXPECT_EQ(refusal("5-1 * * * *"),
            "cron field 'minute' is '5-1': a range begins with the smaller value");
  EXPECT_EQ(refusal("* * *"),
            "the cron expression '* * *' has 3 fields: write minute, hour, day, month and day of "
            "week, and the second in front where it matters");
  EXPECT_EQ(refusal("0 0 30 2 *"),
            "the cron expression '0 0 30 2 *' never comes: none of its months has such a day");
  EXPECT_EQ(refusal("* * * * *", "Mars/Base"),
            "there is no time zone 'Mars/Base': write one as Europe/Berlin or UTC, and install "
            "tzdata if it is missing");
  for (const char* const text : {"", "@never", "1,, * * * *", "1--2 * * * *", "1/2/3 * * * *",
                                 "L * * * *", "0 0 0 * *", "* * * * 8", "-1 * * * *"}) {
    EXPECT_NE(refusal(text), "none") << text;
  }
}

// W16: in Berlin the clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on
// 2026-10-25.
TEST(CronMuseum, W16_MissingAndRepeatedTimesFireOnce) {
  const Cron nightly{"30 2 * * *", "Europe/Berlin"};
  EXPECT_EQ(text(nightly.next(at(2026, 3, 27, 12), 3)),
            "03-28 01:30:00, 03-29 01:00:00, 03-30 00:30:00");  // At the change.
  EXPECT_EQ(text(nightly.next(at(2026, 10, 24), 3)),
            "10-24 00:30:00, 10-25 00:30:00, 10-26 01:30:00");  // The first of two.
  const Cron other{"30 2 * * *", "Europe/Berlin", MissingTime::skip, RepeatedTime::twice};
  EXPECT_EQ(text(other.next(at(2026, 3, 27, 12), 2)), "03-28 01:30:00, 03-30 00:30:00");
  EXPECT_EQ(text(other.next(at(2026, 10, 25), 3)),
            "10-25 00:30:00, 10-25 01:30:00, 10-26 01:30:00");
  // Several missing times are one, also together with the first time after the change.
  EXPECT_EQ(text(Cron{"*/30 2-3 * * *", "Europe/Berlin"}.next(at(2026, 3, 28, 23), 3)),
            "03-29 01:00:00, 03-29 01:30:00, 03-30 00:00:00");
  // What runs every hour does so, whatever the clocks show.
  EXPECT_EQ(text(Cron{"0 * * * *", "Europe/Berlin"}.next(at(2026, 10, 24, 22, 30), 4)),
            "10-24 23:00:00, 10-25 00:00:00, 10-25 01:00:00, 10-25 02:00:00");
  // A change of half an hour.
  EXPECT_EQ(text(Cron{"15 2 * * *", "Australia/Lord_Howe"}.next(at(2026, 10, 3), 2)),
            "10-03 15:30:00, 10-04 15:15:00");
}

// W17: 08:00 stays 08:00 after the clocks were changed.
TEST(CronMuseum, W17_ADailyTimeKeepsItsHourAfterTheChange) {
  const Cron daily{"0 8 * * *", "America/New_York"};
  EXPECT_EQ(text(daily.next(at(2026, 10, 31), 3)),
            "10-31 12:00:00, 11-01 13:00:00, 11-02 13:00:00");
  EXPECT_EQ(text(daily.next(at(2026, 3, 7), 3)), "03-07 13:00:00, 03-08 12:00:00, 03-09 12:00:00");
}

struct RandomField {
  std::string text;
  std::set<unsigned> values;
};

RandomField random_field(unsigned low, unsigned high) {
  RandomField field;
  const auto add = [&](unsigned from, unsigned to, unsigned step) {
    for (unsigned value = from; value <= to; value += step) field.values.insert(value);
  };
  const unsigned a = *rc::gen::inRange(low, high + 1);
  const unsigned b = *rc::gen::inRange(a, high + 1);
  const unsigned step = *rc::gen::inRange(1U, high);
  switch (*rc::gen::inRange(0, 5)) {
    case 0: field.text = "*", add(low, high, 1); break;
    case 1: field.text = std::to_string(a), add(a, a, 1); break;
    case 2: field.text = "*/" + std::to_string(step), add(low, high, step); break;
    case 3:
      field.text = std::to_string(b) + "," + std::to_string(a), add(a, a, 1), add(b, b, 1);
      break;
    default:
      field.text = std::to_string(a) + "-" + std::to_string(b) + "/" + std::to_string(step);
      add(a, b, step);
  }
  return field;
}

// The oracle knows the sets, not the text.
RC_GTEST_PROP(Cron, AgreesWithASearchForward, ()) {
  const RandomField second = random_field(0, 59);
  const RandomField minute = random_field(0, 59);
  const RandomField hour = random_field(0, 23);
  const RandomField weekday = random_field(0, 6);
  const Cron cron{second.text + " " + minute.text + " " + hour.text + " * * " + weekday.text};
  const Instant from = at(2026, 1, 1) + std::chrono::seconds{*rc::gen::inRange(0, 365 * 24 * 3600)};
  // How far a time that does not match can be left at least; zero: it matches.
  const auto step = [&](Instant time) -> std::chrono::seconds {
    const auto day = std::chrono::floor<days>(time);
    const std::chrono::hh_mm_ss clock{std::chrono::floor<std::chrono::seconds>(time - day)};
    const auto fits = [](const RandomField& field, auto value) {
      return field.values.contains(static_cast<unsigned>(value.count()));
    };
    if (!weekday.values.contains(std::chrono::weekday{day}.c_encoding()) ||
        !fits(hour, clock.hours())) {
      return 3600s - clock.minutes() - clock.seconds();
    }
    if (!fits(minute, clock.minutes())) return 60s - clock.seconds();
    return fits(second, clock.seconds()) ? 0s : 1s;
  };
  Instant expected = from + 1s;
  while (step(expected) > 0s) expected += step(expected);
  RC_ASSERT(cron.next(from) == expected);
}

RC_GTEST_PROP(Cron, NeverStopsNorGoesBackInAnyZone, ()) {
  const std::string zone = *rc::gen::element<std::string>(
      "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
      "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo");
  const auto missing = *rc::gen::element(MissingTime::at_change, MissingTime::skip);
  const auto repeated = *rc::gen::element(RepeatedTime::once, RepeatedTime::twice);
  const Cron cron{random_field(0, 59).text + " " + random_field(0, 23).text + " * * *", zone,
                  missing, repeated};
  Instant last = at(1970, 1, 1) + std::chrono::hours{*rc::gen::inRange(0, 60 * 365 * 24)};
  for (const Instant time : cron.next(last, 60)) {
    RC_ASSERT(time > last);
    RC_ASSERT(time - last <= 3 * 24h);  // Apia once left out a whole day.
    RC_ASSERT(cron.next(time - 1ns) == time);
    last = time;
  }
}

}  // namespace
}  // namespace tenure
