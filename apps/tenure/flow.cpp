#include "flow.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "flow/queries.hpp"
#include "flow_engines.hpp"
#include "flow_replay.hpp"
#include "flow_schedules.hpp"
#include "flow_timeline.hpp"
#include "snapshot.hpp"
#include "space_choice.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "tenure/flow.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;
using tenure::flow::Message;
using tenure::flow::Queries;

constexpr std::size_t history_page = 1000;

// The store, and what it knows about workflows.
struct Opened {
  std::shared_ptr<Store> store;
  std::string shown;
  std::optional<Queries> queries;  // Nothing: no engine has used the store.

  [[nodiscard]] const Queries& required() const {
    if (queries) return *queries;
    throw Error("there are no workflows in " + printable(shown) +
                ": no engine has used it; name another store with --space");
  }
};

Opened open(const FlowCommand& options) {
  const SpaceChoice choice = choose_space(options.space);
  Opened out{.store = open_existing_store(choice), .shown = choice.shown, .queries = {}};
  if (const auto partitions = Queries::partitions_of(*out.store)) {
    out.queries.emplace(*out.store, *partitions);
  }
  return out;
}

Style style_of(FlowState state) {
  switch (state) {
    case FlowState::completed: return Style::green;
    case FlowState::failed:
    case FlowState::timed_out: return Style::red;
    case FlowState::cancelled: return Style::yellow;
    case FlowState::queued:
    case FlowState::scheduled: return Style::dim;
    case FlowState::running: return Style::plain;
  }
  return Style::plain;
}

// "queued 3": three are before it.
std::string state_text(const FlowInfo& info) {
  std::string text{text_of(info.state)};
  if (info.position) text += " " + std::to_string(*info.position);
  return text;
}

// What a program stored: JSON as JSON, anything else as text.
Json value_of(const std::string& text) {
  Json parsed = Json::parse(text, nullptr, false);
  if (!parsed.is_discarded()) return parsed;
  return printable(text);
}

Json json_of(const FlowInfo& info) {
  Json out{{"id", printable(info.id)},
           {"type", printable(info.type)},
           {"state", text_of(info.state)},
           {"created", time_text(info.created)},
           {"starts", time_text(info.starts)}};
  if (info.position) out["position"] = *info.position;
  if (info.deadline) out["deadline"] = time_text(*info.deadline);
  if (info.ended) out["ended"] = time_text(*info.ended);
  out["tags"] = Json::object();
  for (const auto& [name, value] : info.tags) out["tags"][printable(name)] = printable(value);
  if (info.run > 0) out["run"] = info.run;
  if (!info.parent.empty()) out["parent"] = printable(info.parent);
  out["input"] = value_of(info.input);
  if (info.state == FlowState::completed) {
    out["result"] = value_of(info.result);
  } else if (is_terminal(info.state)) {
    out["error"] = {{"type", printable(info.error.type)},
                    {"code", printable(info.error.code)},
                    {"message", printable(info.error.message)}};
  }
  return out;
}

Json json_of(const HistoryEntry& entry) {
  return {{"order", entry.order},     {"time", time_text(entry.stamp)},
          {"kind", entry.kind},       {"name", printable(entry.name)},
          {"scope", entry.scope},     {"sequence", entry.sequence},
          {"attempt", entry.attempt}, {"value", value_of(entry.value)}};
}

void print(const Json& document) { fmt::print("{}\n", document.dump(2)); }

std::string tags_text(const FlowInfo& info) {
  std::string out;
  for (const auto& [name, value] : info.tags) {
    if (!out.empty()) out += ' ';
    out.append(printable(name)).append("=").append(printable(value));
  }
  return out;
}

// --- ls

using FlowRow = std::array<std::string, 5>;

// One line of the table; `state` is how to paint the third column.
std::string row_text(const FlowRow& row, const std::array<std::size_t, 5>& widest,
                     const Terminal& terminal, Style state) {
  std::string text;
  std::size_t gap = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!row.at(i).empty()) {
      text.append(gap, ' ');
      gap = 0;
    }
    text += i == 2 ? terminal.paint(state, row.at(i)) : row.at(i);
    gap += widest.at(i) - width(row.at(i)) + 2;
  }
  return text;
}

void print_table(const std::vector<FlowInfo>& all, Instant now, const Terminal& terminal) {
  const FlowRow head{"ID", "TYPE", "STATE", "AGE", "TAGS"};
  std::vector<FlowRow> rows;
  rows.reserve(all.size());
  for (const FlowInfo& info : all) {
    rows.push_back({printable(info.id), printable(info.type), state_text(info),
                    base::age_text(detail::saturating_sub(now, info.created)), tags_text(info)});
  }
  std::array<std::size_t, 5> widest{};
  const auto widen = [&widest](const FlowRow& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widest.at(i) = std::max(widest.at(i), width(row.at(i)));
    }
  };
  widen(head);
  for (const FlowRow& row : rows) widen(row);
  const Terminal plain{false};
  fmt::print("{}\n", terminal.paint(Style::dim, row_text(head, widest, plain, Style::plain)));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fmt::print("{}\n", row_text(rows[i], widest, terminal, style_of(all[i].state)));
  }
}

