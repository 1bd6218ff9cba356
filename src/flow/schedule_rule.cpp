#include "flow/schedule_rule.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/duration.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure {

std::string_view text_of(Overlap overlap) noexcept {
  switch (overlap) {
    case Overlap::skip: return "skip";
    case Overlap::buffer_one: return "buffer-one";
    case Overlap::buffer_all: return "buffer-all";
    case Overlap::cancel_running: return "cancel-running";
    case Overlap::allow_all: return "allow-all";
  }
  return "skip";
}

std::vector<Instant> ScheduleInfo::next(Instant after, std::size_t count) const {
  std::vector<Instant> times;
  while (times.size() < count) {
    const std::optional<Instant> time = flow::next_time(options, after);
    if (!time) break;
    after = times.emplace_back(*time);
  }
  return times;
}

}  // namespace tenure

namespace tenure::flow {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

constexpr int max_decisions = 1000;  // Per transaction.

std::int64_t count(Instant time) { return time.time_since_epoch().count(); }
Instant instant(const Json& value) { return Instant{nanoseconds{value.get<std::int64_t>()}}; }

Json optional_json(const std::optional<Instant>& time) {
  return time ? Json(count(*time)) : Json(nullptr);
}
std::optional<Instant> optional_of(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return instant(value);
}
Json list_json(const std::vector<Instant>& times) {
  Json out = Json::array();
  for (const Instant time : times) out.push_back(count(time));
  return out;
}
std::vector<Instant> list_of(const Json& value) {
  std::vector<Instant> times;
  for (const Json& one : value) times.push_back(instant(one));
  return times;
}

void check_duration(std::string_view what, nanoseconds value) {
  if (value.count() >= 0 && value <= base::max_duration) return;
  throw BadRequest("the " + std::string{what} +
                   " of a schedule must be from zero to a hundred years");
}

// Starts the run of `time`, or does what the policy says. True: it starts.
bool admit(ScheduleStep& step, Instant time) {
  ScheduleState& state = step.state;
  const bool busy = !state.running.empty();
  switch (state.options.overlap) {
    case Overlap::allow_all: break;
    case Overlap::skip:
      if (busy) return ++state.skipped, false;
      break;
    case Overlap::buffer_one:
    case Overlap::buffer_all: {
      if (!busy) break;
      const std::size_t room = state.options.overlap == Overlap::buffer_one ? 1 : max_buffered;
      if (state.buffered.size() >= room) return ++state.skipped, false;
      state.buffered.push_back(time);
      return false;
    }
    case Overlap::cancel_running:
      if (!busy) break;
      state.skipped += state.buffered.size();
      state.buffered = {time};
      for (const std::string& id : state.running) step.cancels.push_back(id);
      return false;
  }
  step.start = time;
  ++state.fired;
  state.last_fired = time;
  if (state.options.overlap != Overlap::allow_all) {
    state.running.push_back(run_id(state.options.id, time));
  }
  return true;
}

// The next time that has not been dealt with. Times that are too late are left out.
std::optional<Instant> upcoming(ScheduleState& state, Instant now) {
  std::optional<Instant> time = next_time(state.options, state.last);
  const Instant horizon = detail::saturating_sub(now, state.options.catch_up);
  if (!time || due_of(state.options, *time) >= horizon) return time;
  // All times with their jitter in the window are after this.
  const Instant first = *time;
  const Instant from = detail::saturating_sub(horizon, state.options.jitter);
  state.last = std::max(state.last, from - nanoseconds{1});
  time = next_time(state.options, state.last);
  while (time && due_of(state.options, *time) < horizon) {
    state.last = *time;
    time = next_time(state.options, state.last);
  }
  state.missed = {first, horizon};
  return time;
}

}  // namespace

