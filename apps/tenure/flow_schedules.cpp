#include "flow_schedules.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "flow/queries.hpp"
#include "flow/schedules.hpp"
#include "snapshot.hpp"
#include "space_choice.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;
using tenure::flow::Schedules;

constexpr std::size_t json_times = 5;

// "30 2 * * * Europe/Berlin" or "every 5m00s".
std::string times_text(const ScheduleOptions& options) {
  if (options.cron.empty()) return "every " + base::age_text(options.every);
  return printable(options.cron) + " " + printable(options.zone);
}

Json json_of(const ScheduleInfo& info, Instant now) {
  Json out{{"id", printable(info.options.id)},
           {"type", printable(info.type)},
           {"overlap", text_of(info.options.overlap)},
           {"paused", info.paused},
           {"fired", info.fired},
           {"skipped", info.skipped},
           {"buffered", info.buffered}};
  if (info.options.cron.empty()) {
    out["every"] = std::chrono::duration<double>{info.options.every}.count();
  } else {
    out["cron"] = printable(info.options.cron);
    out["zone"] = printable(info.options.zone);
  }
  out["running"] = Json::array();
  for (const std::string& id : info.running) out["running"].push_back(printable(id));
  if (info.last) out["last"] = time_text(*info.last);
  if (info.due) out["due"] = time_text(*info.due);
  if (info.missed) {
    out["missed"] = {{"from", time_text(info.missed->first)},
                     {"to", time_text(info.missed->second)}};
  }
  out["next"] = Json::array();
  for (const Instant time : info.next(now, json_times)) out["next"].push_back(time_text(time));
  return out;
}

using ScheduleRow = std::array<std::string, 6>;

ScheduleRow row_of(const ScheduleInfo& info, Instant now) {
  const std::string last =
      info.last ? base::age_text(detail::saturating_sub(now, *info.last)) + " ago" : "never";
  const std::vector<Instant> next = info.next(now, 1);
  std::string when = next.empty() ? "never" : time_text(info.due.value_or(next.front()));
  if (info.paused) when = "paused";
  return {printable(info.options.id),
          printable(info.type),
          times_text(info.options),
          std::move(when),
          last,
          fmt::format("{} fired, {} skipped", info.fired, info.skipped)};
}

void print_table(const std::vector<ScheduleInfo>& all, Instant now, const Terminal& terminal) {
  std::vector<ScheduleRow> rows{{"ID", "TYPE", "TIMES", "NEXT", "LAST", "COUNT"}};
  for (const ScheduleInfo& info : all) rows.push_back(row_of(info, now));
  std::array<std::size_t, 6> widest{};
  for (const ScheduleRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widest.at(i) = std::max(widest.at(i), width(row.at(i)));
    }
  }
  for (const ScheduleRow& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row.at(i);
      if (i + 1 < row.size()) text.append(widest.at(i) - width(row.at(i)) + 2, ' ');
    }
    fmt::print("{}\n", &row == &rows.front() ? terminal.paint(Style::dim, text) : text);
  }
}

}  // namespace

int flow_schedules(const FlowCommand& options, const Terminal& terminal) {
  const SpaceChoice choice = choose_space(options.space);
  const std::shared_ptr<Store> store = open_existing_store(choice);
  const std::optional<std::uint32_t> partitions = flow::Queries::partitions_of(*store);
  if (!partitions && !options.name.empty()) {
    throw Error("there are no schedules in " + printable(choice.shown) +
                ": no engine has used it; name another store with --space");
  }
  const Schedules schedules{*store, partitions.value_or(1), Durability::full};
  const Instant now = store->now();
  if (options.name.empty()) {
    const std::vector<ScheduleInfo> all = schedules.list();
    if (!options.json) {
      print_table(all, now, terminal);
      return exit_ok;
    }
    Json list = Json::array();
    for (const ScheduleInfo& info : all) list.push_back(json_of(info, now));
    fmt::print("{}\n", Json{{"space", printable(choice.shown)}, {"schedules", list}}.dump(2));
    return exit_ok;
  }
  try {
    if (options.name == "pause") schedules.pause(options.id);
    if (options.name == "resume") schedules.resume(options.id);
    if (options.name == "trigger") schedules.trigger(options.id);
  } catch (const NoSuchSchedule& error) {
    throw Error(std::string{error.what()} + "; 'tenure flow schedules' lists them");
  }
  if (options.json) fmt::print("{}\n", json_of(schedules.info(options.id), now).dump(2));
  return exit_ok;
}

}  // namespace tenure::cli
