// duration.hpp: durations as text: 500ms, 10s, 1h30m, 2d.
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <string_view>

namespace tenure::base {

inline constexpr std::chrono::days max_duration{36'525};  // A hundred years.

// Parses whole numbers, each with a unit (d, h, m, s, ms), larger units first, each at most once.
// The error says what to write instead.
[[nodiscard]] std::expected<std::chrono::nanoseconds, std::string> parse_duration(
    std::string_view text);

// At most two units: "0s", "12s", "3m05s", "2h10m", "4d03h". A negative duration is "0s".
[[nodiscard]] std::string age_text(std::chrono::nanoseconds time);

// Three significant digits: "850 ns", "12.3 µs", "1.20 s".
[[nodiscard]] std::string precise_text(std::chrono::nanoseconds time);

}  // namespace tenure::base
