#include "raw_options.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "base/duration.hpp"
#include "cli.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

constexpr std::size_t max_label = 256;
constexpr std::size_t max_paths = 64;
constexpr std::size_t max_clients = 1024;
constexpr std::size_t max_keys = 1'000'000;

// The typed text, for a message. A misplaced URL may contain a password.
std::string typed(std::string_view text) {
  return printable(text.contains("://") ? shown_url(text) : text);
}

Path path_of(std::string_view text) {
  if (text.contains("://")) {
    throw UsageError(fmt::format("'{}' is a URL, not a path: use --space", typed(text)));
  }
  try {
    return Path{text};
  } catch (const BadRequest& error) {
    throw UsageError(printable(error.what()));
  }
}

template <class Number>
Number number_of(std::string_view option, std::string_view text, Number least, Number most) {
  Number number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || number < least ||
      number > most) {
    throw UsageError(
        fmt::format("{} takes a number from {} to {}, not '{}'", option, least, most, typed(text)));
  }
  return number;
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the same order as above.
std::chrono::nanoseconds duration_of(std::string_view option, std::string_view text) {
  const auto time = base::parse_duration(text);
  if (!time) throw UsageError(fmt::format("{}: {}", option, printable(time.error())));
  return *time;
}

constexpr std::uint32_t most_permits = 1'000'000'000;

Mode mode_of(const Raw& raw) {
  const auto given = [](const std::string& text) { return text.empty() ? 0 : 1; };
  if ((raw.shared ? 1 : 0) + given(raw.group) + given(raw.permits) > 1) {
    throw UsageError("use only one of --shared, --group and --permits");
  }
  if (raw.permits.empty() && !raw.take.empty()) {
    throw UsageError("--take needs --permits: it says how many of the permits to take");
  }
  if (raw.shared) return Mode::shared();
  if (!raw.permits.empty()) {
    const auto limit = number_of<std::uint32_t>("--permits", raw.permits, 1, most_permits);
    const auto weight =
        raw.take.empty() ? 1U : number_of<std::uint32_t>("--take", raw.take, 1, limit);
    return Mode::permits(limit).take(weight);
  }
  return raw.group.empty() ? Mode::exclusive() : Mode::group(raw.group);
}

// The signals that a command may be asked to leave with.
int signal_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, int>, 7> known{{{"TERM", SIGTERM},
                                                                   {"INT", SIGINT},
                                                                   {"HUP", SIGHUP},
                                                                   {"QUIT", SIGQUIT},
                                                                   {"USR1", SIGUSR1},
                                                                   {"USR2", SIGUSR2},
                                                                   {"none", 0}}};
  for (const auto& [text, number] : known) {
    if (name == text) return number;
  }
  throw UsageError(fmt::format(
      "--on-ask must be TERM, INT, HUP, QUIT, USR1, USR2 or none, not '{}'", typed(name)));
}

RunOptions run_options(const Raw& raw, std::vector<std::string> command_line) {
  RunOptions out;
  out.space = raw.space;
  if (raw.paths.size() > max_paths) {
    throw UsageError(fmt::format("too many paths: use at most {}", max_paths));
  }
  for (const std::string& text : raw.paths) out.paths.push_back(path_of(text));
  out.mode = mode_of(raw);
  out.try_only = raw.try_only;
  if (!raw.timeout.empty()) out.timeout = duration_of("--timeout", raw.timeout);
  if (raw.try_only && out.timeout) throw UsageError("use only one of --try and --timeout");
  if (!raw.max_hold.empty()) {
    out.max_hold = duration_of("--max-hold", raw.max_hold);
    if (out.max_hold->count() == 0) throw UsageError("--max-hold must be greater than zero");
  }
  if (!raw.code.empty()) out.not_in_time = number_of("-E", raw.code, 0, 255);
  if (raw.label.size() > max_label) {
    throw UsageError(fmt::format("--label is longer than {} bytes: shorten it", max_label));
  }
  if (command_line.empty()) throw UsageError("no command given: put it after --");
  out.label = raw.label;
  out.flock = raw.flock;
  if (!raw.on_ask.empty()) out.on_ask = signal_of(raw.on_ask);
  out.quiet = raw.quiet;
  out.command = std::move(command_line);
  return out;
}