int list(const FlowCommand& options, const Terminal& terminal) {
  const Opened in = open(options);
  FlowFilter filter = options.filter;
  const Instant now = in.store->now();
  if (options.since) filter.created_from = detail::saturating_sub(now, *options.since);
  std::vector<FlowInfo> all;
  if (in.queries) all = in.queries->list(filter);
  const bool more = all.size() == filter.limit;
  if (options.json) {
    Json flows = Json::array();
    for (const FlowInfo& info : all) flows.push_back(json_of(info));
    Json document{{"space", printable(in.shown)}, {"workflows", std::move(flows)}};
    if (more) document["after"] = printable(all.back().id);
    print(document);
    return exit_ok;
  }
  print_table(all, now, terminal);
  if (more) {
    fmt::print(stderr, "tenure: there may be more: repeat with --after {}\n",
               printable(all.back().id));
  }
  return exit_ok;
}

// --- show, history

// Calls `each` with every entry of the log.
template <class Each>
void for_each_entry(const Queries& queries, const std::string& id, Each each) {
  std::uint32_t from = 0;
  while (true) {
    const std::vector<HistoryEntry> page = queries.history(id, from, history_page);
    for (const HistoryEntry& entry : page) each(entry);
    if (page.size() < history_page) return;
    from = page.back().order + 1;
  }
}

// The tickets of a workflow: it and its branches are their owners.
std::vector<TicketInfo> tickets_of(const Space& space, const std::string& id) {
  const std::string owner = Owner{id}.text();
  std::vector<TicketInfo> found = space.inspect();
  std::erase_if(found, [&owner](const TicketInfo& info) {
    const std::string text = info.ticket.owner.text();
    return text != owner && !text.starts_with(owner + "/");
  });
  return found;
}

std::string lock_text(const TicketInfo& info, const std::vector<TicketInfo>& all) {
  std::string text = info.granted ? "holds" : "waits for";
  for (const Claim& claim : info.ticket.claims) text += " " + claim.text();
  if (info.granted) return text;
  text += fmt::format(", position {}", info.position);
  for (const Token token : info.blocked_by) {
    const auto blocker =
        std::ranges::find(all, token, [](const TicketInfo& other) { return other.ticket.number; });
    text += fmt::format("{} {}", token == info.blocked_by.front() ? ", blocked by" : ",",
                        blocker == all.end() || blocker->ticket.owner.anonymous()
                            ? "token " + std::to_string(token.value)
                            : blocker->ticket.owner.text());
  }
  return text;
}

void line(const Terminal& terminal, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  fmt::print("  {} {}\n", terminal.paint(Style::dim, fmt::format("{:<9}", name)), value);
}

// What it sleeps for: "due 2026-01-31T12:00:00.000Z (in 23h05m)".
std::string timer_text(Instant due, Instant now) {
  return fmt::format("due {} ({})", time_text(due),
                     due > now ? "in " + base::age_text(detail::saturating_sub(due, now)) : "now");
}

int show(const FlowCommand& options, const Terminal& terminal) {
  const Opened in = open(options);
  const Queries& queries = in.required();
  const FlowInfo info = queries.info(options.id);
  const OpenSpace locks = open_existing_space(choose_space(options.space));
  const std::vector<TicketInfo> all = locks.space.inspect();
  const std::vector<TicketInfo> own = tickets_of(locks.space, options.id);
  const std::vector<Instant> timers = queries.timers(options.id);
  if (options.json) {
    Json document = json_of(info);
    document["locks"] = Json::array();
    for (const TicketInfo& ticket : own) document["locks"].push_back(lock_text(ticket, all));
    document["timers"] = Json::array();
    for (const Instant due : timers) document["timers"].push_back(time_text(due));
    document["history"] = Json::array();
    for_each_entry(queries, options.id, [&document](const HistoryEntry& entry) {
      document["history"].push_back(json_of(entry));
    });
    print(document);
    return exit_ok;
  }
  const Instant now = in.store->now();
  fmt::print("{} {}\n", terminal.paint(Style::bold, printable(info.id)),
             terminal.paint(style_of(info.state), state_text(info)));
  line(terminal, "type", printable(info.type));
  line(terminal, "parent", printable(info.parent));
  if (info.run > 0) line(terminal, "run", fmt::format("{}, continued as new", info.run + 1));
  line(terminal, "input", printable(info.input));
  line(terminal, "tags", tags_text(info));
  line(terminal, "created",
       fmt::format("{} ({} ago)", time_text(info.created),
                   base::age_text(detail::saturating_sub(now, info.created))));
  if (info.starts > now) line(terminal, "starts", time_text(info.starts));
  if (info.deadline) line(terminal, "deadline", time_text(*info.deadline));
  if (info.ended) {
    line(terminal, "took", base::precise_text(detail::saturating_sub(*info.ended, info.starts)));
  }
  line(terminal, "result", printable(info.result));
  line(terminal, "error", printable(info.error.message));
  for (const TicketInfo& ticket : own) line(terminal, "lock", lock_text(ticket, all));
  for (const Instant due : timers) line(terminal, "timer", timer_text(due, now));
  Timeline timeline{info, now, terminal, can_rewrite(1) ? screen_size(1).columns : 0};
  for_each_entry(queries, options.id, [&](const HistoryEntry& entry) { timeline.print(entry); });
  return exit_ok;
}

