#include "base/duration.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace tenure::base {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::nanoseconds;

TEST(Duration, Parses) {
  using Case = std::pair<std::string_view, nanoseconds>;
  for (const auto& [text, time] :
       {Case{"500ms", 500ms}, Case{"10s", 10s}, Case{"1h30m", 90min}, Case{"2d", days{2}},
        Case{"1d2h3m4s5ms", days{1} + 2h + 3min + 4s + 5ms}, Case{"0s", 0s}, Case{"90m", 90min},
        Case{"36525d", max_duration}}) {
    EXPECT_EQ(parse_duration(text), time) << text;
  }
}

TEST(Duration, SaysWhatToWriteInstead) {
  const auto error = [](std::string_view text) { return parse_duration(text).error(); };
  EXPECT_EQ(error("5"), "'5' is not a duration: '5' has no unit; use ms, s, m, h or d");
  EXPECT_EQ(error("5y"), "'5y' is not a duration: unknown unit 'y'; use ms, s, m, h or d");
  EXPECT_EQ(error("1m1h"),
            "'1m1h' is not a duration: put larger units first, and use each unit once");
  for (const std::string_view text : {"36526d", "36525d1ms", "99999999999999999999s"}) {
    EXPECT_TRUE(error(text).ends_with("the maximum is 100 years")) << text;
  }
  for (const std::string_view text : {"", "s", "-5s", " 5s"}) {
    EXPECT_TRUE(error(text).ends_with("10s, 5m, 2h, 1d or 1h30m")) << text;
  }
}

TEST(Duration, AgesHaveAtMostTwoUnits) {
  using Case = std::pair<nanoseconds, std::string_view>;
  for (const auto& [time, text] :
       {Case{-1s, "0s"}, Case{999ms, "0s"}, Case{12s, "12s"}, Case{185s, "3m05s"},
        Case{2h + 10min + 59s, "2h10m"}, Case{days{4} + 3h, "4d03h"}}) {
    EXPECT_EQ(age_text(time), text);
  }
}

TEST(Duration, PreciseTextsHaveThreeDigits) {
  using Case = std::pair<nanoseconds, std::string_view>;
  for (const auto& [time, text] :
       {Case{0ns, "0 ns"}, Case{850ns, "850 ns"}, Case{12'340ns, "12.3 µs"}, Case{1200ms, "1.20 s"},
        Case{999'600ns, "1.00 ms"}, Case{123'456us, "123 ms"}}) {
    EXPECT_EQ(precise_text(time), text);
  }
}

}  // namespace
}  // namespace tenure::base