GitOptions git_options(const Raw& raw, std::vector<std::string> command_line) {
  GitOptions out;
  out.space = raw.space;
  out.remote = raw.remote;
  out.branch = raw.branch;
  out.message = raw.message;
  if (!raw.attempts.empty()) {
    out.attempts = number_of<std::uint32_t>("--attempts", raw.attempts, 1, 1'000'000);
  }
  out.dry_run = raw.dry_run;
  out.accept_rewrite = raw.accept_rewrite;
  out.quiet = raw.quiet;
  if (command_line.empty()) throw UsageError("no command given: put it after --");
  out.command = std::move(command_line);
  return out;
}

template <class Options>
Options list_options(const Raw& raw) {
  Options out;
  out.space = raw.space;
  if (!raw.path.empty()) out.path = path_of(raw.path);
  out.json = raw.json;
  return out;
}

Token token_of(const Raw& raw) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  return Token{number_of<std::uint64_t>("TOKEN", raw.token, 0, most)};
}

EvictOptions evict_options(const Raw& raw) {
  EvictOptions out{.space = raw.space, .token = {}, .below = {}, .now = raw.now, .json = raw.json};
  if (raw.token.empty() == raw.below.empty()) {
    throw UsageError(raw.token.empty() ? "no TOKEN given, and no --below PATH"
                                       : "use either TOKEN or --below");
  }
  if (raw.below.empty()) {
    out.token = token_of(raw);
  } else {
    out.below = path_of(raw.below);
  }
  return out;
}

LimitOptions limit_options(const Raw& raw) {
  const auto limit = number_of<std::uint32_t>("N", raw.limit, 1, most_permits);
  const std::string_view group = raw.group.empty() ? std::string_view{"permits"} : raw.group;
  return {.space = raw.space,
          .limit = {path_of(raw.path), Mode::group(group, limit)},
          .json = raw.json};
}

ShardsOptions shards_options(const Raw& raw) {
  using enum ShardsOptions::Action;
  ShardsOptions out;
  out.space = raw.space;
  out.json = raw.json;
  if (raw.action == "set") {
    out.action = set;
    out.names = raw.paths;
    if (!raw.timeout.empty()) out.wait = duration_of("--wait", raw.timeout);
  } else if (raw.action == "where") {
    out.action = where;
    for (const std::string& text : raw.paths) out.paths.push_back(path_of(text));
  } else if (!raw.action.empty()) {
    throw UsageError(
        fmt::format("ACTION must be set or where, not '{}'; without one, the shards are listed",
                    typed(raw.action)));
  }
  if (out.action != list && raw.paths.empty()) {
    throw UsageError(out.action == set ? "no NAME given: name all shards of the space"
                                       : "no path given: which one is meant?");
  }
  if (out.action != set && !raw.timeout.empty()) throw UsageError("--wait is for set");
  return out;
}