void check(const ScheduleOptions& options) {
  if (options.id.empty()) throw BadRequest("a schedule must have an id");
  if (options.id.size() > max_schedule_id) {
    throw BadRequest("the id of a schedule has " + std::to_string(options.id.size()) +
                     " bytes: use at most " + std::to_string(max_schedule_id));
  }
  try {
    static_cast<void>(Json{{"id", options.id}, {"tags", options.tags}}.dump());
  } catch (const nlohmann::json::exception&) {
    throw BadRequest("the id and the tags of a schedule must be UTF-8");
  }
  if (options.cron.empty() == (options.every.count() == 0)) {
    throw BadRequest("schedule '" + options.id +
                     "' needs either a cron expression or a period (every)");
  }
  if (!options.cron.empty()) {
    const Cron parsed{options.cron, options.zone, options.missing, options.repeated};
  } else if (options.every < std::chrono::milliseconds{1}) {
    throw BadRequest("the period of schedule '" + options.id + "' must be at least 1 ms");
  }
  check_duration("period", options.every);
  check_duration("phase", options.phase);
  check_duration("jitter", options.jitter);
  check_duration("catch-up window", options.catch_up);
  if (options.catch_up < min_catch_up) {
    throw BadRequest("the catch-up window of schedule '" + options.id +
                     "' must be at least 10 s: engines take that long to take over");
  }
}

std::optional<Instant> next_time(const ScheduleOptions& options, Instant after) {
  if (!options.cron.empty()) {
    return Cron{options.cron, options.zone, options.missing, options.repeated}.next(after);
  }
  const Instant shifted = detail::saturating_sub(after, options.phase);
  const std::int64_t every = options.every.count();
  std::int64_t over = count(shifted) % every;
  if (over < 0) over += every;
  const Instant base = detail::saturating_sub(shifted, nanoseconds{over});
  const Instant time =
      detail::saturating_add(detail::saturating_add(base, options.every), options.phase);
  if (time == Instant::max()) return std::nullopt;
  return time;
}

Instant due_of(const ScheduleOptions& options, Instant time) {
  if (options.jitter.count() == 0) return time;
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : options.id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  hash ^= static_cast<std::uint64_t>(count(time));
  hash = (hash ^ hash >> 33U) * 0xFF51AFD7ED558CCDU;
  hash = (hash ^ hash >> 33U) * 0xC4CEB9FE1A85EC53U;
  hash ^= hash >> 33U;
  const auto late = hash % static_cast<std::uint64_t>(options.jitter.count());
  return detail::saturating_add(time, nanoseconds{static_cast<std::int64_t>(late)});
}

std::string utc_text(Instant time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  std::array<char, 64> text{};
  static_cast<void>(std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
      static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
      static_cast<int>(clock.seconds().count())));
  std::string out{text.data()};
  if (clock.subseconds().count() != 0) {
    static_cast<void>(std::snprintf(text.data(), text.size(), ".%09d",
                                    static_cast<int>(clock.subseconds().count())));
    out += text.data();
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out + 'Z';
}

std::string run_id(std::string_view schedule, Instant time) {
  return std::string{schedule} + "@" + utc_text(time);
}

ScheduleStep step(ScheduleState state, const std::vector<std::string>& ended, Instant now) {
  ScheduleStep out{.state = std::move(state), .start = {}, .cancels = {}, .again = false};
  ScheduleState& next = out.state;
  std::erase_if(next.running, [&ended](const std::string& id) {
    return std::ranges::find(ended, id) != ended.end();
  });
  bool started = false;
  if (!next.buffered.empty() && next.running.empty()) {
    const Instant time = next.buffered.front();
    next.buffered.erase(next.buffered.begin());
    started = admit(out, time);
  }
  while (!started && !next.triggered.empty()) {
    const Instant time = next.triggered.front();
    next.triggered.erase(next.triggered.begin());
    started = admit(out, time);
  }
  std::optional<Instant> upcoming_time;
  for (int i = 0; !next.paused && !started; ++i) {
    upcoming_time = upcoming(next, now);
    if (!upcoming_time || due_of(next.options, *upcoming_time) > now) break;
    if (i == max_decisions) {
      out.again = true;
      break;
    }
    next.last = *upcoming_time;
    started = admit(out, *upcoming_time);
  }
  if (started) {
    out.again = true;
    if (!next.paused) upcoming_time = upcoming(next, now);
  }
  next.timer.reset();
  if (!next.paused && upcoming_time) next.timer = due_of(next.options, *upcoming_time);
  return out;
}

