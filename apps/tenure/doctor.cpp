#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "exit_status.hpp"
#include "operate.hpp"
#include "process_state.hpp"
#include "snapshot.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "space/stored/tickets.hpp"
#include "space_choice.hpp"
#include "tenure/error.hpp"
#include "tenure/shards.hpp"
#include "tenure/store.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;
using Fact = Store::Fact;

struct SessionRow {
  std::string id;
  std::string host;
  std::int64_t pid = 0;
  std::string label;
  std::optional<Instant> since;
  bool alive = false;
  bool stopped = false;  // Its process; known only for those of this machine.
  std::size_t tickets = 0;
};

struct Report {
  std::string url;
  std::vector<Fact> facts;
  std::vector<SessionRow> sessions;
  std::vector<std::string> problems;  // Each says what to do.
  std::vector<std::string> notes;
  std::vector<Report> shards;  // Of a sharded space.

  [[nodiscard]] bool healthy() const {
    return problems.empty() && std::ranges::all_of(shards, &Report::healthy);
  }
};

// Checks the files from outside; the store's own view is in its facts.
void examine_file(const SpaceChoice& choice, Report& report) {
  if (choice.file.empty()) return;
  struct stat status{};
  if (::stat(choice.file.c_str(), &status) != 0) return;
  const unsigned mode = status.st_mode & 07777U;
  report.facts.push_back(
      {.name = "owner", .value = fmt::format("user {}, group {}", status.st_uid, status.st_gid)});
  const std::string slash = choice.file.contains('/') ? choice.file : "./" + choice.file;
  const std::string directory = slash.substr(0, slash.rfind('/') + 1);
  if ((mode & 0002U) != 0) {
    report.problems.emplace_back(
        "every user of this machine can write to the file, and so remove any lock: run "
        "chmod o-w, or give access to a group");
  }
  if (::access(directory.c_str(), W_OK) != 0) {
    report.problems.emplace_back(
        "this user cannot write to the directory of the file, but must create files there: "
        "grant write permission");
  }
  if (status.st_uid != ::geteuid() && (mode & 0060U) != 0060U) {
    report.notes.emplace_back("the file belongs to another user, and its group cannot write to it");
  }
}

// What a server's settings mean for locks, if that is not what people expect.
void examine_server(Report& report) {
  const auto is = [&](std::string_view name, std::string_view value) {
    return std::ranges::any_of(
        report.facts, [&](const Fact& fact) { return fact.name == name && fact.value == value; });
  };
  if (is("fsync", "off")) {
    report.notes.emplace_back(
        "the server runs with fsync=off: if its machine crashes, held locks are lost, and tokens "
        "may be issued again");
  }
  if (is("routines", "1")) {
    report.problems.emplace_back(
        "the routines in the schema are from an older release, in which a database user who may "
        "create functions in another schema can make this role run them: run tenure doctor as the "
        "role that owns the schema, which replaces them");
  }
  if (is("pooler", "yes")) {
    report.notes.emplace_back(
        "a transaction pooler is in front of the server, so waiters poll once a second instead of "
        "being notified; connect directly, or use a session pooler, for faster hand-offs");
  }
}

void examine_clock(Store& store, Report& report) {
  const Instant now = store.now();
  const auto difference =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - std::chrono::system_clock::now());
  report.facts.push_back({.name = "clock", .value = time_text(now)});
  if (std::chrono::abs(difference) > std::chrono::minutes{1}) {
    report.notes.emplace_back(fmt::format(
        "the clock of this machine and the clock of the space differ by {}; deadlines follow the "
        "clock of the space, so nothing needs to be done",
        base::age_text(std::chrono::abs(difference))));
  }
}

SessionRow session_row(const Entry& entry, Store& store) {
  SessionRow row;
  row.id = entry.key.substr(session_prefix.size());
  row.alive = store.alive(row.id);
  stored::SessionRow told = stored::parse_session(entry);
  row.host = std::move(told.host);
  row.pid = told.pid;
  row.label = std::move(told.label);
  row.since = told.since;
  row.stopped = row.alive && is_stopped(row.host, row.pid);
  return row;
}

// A lease of a server ends by itself; a session in a file is alive as long as its process is.
void report_stopped(const SpaceChoice& choice, Report& report) {
  if (choice.file.empty()) return;
  std::set<std::int64_t> seen;
  for (const SessionRow& row : report.sessions) {
    if (!row.stopped || !seen.insert(row.pid).second) continue;
    report.problems.emplace_back(fmt::format(
        "process {0}{1} is stopped: it keeps its locks and its workflows, and if it was stopped "
        "while it wrote, every other process waits; run 'kill -CONT {0}' to let it go on, or "
        "'kill -KILL {0}' to let others take over",
        row.pid, row.label.empty() ? "" : fmt::format(" ('{}')", row.label)));
  }
}