BenchOptions bench_options(const Raw& raw) {
  BenchOptions out;
  out.space = raw.space;
  out.json = raw.json;
  const auto count = [](std::string_view option, const std::string& text, std::size_t most,
                        std::size_t& to) {
    if (!text.empty()) to = number_of<std::size_t>(option, text, 1, most);
  };
  count("--clients", raw.clients, max_clients, out.clients);
  count("--processes", raw.processes, max_clients, out.processes);
  count("--keys", raw.keys, max_keys, out.keys);
  if (out.processes > out.clients)
    throw UsageError("--processes must not be greater than --clients");
  if (out.processes > 1 && (out.space.starts_with("local:") || out.space == "memory:")) {
    throw UsageError("'" + out.space + "' works in one process only: remove --processes");
  }
  if (!raw.permits.empty()) {
    out.permits = number_of<std::uint32_t>("--permits", raw.permits, 1, 1'000'000);
  }
  if (!raw.seconds.empty()) {
    out.time = std::chrono::seconds{number_of<std::int64_t>("--seconds", raw.seconds, 1, 86'400)};
  }
  if (!raw.hold.empty()) out.hold = duration_of("--hold", raw.hold);
  if (raw.mode == "shared") {
    out.mode = BenchOptions::Kind::shared;
  } else if (raw.mode == "permits") {
    out.mode = BenchOptions::Kind::permits;
  } else if (!raw.mode.empty() && raw.mode != "exclusive") {
    throw UsageError(
        fmt::format("--mode must be exclusive, shared or permits, not '{}'", printable(raw.mode)));
  }
  return out;
}

PipelineCommand::Action action_of(const std::string& text) {
  using enum PipelineCommand::Action;
  if (text == "run") return run;
  if (text == "resume") return resume;
  if (text == "plan") return plan;
  if (text == "graph") return graph;
  if (text == "status") return status;
  if (text == "restore") return restore;
  if (text == "schema") return schema;
  throw UsageError(
      fmt::format("ACTION must be run, resume, plan, graph, status, restore or schema, not '{}'",
                  printable(text)));
}

PipelineCommand pipeline_options(const Raw& raw) {
  PipelineCommand out;
  out.action = action_of(raw.action);
  if (!raw.workspace.empty() && raw.workspace != "npm") {
    throw UsageError(fmt::format("--workspace must be npm (for yarn and pnpm too), not '{}'",
                                 printable(raw.workspace)));
  }
  out.packages = !raw.workspace.empty();
  out.registry = raw.registry;
  if (!out.registry.empty() && !out.packages) {
    throw UsageError("--registry is for --workspace npm");
  }
  if (!out.registry.empty() && !out.registry.starts_with("http://") &&
      !out.registry.starts_with("https://")) {
    throw UsageError("--registry takes an address that begins with http:// or https://");
  }
  out.file = raw.file;
  if (out.file.empty()) out.file = out.packages ? "." : "pipeline.toml";
  out.space = raw.space;
  out.only = raw.only;
  out.except = raw.except;
  out.from = raw.from;
  if (!raw.jobs.empty()) out.jobs = number_of<unsigned>("--jobs", raw.jobs, 1, 256);
  out.keep_going = raw.keep_going;
  out.dry_run = raw.dry_run;
  out.wait = raw.wait;
  out.watch = raw.watch;
  out.stream = raw.stream;
  out.json = raw.json;
  out.summary = raw.summary;
  if (!out.summary.empty() && !out.summary.ends_with(".xml") && !out.summary.ends_with(".md")) {
    throw UsageError("--summary takes a file that ends with .xml (JUnit) or .md (Markdown)");
  }
  constexpr std::string_view formats = " text dot mermaid json svg ";
  out.format = raw.format.empty() ? "text" : raw.format;
  if (!formats.contains(" " + out.format + " ")) {
    throw UsageError(fmt::format("--format must be text, dot, mermaid, json or svg, not '{}'",
                                 printable(raw.format)));
  }
  if (!raw.report.empty()) {
    out.report = duration_of("--report", raw.report);
    if (out.report.count() == 0) throw UsageError("--report must be greater than zero");
  }
  return out;
}

FlowCommand::Action flow_action_of(const std::string& text) {
  using enum FlowCommand::Action;
  if (text == "ls") return ls;
  if (text == "show") return show;
  if (text == "history") return history;
  if (text == "export") return print_history;
  if (text == "signal") return signal;
  if (text == "cancel") return cancel;
  if (text == "terminate") return terminate;
  if (text == "retry") return retry;
  if (text == "release") return release;
  if (text == "schedules") return schedules;
  if (text == "engines") return engines;
  if (text == "take-over") return take_over;
  if (text == "replay") return replay;
  throw UsageError(
      fmt::format("ACTION must be ls, show, history, export, replay, signal, cancel, terminate, "
                  "retry, release, schedules, engines or take-over, not '{}'",
                  printable(text)));
}

FlowState flow_state_of(const std::string& text) {
  for (const FlowState state :
       {FlowState::queued, FlowState::scheduled, FlowState::running, FlowState::completed,
        FlowState::failed, FlowState::cancelled, FlowState::timed_out}) {
    if (text == text_of(state)) return state;
  }
  throw UsageError(fmt::format(
      "--state must be queued, scheduled, running, completed, failed, cancelled or timed-out, not "
      "'{}'",
      printable(text)));
}

FlowFilter flow_filter(const Raw& raw) {
  FlowFilter out;
  out.type = raw.type;
  if (!raw.state.empty()) out.state = flow_state_of(raw.state);
  for (const std::string& tag : raw.tags) {
    const std::size_t equals = tag.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw UsageError(fmt::format("--tag takes NAME=VALUE, not '{}'", printable(tag)));
    }
    out.tags[tag.substr(0, equals)] = tag.substr(equals + 1);
  }
  out.after = raw.after;
  out.limit = raw.limit.empty() ? 100 : number_of<std::size_t>("--limit", raw.limit, 1, 1'000'000);
  return out;
}

// schedules, schedules pause ID
void read_schedules(const Raw& raw, FlowCommand& out) {
  out.name = raw.id;
  out.id = raw.name;
  if (!out.name.empty() && out.name != "pause" && out.name != "resume" && out.name != "trigger") {
    throw UsageError(fmt::format(
        "schedules lists all of them; pause, resume or trigger one: 'schedules pause ID', not '{}'",
        printable(out.name)));
  }
  if (!out.name.empty() && out.id.empty()) {
    throw UsageError(fmt::format("no ID given: which schedule is meant by '{}'?", out.name));
  }
  if (!raw.content.empty()) throw UsageError(fmt::format("{} takes one ID", out.name));
}

void check_flow_id(const Raw& raw, FlowCommand::Action action) {
  using enum FlowCommand::Action;
  if (action == replay) return;  // One, or all.
  if (action == ls || action == engines) {
    if (raw.id.empty()) return;
    throw UsageError(action == ls
                         ? "ls takes no ID; use show, or filter with --type, --state and --tag"
                         : "engines takes no ID: it lists all of them");
  }
  if (!raw.id.empty()) return;
  throw UsageError(action == take_over
                       ? "no ENGINE given: which one? 'tenure flow engines' lists them"
                       : fmt::format("no ID given: whose workflow is meant by '{}'?", raw.action));
}

FlowCommand flow_options(const Raw& raw) {
  using enum FlowCommand::Action;
  FlowCommand out;
  out.action = flow_action_of(raw.action);
  out.space = raw.space;
  out.json = raw.json;
  if (out.action == schedules) {
    read_schedules(raw, out);
    return out;
  }
  check_flow_id(raw, out.action);
  if ((out.action == replay) == raw.program.empty()) {
    throw UsageError(out.action == replay
                         ? "no --program given: which program of yours has the definitions? Its "
                           "main() ends with tenure::replay_main()"
                         : "--program is for replay");
  }
  out.program = raw.program;
  if (out.action == signal && raw.name.empty()) {
    throw UsageError("no NAME given: which signal is it?");
  }
  if (out.action == release && raw.name.empty()) {
    throw UsageError("no PATH given: which lock of the workflow is to be released?");
  }
  if (!raw.name.empty() && out.action != signal && out.action != terminate &&
      out.action != release) {
    throw UsageError(fmt::format("{} takes one ID, and nothing after it", raw.action));
  }
  if (out.action == terminate || out.action == release) {
    out.value = raw.name;  // What follows the ID.
    if (!raw.content.empty()) {
      throw UsageError(out.action == terminate ? "terminate takes an ID and a REASON: quote it"
                                               : "release takes an ID and a PATH");
    }
  } else {
    out.name = raw.name;
    out.value = raw.content;
  }
  out.id = raw.id;
  out.message_id = raw.message_id;
  if (!out.message_id.empty() && out.action != signal) {
    throw UsageError("--message-id is for signal");
  }
  out.filter = flow_filter(raw);
  if (!raw.since.empty()) out.since = duration_of("--since", raw.since);
  return out;
}

CompletionsOptions completions_options(const Raw& raw) {
  if (raw.shell != "bash" && raw.shell != "zsh" && raw.shell != "fish") {
    throw UsageError(
        fmt::format("SHELL must be bash, zsh or fish, not '{}'", printable(raw.shell)));
  }
  return {.shell = raw.shell};
}

}  // namespace

