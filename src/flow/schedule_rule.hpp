// schedule_rule.hpp: what a schedule does when. Pure: the row, what happened and the time in; the
// new row and at most one start out.
//
// Invariants
//   1. Each time is dealt with once: `last` only grows, and a time up to `last` never fires.
//   2. Unless runs may overlap, there is at most one in `running`, and nothing is buffered without.
//   3. All lists are bounded.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenure/schedule.hpp"

namespace tenure::flow {

inline constexpr std::size_t max_buffered = 1000;   // Times that wait; later ones are skipped.
inline constexpr std::size_t max_triggered = 1000;  // Calls of trigger() that wait.
inline constexpr std::size_t max_schedule_id = 400;
inline constexpr std::chrono::seconds min_catch_up{10};

// The row.
struct ScheduleState {
  ScheduleOptions options;
  std::string type;
  std::string input;
  Instant created;
  bool paused = false;
  Instant last;                    // Times up to here are dealt with.
  std::optional<Instant> timer;    // The one that is in the store.
  std::vector<Instant> triggered;  // By hand, not dealt with yet.
  std::vector<Instant> buffered;
  std::vector<std::string> running;
  std::optional<Instant> last_fired;
  std::uint64_t fired = 0;
  std::uint64_t skipped = 0;
  std::optional<std::pair<Instant, Instant>> missed;
  friend bool operator==(const ScheduleState&, const ScheduleState&) = default;
};

// Throws BadRequest.
void check(const ScheduleOptions& options);
[[nodiscard]] std::string encode(const ScheduleState& state);
[[nodiscard]] std::expected<ScheduleState, std::string> decode_schedule(std::string_view bytes);
[[nodiscard]] ScheduleInfo info_of(const ScheduleState& state);

// "2026-11-17T02:30:00Z", with a fraction where there is one.
[[nodiscard]] std::string utc_text(Instant time);
[[nodiscard]] std::string run_id(std::string_view schedule, Instant time);
[[nodiscard]] std::optional<Instant> next_time(const ScheduleOptions& options, Instant after);
// The time with its jitter.
[[nodiscard]] Instant due_of(const ScheduleOptions& options, Instant time);

struct ScheduleStep {
  ScheduleState state;
  std::optional<Instant> start;      // This time's run.
  std::vector<std::string> cancels;  // Workflows.
  bool again = false;                // There may be more to do now.
};
// `ended`: runs that have ended. The new state's `timer` is when to look again.
[[nodiscard]] ScheduleStep step(ScheduleState state, const std::vector<std::string>& ended,
                                Instant now);
// The run of `time` could not be started: it counts as skipped.
[[nodiscard]] ScheduleState refused(ScheduleState state, Instant time);

}  // namespace tenure::flow