void report_unreadable(const stored::Unreadable& found, Report& report) {
  if (found.number == Token{}) {
    report.problems.emplace_back(fmt::format(
        "there are entries among the tickets that are none ({}): find the program that writes to "
        "this store, then run 'tenure evict 0'",
        found.entries.size()));
    return;
  }
  std::string claims;
  for (const Claim& claim : found.claims) claims += (claims.empty() ? "" : " ") + claim.text();
  if (found.newer) {
    report.problems.emplace_back(fmt::format(
        "ticket {} at {} was written by a newer version of Tenure ({}), so requests of this "
        "version for that path fail: update this program",
        found.number.value, claims, found.why));
    return;
  }
  report.problems.emplace_back(fmt::format(
      "ticket {0} at {1} cannot be read ({2}), so every request for that path fails: find the "
      "program that writes to this store, then run 'tenure evict {0}'",
      found.number.value, claims, found.why));
}

// Tickets that are anchored to a key.
void report_anchors(Store& store, const stored::Rows& rows, Report& report) {
  std::set<std::string> anchors;
  std::size_t anchored = 0;
  for (const stored::Seen& ticket : rows.tickets) {
    if (!ticket.row.anchored()) continue;
    ++anchored;
    anchors.insert(ticket.row.anchor);
  }
  if (anchored == 0) return;
  report.facts.push_back({.name = "anchored tickets",
                          .value = fmt::format("{} on {} keys", anchored, anchors.size())});
  stored::Hints hints;
  const std::set<std::string> gone = stored::Tickets{store, hints}.missing(anchors);
  const auto orphans = std::ranges::count_if(rows.tickets, [&gone](const stored::Seen& ticket) {
    return gone.contains(ticket.row.anchor);
  });
  if (orphans == 0) return;
  report.notes.emplace_back(fmt::format(
      "{} on keys that are gone: the next waiter removes what they held; nothing needs to be done",
      orphans == 1 ? "one ticket is anchored" : fmt::format("{} tickets are anchored", orphans)));
}

// The number of tickets of each session. Reads the store directly, because a space would remove
// dead ones.
std::map<std::string, std::size_t> examine_tickets(Store& store, Report& report) {
  Txn txn;
  txn.reads.push_back(stored::rows_range());
  Outcome outcome = store.apply(txn);
  const stored::Rows rows = stored::read_rows(std::move(outcome.reads.front()));
  for (const stored::Unreadable& found : rows.unreadable) report_unreadable(found, report);
  std::map<std::string, std::size_t> tickets;
  for (const stored::Seen& ticket : rows.tickets) {
    if (!ticket.row.anchored()) ++tickets[ticket.row.session];
  }
  report_anchors(store, rows, report);
  return tickets;
}

void examine_sessions(Store& store, Report& report) {
  std::map<std::string, std::size_t> tickets = examine_tickets(store, report);
  Txn txn;
  txn.reads.push_back(Range::prefix(std::string{session_prefix}));
  const Outcome outcome = store.apply(txn);
  std::size_t dead = 0;
  for (const Entry& entry : outcome.reads.front()) {
    SessionRow row = session_row(entry, store);
    row.tickets = tickets[row.id];
    if (!row.alive) ++dead;
    report.sessions.push_back(std::move(row));
  }
  if (dead != 0) {
    report.notes.emplace_back(
        fmt::format("{} dead: the next waiter removes what they held; nothing needs to be done",
                    dead == 1 ? "one session is" : fmt::format("{} sessions are", dead)));
  }
}

// The best test of a lock is to acquire one.
void examine_locking(const Space& space, Report& report) {
  using Clock = std::chrono::steady_clock;
  const Path path = Path::of("tenure-doctor", static_cast<std::int64_t>(::getpid()));
  const Clock::time_point start = Clock::now();
  std::optional<Hold> hold = space.try_lock(path);
  if (!hold || !hold->release()) {
    report.problems.emplace_back(fmt::format("cannot lock and release '{}'", path.text()));
    return;
  }
  report.facts.push_back(
      {.name = "lock and release", .value = base::precise_text(Clock::now() - start)});
}

Report examine(const SpaceChoice& choice) {
  Report report;
  report.url = choice.shown;
  const std::shared_ptr<Store> store = open_existing_store(choice);
  report.facts = store->facts();
  examine_file(choice, report);
  examine_server(report);
  examine_clock(*store, report);
  examine_sessions(*store, report);
  report_stopped(choice, report);
  if (std::ranges::any_of(report.sessions, &SessionRow::stopped) && !choice.file.empty()) {
    report.notes.emplace_back("no lock was tried: it might wait for the process that is stopped");
    return report;
  }
  try {
    examine_locking(open(store), report);
  } catch (const Error& error) {
    report.problems.emplace_back(error.what());
  }
  return report;
}

