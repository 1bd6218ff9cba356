#include "flow_engines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "flow/partitions.hpp"
#include "process_state.hpp"
#include "snapshot.hpp"
#include "space_choice.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EngineRow {
  std::string session;
  std::string host;
  std::int64_t pid = 0;
  std::string label;
  std::optional<Instant> since;
  std::vector<Token> owned;
  std::vector<Token> waiting;
  [[nodiscard]] bool stopped() const { return is_stopped(host, pid); }
};

// By session: that is what holds the locks of partitions.
std::vector<EngineRow> engines_of(const Space& space) {
  std::map<std::string, EngineRow> found;
  for (const TicketInfo& info : space.inspect(flow::Partitions::root())) {
    EngineRow& row = found[info.session];
    row.session = info.session;
    row.host = info.host;
    row.pid = info.pid;
    row.label = info.label;
    if (info.since) row.since = std::min(row.since.value_or(*info.since), *info.since);
    (info.granted ? row.owned : row.waiting).push_back(info.ticket.number);
  }
  std::vector<EngineRow> rows;
  rows.reserve(found.size());
  for (auto& [session, row] : found) rows.push_back(std::move(row));
  return rows;
}

Json json_of(const EngineRow& row) {
  Json out{{"engine", printable(row.session)},
           {"host", printable(row.host)},
           {"pid", row.pid},
           {"label", printable(row.label)},
           {"stopped", row.stopped()},
           {"partitions", row.owned.size()}};
  if (row.since) out["since"] = time_text(*row.since);
  return out;
}

using Columns = std::array<std::string, 7>;

void print_table(const std::vector<EngineRow>& all, Instant now, const Terminal& terminal) {
  std::vector<Columns> rows{{"ENGINE", "HOST", "PID", "STATE", "PARTITIONS", "AGE", "LABEL"}};
  for (const EngineRow& row : all) {
    rows.push_back({printable(row.session), printable(row.host), std::to_string(row.pid),
                    row.stopped() ? "stopped" : "running", std::to_string(row.owned.size()),
                    row.since ? base::age_text(detail::saturating_sub(now, *row.since)) : "",
                    printable(row.label)});
  }
  std::array<std::size_t, 7> widest{};
  for (const Columns& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widest.at(i) = std::max(widest.at(i), width(row.at(i)));
    }
  }
  for (const Columns& row : rows) {
    std::string text;
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row.at(i);
      if (i + 1 < row.size()) text.append(widest.at(i) - width(row.at(i)) + 2, ' ');
    }
    fmt::print("{}\n", &row == &rows.front() ? terminal.paint(Style::dim, text) : text);
  }
}

// ENGINE is a session or a pid. Throws Error where none or several fit.
EngineRow engine_named(const std::vector<EngineRow>& all, const std::string& name) {
  std::vector<EngineRow> fitting;
  for (const EngineRow& row : all) {
    if (row.session == name) return row;
    if (std::to_string(row.pid) == name) fitting.push_back(row);
  }
  if (fitting.size() == 1) return fitting.front();
  throw Error("there " + std::string{fitting.empty() ? "is no engine" : "are several engines"} +
              " '" + printable(name) + "'; 'tenure flow engines' lists them");
}

}  // namespace

int flow_engines(const FlowCommand& options, const Terminal& terminal) {
  const SpaceChoice choice = choose_space(options.space);
  const OpenSpace in = open_existing_space(choice);
  const std::vector<EngineRow> all = engines_of(in.space);
  if (!options.json) {
    print_table(all, in.store->now(), terminal);
    return exit_ok;
  }
  Json list = Json::array();
  for (const EngineRow& row : all) list.push_back(json_of(row));
  fmt::print("{}\n", Json{{"space", printable(choice.shown)}, {"engines", list}}.dump(2));
  return exit_ok;
}

int flow_take_over(const FlowCommand& options) {
  const OpenSpace in = open_existing_space(choose_space(options.space));
  const EngineRow engine = engine_named(engines_of(in.space), options.id);
  // Those that it waits for first: it must not be granted one of them now.
  std::size_t taken = 0;
  for (const Token token : engine.waiting) in.space.evict_now(token);
  for (const Token token : engine.owned) taken += in.space.evict_now(token) ? 1 : 0;
  if (options.json) {
    fmt::print("{}\n", Json{{"engine", printable(engine.session)}, {"partitions", taken}}.dump(2));
  } else {
    fmt::print("{} partitions taken from engine {} (pid {} on {})\n", taken,
               printable(engine.session), engine.pid, printable(engine.host));
  }
  return exit_ok;
}

}  // namespace tenure::cli