Command options_of(const std::string& subcommand, const Raw& raw,
                   std::vector<std::string> command_line) {
  if (subcommand == "run") return run_options(raw, std::move(command_line));
  if (subcommand == "git") return git_options(raw, std::move(command_line));
  if (subcommand == "ls") return list_options<LsOptions>(raw);
  if (subcommand == "tree") return list_options<TreeOptions>(raw);
  if (subcommand == "show") return list_options<ShowOptions>(raw);
  if (subcommand == "watch") return list_options<WatchOptions>(raw);
  if (subcommand == "evict") return evict_options(raw);
  if (subcommand == "ask") {
    return AskOptions{.space = raw.space, .token = token_of(raw), .json = raw.json};
  }
  if (subcommand == "limit") return limit_options(raw);
  if (subcommand == "doctor") {
    return DoctorOptions{.space = raw.space, .new_epoch = raw.new_epoch, .json = raw.json};
  }
  if (subcommand == "shards") return shards_options(raw);
  if (subcommand == "bench") return bench_options(raw);
  if (subcommand == "pipeline") return pipeline_options(raw);
  if (subcommand == "flow") return flow_options(raw);
  if (subcommand == "completions") return completions_options(raw);
  if (subcommand == "man") return ManOptions{};
  if (subcommand == "demo") return DemoOptions{};
  if (subcommand == "demo-worker") {
    return DemoWorkerOptions{.space = raw.space,
                             .shipping = number_of<int>("MILLISECONDS", raw.limit, 0, 60'000)};
  }
  return ContenderOptions{.space = raw.space, .path = path_of(raw.path)};
}

}  // namespace tenure::cli