// The map, and every shard of it by itself.
Report examine_shards(const SpaceChoice& choice) {
  Report report;
  report.url = choice.shown;
  const ShardsInfo info = tenure::shards(choice.url);
  const std::vector<sharded::ShardSource> sources = sharded::read_sources(choice.url);
  report.facts = {{.name = "kind", .value = "sharded"},
                  {.name = "map version", .value = std::to_string(info.version)},
                  {.name = "shards", .value = fmt::format("{}", fmt::join(info.names, " "))}};
  if (info.version == 0) {
    report.problems.emplace_back("there is no map of shards: run 'tenure shards set NAME...'");
  }
  if (!info.changing.empty()) {
    report.problems.push_back(fmt::format(
        "a change of the shards has not been finished, and requests for the roots that it moves "
        "fail: run 'tenure shards set {}' to finish it, or 'tenure shards set {}' to take it back",
        fmt::join(info.changing, " "), fmt::join(info.names, " ")));
  }
  for (const std::string& name : info.names) {
    if (std::ranges::find(sources, name, &sharded::ShardSource::name) != sources.end()) continue;
    report.problems.push_back(
        fmt::format("shard '{}' is in the map, but not in the list of shards: add it", name));
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const ShardInfo& shard = info.shards[i];
    if (!shard.in_map) {
      report.notes.push_back(fmt::format("shard '{}' is not in the map", shard.name));
      continue;
    }
    Report one;
    try {
      one = examine(choose_space(sources[i].url));
    } catch (const Error& error) {
      one.problems.emplace_back(error.what());
    }
    if (!shard.fault.empty() && one.problems.empty()) one.problems.push_back(shard.fault);
    one.url = fmt::format("shard {}: {}", shard.name, shard.url);
    report.shards.push_back(std::move(one));
  }
  return report;
}

// NOLINTNEXTLINE(misc-no-recursion): shards have no shards.
Json json_of(const Report& report) {
  Json out = Json::object();
  out["space"] = report.url;
  out["facts"] = Json::object();
  for (const Fact& fact : report.facts) out["facts"][fact.name] = fact.value;
  out["sessions"] = Json::array();
  for (const SessionRow& row : report.sessions) {
    Json session = Json::object();
    session["session"] = row.id;
    session["alive"] = row.alive;
    session["stopped"] = row.stopped;
    session["host"] = row.host;
    session["pid"] = row.pid;
    session["label"] = row.label;
    session["since"] = row.since ? Json(time_text(*row.since)) : Json(nullptr);
    session["tickets"] = row.tickets;
    out["sessions"].push_back(std::move(session));
  }
  out["problems"] = report.problems;
  out["notes"] = report.notes;
  if (!report.shards.empty()) out["shards"] = Json::array();
  for (const Report& shard : report.shards) out["shards"].push_back(json_of(shard));
  return out;
}

std::string json_text(const Report& report) {
  return json_of(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void print_sessions(const Report& report, const Terminal& terminal) {
  fmt::print("\n{}\n", terminal.paint(Style::bold, "Sessions"));
  for (const SessionRow& row : report.sessions) {
    fmt::print(
        "  {} {}  {}, pid {}{}, {} {}{}\n", printable(row.id),
        row.alive ? terminal.paint(Style::green, "alive") : terminal.paint(Style::yellow, "dead "),
        printable(row.host), row.pid, row.stopped ? " (stopped)" : "", row.tickets,
        row.tickets == 1 ? "ticket" : "tickets",
        row.label.empty() ? "" : fmt::format(", '{}'", printable(row.label)));
  }
}

// NOLINTNEXTLINE(misc-no-recursion): shards have no shards.
void print(const Report& report, const Terminal& terminal) {
  fmt::print("{}\n", terminal.paint(Style::bold, printable(report.url)));
  std::size_t left = 0;
  for (const Fact& fact : report.facts) left = std::max(left, width(printable(fact.name)));
  for (const Fact& fact : report.facts) {
    fmt::print("  {}  {}\n",
               terminal.paint(Style::dim, fmt::format("{:<{}}", printable(fact.name), left)),
               printable(fact.value));
  }
  if (report.shards.empty()) print_sessions(report, terminal);
  for (const Report& shard : report.shards) {
    fmt::print("\n");
    print(shard, terminal);
  }
  fmt::print("\n");
  for (const std::string& note : report.notes) fmt::print("note: {}\n", printable(note));
  for (const std::string& problem : report.problems) {
    fmt::print("{} {}\n", terminal.paint(Style::red, "problem:"), printable(problem));
  }
  if (report.healthy()) fmt::print("{}\n", terminal.paint(Style::green, "No problems found."));
}

}  // namespace

int doctor(const DoctorOptions& options, const Terminal& terminal) {
  const SpaceChoice choice = choose_space(options.space);
  if (options.new_epoch) {
    // Throws the error that says so.
    if (!exists(choice)) static_cast<void>(open_existing_space(choice));
    repair(choice.url);
  }
  const Report report = sharded::is_sharded(choice.url) ? examine_shards(choice) : examine(choice);
  if (options.json) {
    fmt::print("{}", json_text(report));
  } else {
    print(report, terminal);
  }
  return report.healthy() ? exit_ok : exit_failure;
}

}  // namespace tenure::cli
