// cron.hpp: times that repeat, in a time zone.
//
//   tenure::Cron nightly{"30 2 * * *", "Europe/Berlin"};
//   std::optional<Instant> first = nightly.next(now);
//
//   fields      | values                                       | also
//   ------------+----------------------------------------------+--------------------------------
//   second      | 0-59; only where there are six fields        | *  a,b  a-b  */n  a-b/n  a/n
//   minute      | 0-59                                         |
//   hour        | 0-23                                         |
//   day         | 1-31                                         | ?  is *
//   month       | 1-12, JAN-DEC                                |
//   day of week | 0-7, SUN-SAT; 0 and 7 are Sunday             | ?  is *
//
//   @yearly, @monthly, @weekly, @daily (@midnight) and @hourly stand for the usual five fields.
//
// Day and day of week: both must match, unless both are restricted (do not begin with *): then one
// of them is enough, as in every cron.
//
// When the clocks change, a time that does not exist fires once, at the change, and a time that
// comes twice fires the first time. Both can be chosen. An expression that matches every hour fires
// in each hour that passes, so also in the one that comes twice.
//
// Thread safety: const calls, from any thread. Requires the system's time zone database.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/store.hpp"

namespace tenure {

enum class MissingTime : std::uint8_t { at_change, skip };
enum class RepeatedTime : std::uint8_t { once, twice };

class Cron {
 public:
  // Throws BadRequest: the field, what is wrong with it and what to write; an unknown zone; a date
  // that never comes.
  explicit Cron(std::string_view expression, std::string_view zone = "UTC",
                MissingTime missing = MissingTime::at_change,
                RepeatedTime repeated = RepeatedTime::once);

  // The first time after `after`; nothing: none within the years that the clock can show.
  [[nodiscard]] std::optional<Instant> next(Instant after) const;
  [[nodiscard]] std::vector<Instant> next(Instant after, std::size_t count) const;

  [[nodiscard]] const std::string& expression() const noexcept { return expression_; }
  [[nodiscard]] const std::string& zone() const noexcept { return zone_name_; }

 private:
  using Local = std::chrono::local_seconds;
  struct Field {
    std::uint64_t bits = 0;  // Bit i: the value i.
    bool any = false;        // Begins with *.
    [[nodiscard]] bool has(unsigned value) const noexcept { return (bits >> value & 1U) != 0; }
    // The first value from `from` on.
    [[nodiscard]] std::optional<unsigned> first(unsigned from) const noexcept;
  };
  struct Limits;
  [[nodiscard]] static unsigned value_of(std::string_view word, std::string_view text,
                                         const Limits& limits);
  [[nodiscard]] static std::uint64_t parse_part(std::string_view part, std::string_view text,
                                                const Limits& limits);
  [[nodiscard]] static Field parse(std::string_view text, const Limits& limits);
  void check_dates() const;
  [[nodiscard]] bool matches_day(std::chrono::local_days day) const noexcept;
  // The first match of a day, at `from` at the soonest.
  [[nodiscard]] std::optional<std::chrono::seconds> first_of_day(
      std::chrono::seconds from) const noexcept;
  // The first match with from <= match < to.
  [[nodiscard]] std::optional<Local> first_in(Local from, Local to) const;

  std::string expression_;
  std::string zone_name_;
  const void* zone_ = nullptr;  // A date::time_zone, which lives as long as the program.
  MissingTime missing_;
  RepeatedTime repeated_;
  bool every_hour_ = false;
  Field second_, minute_, hour_, day_, month_, weekday_;
};

}  // namespace tenure