ScheduleState refused(ScheduleState state, Instant time) {
  std::erase(state.running, run_id(state.options.id, time));
  --state.fired;
  ++state.skipped;
  return state;
}

// --- the row as JSON, for people and SQL

std::string encode(const ScheduleState& state) {
  const ScheduleOptions& options = state.options;
  Json out{{"id", options.id},
           {"cron", options.cron},
           {"zone", options.zone},
           {"missing", static_cast<int>(options.missing)},
           {"repeated", static_cast<int>(options.repeated)},
           {"every", options.every.count()},
           {"phase", options.phase.count()},
           {"overlap", static_cast<int>(options.overlap)},
           {"catch_up", options.catch_up.count()},
           {"jitter", options.jitter.count()},
           {"begins_paused", options.paused},
           {"tags", options.tags},
           {"type", state.type},
           {"input", state.input},
           {"created", count(state.created)},
           {"paused", state.paused},
           {"last", count(state.last)},
           {"timer", optional_json(state.timer)},
           {"triggered", list_json(state.triggered)},
           {"buffered", list_json(state.buffered)},
           {"running", state.running},
           {"last_fired", optional_json(state.last_fired)},
           {"fired", state.fired},
           {"skipped", state.skipped}};
  if (state.missed) {
    out["missed"] = {count(state.missed->first), count(state.missed->second)};
  }
  return out.dump();
}

namespace {

template <class E>
E enum_of(const Json& value, E last) {
  const int number = value.get<int>();
  if (number < 0 || number > static_cast<int>(last)) throw BadRequest("an unknown number");
  return static_cast<E>(number);
}

ScheduleState schedule_of(const Json& in) {
  ScheduleState state;
  ScheduleOptions& options = state.options;
  in.at("id").get_to(options.id);
  in.at("cron").get_to(options.cron);
  in.at("zone").get_to(options.zone);
  options.missing = enum_of(in.at("missing"), MissingTime::skip);
  options.repeated = enum_of(in.at("repeated"), RepeatedTime::twice);
  options.every = nanoseconds{in.at("every").get<std::int64_t>()};
  options.phase = nanoseconds{in.at("phase").get<std::int64_t>()};
  options.overlap = enum_of(in.at("overlap"), Overlap::allow_all);
  options.catch_up = nanoseconds{in.at("catch_up").get<std::int64_t>()};
  options.jitter = nanoseconds{in.at("jitter").get<std::int64_t>()};
  in.at("begins_paused").get_to(options.paused);
  in.at("tags").get_to(options.tags);
  in.at("type").get_to(state.type);
  in.at("input").get_to(state.input);
  state.created = instant(in.at("created"));
  in.at("paused").get_to(state.paused);
  state.last = instant(in.at("last"));
  state.timer = optional_of(in.at("timer"));
  state.triggered = list_of(in.at("triggered"));
  state.buffered = list_of(in.at("buffered"));
  in.at("running").get_to(state.running);
  state.last_fired = optional_of(in.at("last_fired"));
  in.at("fired").get_to(state.fired);
  in.at("skipped").get_to(state.skipped);
  if (in.contains("missed")) {
    state.missed = {instant(in.at("missed").at(0)), instant(in.at("missed").at(1))};
  }
  check(options);
  return state;
}

}  // namespace

std::expected<ScheduleState, std::string> decode_schedule(std::string_view bytes) {
  try {
    return schedule_of(Json::parse(bytes));
  } catch (const std::exception& error) {
    return std::unexpected("the schedule is damaged: " + std::string{error.what()});
  }
}

ScheduleInfo info_of(const ScheduleState& state) {
  return {.options = state.options,
          .type = state.type,
          .input = state.input,
          .created = state.created,
          .paused = state.paused,
          .last = state.last_fired,
          .due = state.timer,
          .running = state.running,
          .buffered = state.buffered.size(),
          .fired = state.fired,
          .skipped = state.skipped,
          .missed = state.missed};
}

}  // namespace tenure::flow