// One line per entry: as JSON documents, or as `show` has them.
int history(const FlowCommand& options, const Terminal& terminal) {
  const Opened in = open(options);
  const Queries& queries = in.required();
  const FlowInfo info = queries.info(options.id);
  Timeline timeline{info, in.store->now(), terminal, 0};
  for_each_entry(queries, options.id, [&](const HistoryEntry& entry) {
    if (options.json) {
      fmt::print("{}\n", json_of(entry).dump());
    } else {
      timeline.print(entry);
    }
  });
  return exit_ok;
}

// For Engine::replay() of a program that has the definitions.
int export_history(const FlowCommand& options) {
  fmt::print("{}", open(options).required().stored_history(options.id).json());
  return exit_ok;
}

int replay(const FlowCommand& options) {
  const Opened in = open(options);
  return flow_replay(options, *in.store, in.required());
}

// --- messages

// The owner of the workflow acts on it: at once where an engine runs, else when one starts.
int send(const FlowCommand& options, Message message) {
  const Opened in = open(options);
  in.required().send(options.id, std::move(message), options.message_id, Durability::full);
  if (options.json) print(Json{{"id", printable(options.id)}, {"sent", true}});
  return exit_ok;
}

int signal(const FlowCommand& options) {
  std::string value = options.value.empty() ? "null" : options.value;
  if (!nlohmann::json::accept(value)) value = nlohmann::json(value).dump();
  return send(options, {.kind = Message::Kind::signal,
                        .workflow = {},
                        .name = options.name,
                        .value = std::move(value)});
}

// Started again by the engine that owns it; one that has not ended is loaded again there.
int retry(const FlowCommand& options) {
  const Opened in = open(options);
  const Queries& queries = in.required();
  std::string as = options.id;
  if (is_terminal(queries.info(options.id).state)) {
    as = queries.retry_id(options.id);
    queries.send_retry(options.id, as, Durability::full);
  } else {
    queries.send(options.id,
                 {.kind = Message::Kind::retry, .workflow = {}, .name = {}, .value = {}}, {},
                 Durability::full);
  }
  if (options.json) {
    print(Json{{"id", printable(as)}, {"sent", true}});
  } else {
    fmt::print("{}\n", printable(as));
  }
  return exit_ok;
}

// The workflow is not told: its fencing token tells whoever checks it.
int release(const FlowCommand& options) {
  const FlowInfo info = open(options).required().info(options.id);
  const auto wanted = Path::parse(options.value);
  if (!wanted) throw Error("'" + options.value + "' is not the path of a lock");
  const std::string path = wanted->text();
  const OpenSpace locks = open_existing_space(choose_space(options.space));
  std::vector<std::string> others;
  for (const TicketInfo& ticket : tickets_of(locks.space, info.id)) {
    for (const Claim& claim : ticket.ticket.claims) {
      if (ticket.granted && claim.path.text() == path) {
        const bool released = locks.space.evict_now(ticket.ticket.number);
        if (options.json) {
          print(Json{{"id", printable(info.id)},
                     {"path", printable(path)},
                     {"token", std::to_string(ticket.ticket.number.value)},
                     {"released", released}});
        }
        return released ? exit_ok : exit_failure;
      }
      if (ticket.granted) others.push_back(claim.path.text());
    }
  }
  std::string held;
  for (const std::string& other : others) held += (held.empty() ? "" : ", ") + other;
  throw Error("workflow '" + info.id + "' does not hold '" + path +
              "'; it holds: " + (held.empty() ? "nothing" : held));
}

}  // namespace

int flow(const FlowCommand& options, const Terminal& terminal) {
  using enum FlowCommand::Action;
  try {
    switch (options.action) {
      case ls: return list(options, terminal);
      case show: return cli::show(options, terminal);
      case history: return cli::history(options, terminal);
      case print_history: return export_history(options);
      case signal: return cli::signal(options);
      case retry: return cli::retry(options);
      case release: return cli::release(options);
      case schedules: return flow_schedules(options, terminal);
      case engines: return flow_engines(options, terminal);
      case take_over: return flow_take_over(options);
      case replay: return cli::replay(options);
      case cancel:
        return send(options,
                    {.kind = Message::Kind::cancel, .workflow = {}, .name = {}, .value = {}});
      case terminate:
        return send(options,
                    {.kind = Message::Kind::terminate,
                     .workflow = {},
                     .name = {},
                     .value = options.value.empty() ? "it was terminated" : options.value});
    }
  } catch (const NoSuchWorkflow& error) {
    throw Error(std::string{error.what()} + "; 'tenure flow ls' lists them");
  }
  return exit_failure;
}

}  // namespace tenure::cli
