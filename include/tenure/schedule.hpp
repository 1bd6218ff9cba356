// schedule.hpp: workflows that start by themselves, again and again.
//
//   engine.schedule({.id = "nightly", .cron = "30 2 * * *", .zone = "Europe/Berlin"}, "reconcile");
//   engine.schedule({.id = "poll", .every = 5min, .overlap = Overlap::buffer_one}, "poll", "mail");
//
// A schedule is a row of the store. Of all engines on that store exactly one fires each time: the
// start of the workflow and the advance of the schedule are one transaction.
//
//   a time comes while the run before goes on | what happens
//   ------------------------------------------+---------------------------------------------------
//   skip                                      | nothing: the time is counted as skipped
//   buffer_one                                | one run starts when that one has ended
//   buffer_all                                | as many runs as times came, one after another
//   cancel_running                            | that run is cancelled; when it has ended, the next
//   allow_all                                 | the runs overlap
//
// Values; thread safety as of any struct.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/cron.hpp"
#include "tenure/store.hpp"

namespace tenure {

enum class Overlap : std::uint8_t { skip, buffer_one, buffer_all, cancel_running, allow_all };
[[nodiscard]] std::string_view text_of(Overlap overlap) noexcept;  // "buffer-one"

struct ScheduleOptions {
  // NOLINTBEGIN(readability-redundant-member-init)
  std::string id{};
  // Either a cron expression in a zone (cron.hpp),
  std::string cron{};
  std::string zone = "UTC";
  MissingTime missing = MissingTime::at_change;
  RepeatedTime repeated = RepeatedTime::once;
  // or the multiples of a period since 1970, moved by `phase`. Zones do not matter to them.
  std::chrono::nanoseconds every{};
  std::chrono::nanoseconds phase{};

  Overlap overlap = Overlap::skip;
  // A time that could not fire, because no engine ran, fires late by up to this. At least 10 s.
  std::chrono::nanoseconds catch_up = std::chrono::hours{1};
  // Each time fires late by up to this, by an amount that only depends on the schedule and the
  // time: spreads schedules that would all fire at midnight.
  std::chrono::nanoseconds jitter{};
  bool paused = false;                        // At first.
  std::map<std::string, std::string> tags{};  // Of the runs; beside "schedule", its id.
  // NOLINTEND(readability-redundant-member-init)
  friend bool operator==(const ScheduleOptions&, const ScheduleOptions&) = default;
};

struct ScheduleInfo {
  ScheduleOptions options;
  std::string type;
  std::string input;  // JSON array of the arguments.
  Instant created;
  bool paused = false;
  std::optional<Instant> last;  // The time that last started a run; its run is "ID@TIME".
  std::optional<Instant> due;   // When it fires next, with its jitter.
  std::vector<std::string> running;
  std::size_t buffered = 0;  // Times that wait for a run to end.
  std::uint64_t fired = 0;
  std::uint64_t skipped = 0;
  // The last times that were missed: no engine ran, and the window for catching up had passed.
  std::optional<std::pair<Instant, Instant>> missed;

  // The next times after `after`, without jitter; paused or not.
  [[nodiscard]] std::vector<Instant> next(Instant after, std::size_t count) const;
};

// There is no schedule with this id.
class NoSuchSchedule : public Error {
 public:
  using Error::Error;
};

}  // namespace tenure
