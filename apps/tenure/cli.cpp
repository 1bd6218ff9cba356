#include "cli.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "raw_options.hpp"
#include "tenure/error.hpp"
#include "tenure/store.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

struct Definitions {
  CLI::App app{"Tenure: locks for commands. Who holds what, for how long, and who is next.",
               "tenure"};
  Raw raw;
};

// ---- What there is ----

CLI::App* command(Definitions& in, const std::string& name, const std::string& summary) {
  CLI::App* const app = in.app.add_subcommand(name, summary);
  app->set_help_flag("-h,--help", "Print this help");
  return app;
}

std::string refuse_nothing(const std::string& text) { return text.empty() ? "needs a value" : ""; }

// If an option is given twice, the last one counts.
void value(CLI::App* app, const std::string& name, std::string& to, const std::string& type,
           const std::string& text) {
  app->add_option(name, to, text)->type_name(type)->take_last()->check(refuse_nothing);
}

void space(CLI::App* app, Definitions& in) {
  value(app, "--space", in.raw.space, "URL",
        "Where the locks are: sqlite:FILE, postgres://HOST/DATABASE, etcd://HOST or sharded:FILE "
        "(default: $TENURE_SPACE, or else a file of this user)");
}

void json(CLI::App* app, Definitions& in) {
  app->add_flag("--json", in.raw.json, "Print one JSON document");
}

void define_run(Definitions& in) {
  CLI::App* const app = command(in, "run", "Run a command while holding a lock");
  app->add_option("PATH", in.raw.paths,
                  "What to lock, such as deploy/prod or 'nightly backup'; several paths are locked "
                  "together or not at all")
      ->check(refuse_nothing)
      ->required();
  app->add_flag("--shared", in.raw.shared, "Share the lock with other commands that use --shared");
  value(app, "--group", in.raw.group, "GROUP",
        "Share the lock with other commands of the same group");
  value(app, "--permits", in.raw.permits, "N",
        "Let N commands hold the lock at a time; all must use the same N");
  value(app, "--take", in.raw.take, "W",
        "Take W of the N permits at once, all or none (default: 1)");
  app->add_flag("--try", in.raw.try_only, "Do not wait: fail if the lock is not free");
  value(app, "--timeout", in.raw.timeout, "DURATION",
        "Wait at most this long (500ms, 10s, 5m, 2h, 1d, 1h30m)");
  value(app, "--max-hold", in.raw.max_hold, "DURATION",
        "End the command when it has held the lock for this long");
  value(app, "-E", in.raw.code, "CODE",
        "Exit status if the lock was not acquired in time (default: 75)");
  value(app, "--label", in.raw.label, "TEXT",
        "Text to show in lists of locks (default: the command's name)");
  value(app, "--flock", in.raw.flock, "FILE",
        "Also lock this file as flock(1) does, once the paths are locked: for scripts that do not "
        "use tenure yet");
  value(app, "--on-ask", in.raw.on_ask, "SIGNAL",
        "What to send to the command when 'tenure ask' asks for the lock: TERM, INT, HUP, QUIT, "
        "USR1, USR2 or none (default: TERM)");
  app->add_flag("--quiet", in.raw.quiet,
                "Print nothing about waiting, or about a lock that was not acquired");
  space(app, in);
}

void define_git(Definitions& in) {
  CLI::App* const app =
      command(in, "git", "Run a command in a worktree of a git branch, and push what it changed");
  value(app, "--remote", in.raw.remote, "URL",
        "The repository to push to (default: that of the current directory's repository)");
  value(app, "--branch", in.raw.branch, "BRANCH",
        "The branch to change (default: that of the current directory's repository)");
  value(app, "-m,--message", in.raw.message, "MESSAGE",
        "The message of the commit (default: the command's name)");
  app->add_flag("--dry-run", in.raw.dry_run, "Print the changes as a patch, and push nothing");
  value(app, "--attempts", in.raw.attempts, "N",
        "How often to run the command when other writers push first (default: 20)");
  app->add_flag("--accept-rewrite", in.raw.accept_rewrite,
                "Continue after somebody has rewritten the history of the branch");
  app->add_flag("--quiet", in.raw.quiet, "Print nothing but errors");
  space(app, in);
}

void define_lists(Definitions& in) {
  CLI::App* const ls = command(in, "ls", "List who holds a lock and who waits for one");
  ls->add_option("PATH", in.raw.path, "Only locks at this path, above it and below it")
      ->check(refuse_nothing);
  CLI::App* const tree = command(in, "tree", "Show the locks as a tree");
  tree->add_option("PATH", in.raw.path, "Only locks at this path, above it and below it")
      ->check(refuse_nothing);
  CLI::App* const show = command(in, "show", "Show all details of the locks at a path");
  show->add_option("PATH", in.raw.path, "The path; locks above it and below it are included")
      ->check(refuse_nothing)
      ->required();
  CLI::App* const watch =
      command(in, "watch", "Show the list of locks, and update it when it changes");
  watch->add_option("PATH", in.raw.path, "Only locks at this path, above it and below it")
      ->check(refuse_nothing);
  for (CLI::App* const app : {ls, tree, show}) {
    json(app, in);
    space(app, in);
  }
  watch->add_flag("--json", in.raw.json, "Print one JSON document per change, each on one line");
  space(watch, in);
}

void define_operations(Definitions& in) {
  CLI::App* const evict = command(in, "evict", "Take away a lock or a place in the queue");
  evict->add_option("TOKEN", in.raw.token, "The token of the ticket, as ls and show print it");
  value(evict, "--below", in.raw.below, "PATH",
        "Instead of one ticket, all that lock this path or something below it, in one step");
  evict->add_flag("--now", in.raw.now,
                  "At once, instead of one second after the holder is notified");
  json(evict, in);
  space(evict, in);
  CLI::App* const ask = command(in, "ask", "Ask a holder to release its lock when it can");
  ask->add_option("TOKEN", in.raw.token, "The token of the ticket, as ls and show print it")
      ->required();
  json(ask, in);
  space(ask, in);
  CLI::App* const limit =
      command(in, "limit", "Change how many may hold a path at a time, while some hold it");
  limit->add_option("PATH", in.raw.path, "The path that commands lock with --permits")
      ->check(refuse_nothing)
      ->required();
  limit->add_option("N", in.raw.limit, "The new limit; commands must use --permits N from now on")
      ->required();
  value(limit, "--group", in.raw.group, "GROUP",
        "Of this group, which programs give a limit, instead of those with --permits");
  json(limit, in);
  space(limit, in);
  CLI::App* const doctor = command(in, "doctor", "Check a space, and say how to fix what is wrong");
  doctor->add_flag("--new-epoch", in.raw.new_epoch,
                   "After restoring a backup: make sure that no token is issued twice");
  json(doctor, in);
  space(doctor, in);
}

void define_shards(Definitions& in) {
  CLI::App* const app =
      command(in, "shards", "List the shards of a sharded space, or change which ones it has");
  app->add_option("ACTION", in.raw.action,
                  "None: list the shards; set: make the named ones the shards of the space, or "
                  "create it; where: say which shard has a path")
      ->check(refuse_nothing);
  app->add_option("NAME", in.raw.paths, "set: the names of all shards; where: paths")
      ->check(refuse_nothing);
  value(app, "--wait", in.raw.timeout, "DURATION",
        "set: wait this long until no lock is left that would move to another shard (default: do "
        "not wait)");
  json(app, in);
  value(app, "--space", in.raw.space, "URL",
        "sharded:FILE, a file with a name and a URL per line (default: $TENURE_SPACE)");
}

void define_bench(Definitions& in) {
  CLI::App* const app = command(in, "bench", "Measure how fast a space is under load");
  value(app, "--clients", in.raw.clients, "N", "Number of clients (default: 4)");
  value(app, "--processes", in.raw.processes, "P",
        "Number of processes that run the clients (default: 1)");
  value(app, "--keys", in.raw.keys, "K", "Number of paths that the clients lock (default: 1)");
  value(app, "--mode", in.raw.mode, "exclusive|shared|permits",
        "How the clients lock (default: exclusive)");
  value(app, "--permits", in.raw.permits, "N",
        "Holders at a time with --mode permits (default: 2)");
  value(app, "--seconds", in.raw.seconds, "S", "Seconds to measure (default: 3)");
  value(app, "--hold", in.raw.hold, "DURATION",
        "How long each client holds the lock (default: 0s)");
  json(app, in);
  value(app, "--space", in.raw.space, "URL",
        "Any space, including memory: and local: (default: a temporary SQLite file)");
}

void words(CLI::App* app, const std::string& name, std::vector<std::string>& to,
           const std::string& text) {
  app->add_option(name, to, text)->type_name("TASK,...")->delimiter(',')->check(refuse_nothing);
}

void define_pipeline(Definitions& in) {
  CLI::App* const app =
      command(in, "pipeline", "Run the tasks of a manifest in the order of their dependencies");
  app->add_option(
         "ACTION", in.raw.action,
         "run; resume: go on with a run that was ended or killed; plan: print waves, "
         "critical path and estimate; graph: print the graph; status: show the last run; "
         "restore: bring back the files that a killed run had edited; schema: print the JSON "
         "Schema of manifests, for editors")
      ->required();
  app->add_option("FILE", in.raw.file,
                  "The manifest (default: pipeline.toml), or with --workspace the directory of the "
                  "workspace (default: the current one)")
      ->check(refuse_nothing);
  value(app, "--workspace", in.raw.workspace, "npm",
        "Publish the packages of an npm, yarn or pnpm workspace instead of running a manifest");
  value(app, "--registry", in.raw.registry, "URL",
        "With --workspace: publish there (default: as npm is configured)");
  words(app, "--only", in.raw.only, "Only these tasks, groups or tags");
  words(app, "--except", in.raw.except, "Not these tasks, groups or tags");
  words(app, "--from", in.raw.from, "Only these, and all tasks that need them");
  value(app, "--jobs", in.raw.jobs, "N",
        "Tasks at a time (default: `jobs` of the manifest, or the number of cores)");
  app->add_flag("--keep-going", in.raw.keep_going,
                "After a failure, go on with the tasks that do not need it");
  app->add_flag("--dry-run", in.raw.dry_run, "run: print what would run, and run nothing");
  app->add_flag("--wait", in.raw.wait, "run, resume: wait while another run uses the workspace");
  app->add_flag("--stream", in.raw.stream,
                "run, resume: print the output of tasks while they run, line by line");
  app->add_flag("--watch", in.raw.watch, "status: show it live, until the run has ended");
  value(app, "--report", in.raw.report, "DURATION",
        "run, resume: how often to say what is still running (default: 30s)");
  value(app, "--summary", in.raw.summary, "FILE",
        "run, resume: write a summary, JUnit (.xml) or Markdown (.md)");
  value(app, "--format", in.raw.format, "text|dot|mermaid|json|svg",
        "graph: how to print it (default: text)");
  app->add_flag("--json", in.raw.json,
                "run, resume: print one JSON document per event; status: print one JSON document");
  value(app, "--space", in.raw.space, "URL",
        "Where the `locks` of tasks are (default: $TENURE_SPACE, or else a file of this user)");
}

void define_flow(Definitions& in) {
  CLI::App* const app = command(in, "flow", "List the workflows of a store, and send to them");
  app->add_option(
         "ACTION", in.raw.action,
         "ls; show: state, locks and timeline of one; history: its log; export: all that a "
         "program needs to replay it, as one JSON document; signal: send it a value; cancel: let "
         "it clean up and end; terminate: end it without its code; retry: start a failed one "
         "again from its beginning, under a new ID, or load one again that cannot go on; release: "
         "take a lock from it by force; schedules: list what starts workflows by itself, or "
         "pause, resume or trigger one; replay: run --program on the stored histories, and say "
         "which ones fit its definitions; engines: list the processes that run workflows; "
         "take-over: let others run the workflows of an engine that is stopped")
      ->required();
  app->add_option(
         "ID", in.raw.id,
         "The workflow, as ls prints it; schedules: pause, resume or trigger; take-over: the "
         "engine, as engines prints it, or its pid")
      ->check(refuse_nothing);
  app->add_option(
         "NAME", in.raw.name,
         "signal: the signal's name; terminate: the reason; release: the path of the lock; "
         "schedules: the schedule")
      ->check(refuse_nothing);
  app->add_option("VALUE", in.raw.content, "signal: JSON, or a text (default: null)");
  value(app, "--type", in.raw.type, "TYPE", "ls, replay: only workflows of this type");
  value(app, "--state", in.raw.state, "STATE",
        "ls, replay: only queued, scheduled, running, completed, failed, cancelled or timed-out "
        "ones");
  app->add_option("--tag", in.raw.tags,
                  "ls, replay: only those with this tag; several: all of them")
      ->type_name("NAME=VALUE")
      ->check(refuse_nothing);
  value(app, "--since", in.raw.since, "DURATION",
        "ls, replay: only those created within this time");
  value(app, "--limit", in.raw.limit, "N", "ls: print at most N (default: 100)");
  value(app, "--after", in.raw.after, "ID", "ls: go on after this one, the last of a page");
  value(app, "--message-id", in.raw.message_id, "TEXT",
        "signal: send it once, however often this is repeated");
  value(app, "--program", in.raw.program, "FILE",
        "replay: your program; its main() ends with tenure::replay_main()");
  app->add_flag("--json", in.raw.json,
                "Print one JSON document; history: one document per entry, each on one line");
  space(app, in);
}

void define_rest(Definitions& in) {
  command(in, "demo", "Show locks at work, live, in a few seconds");
  CLI::App* const completions =
      command(in, "completions", "Print the completion script of a shell");
  completions->add_option("SHELL", in.raw.shell, "bash, zsh or fish")->required();
  command(in, "man", "Print the manual page; read it with: tenure man | man -l -");
  CLI::App* const contender = command(in, "demo-contender", "");
  contender->group("");
  contender->add_option("URL", in.raw.space)->required();
  contender->add_option("PATH", in.raw.path)->required();
  CLI::App* const worker = command(in, "demo-worker", "");
  worker->group("");
  worker->add_option("URL", in.raw.space)->required();
  worker->add_option("MILLISECONDS", in.raw.limit)->required();
}

std::unique_ptr<Definitions> define() {
  auto in = std::make_unique<Definitions>();
  in->app.set_help_flag("-h,--help", "Print this help");
  in->app.set_version_flag("--version", "tenure " TENURE_VERSION, "Print the version");
  in->app.require_subcommand(1);
  define_run(*in);
  define_git(*in);
  define_lists(*in);
  define_operations(*in);
  define_shards(*in);
  define_bench(*in);
  define_pipeline(*in);
  define_flow(*in);
  define_rest(*in);
  return in;
}

// ---- As data ----

ManualOption manual_option(const CLI::Option& option) {
  ManualOption out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (option.get_expected_max() > 0) out.value = option.get_type_name();
  out.text = option.get_description();
  return out;
}

ManualCommand manual_command(const CLI::App& app) {
  ManualCommand out;
  out.name = app.get_name();
  out.summary = app.get_description();
  for (const CLI::Option* const option : app.get_options()) {
    if (option->nonpositional()) {
      out.options.push_back(manual_option(*option));
    } else {
      out.arguments.push_back({.name = option->get_name(true),
                               .text = option->get_description(),
                               .required = option->get_required(),
                               .many = option->get_expected_max() > 1});
    }
  }
  if (takes_command(out.name)) {
    out.arguments.push_back({.name = "-- COMMAND",
                             .text = "The command to run while the lock is held",
                             .required = true,
                             .many = true});
  }
  return out;
}

Manual manual_of(const CLI::App& app) {
  Manual out;
  out.summary = app.get_description();
  out.options = manual_command(app).options;
  for (const CLI::App* const sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) out.commands.push_back(manual_command(*sub));
  }
  return out;
}

// ---- Parsing ----

std::string subcommand_of(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? std::string{} : parsed.front()->get_name();
}

// One line that says what is wrong.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    const bool url = rest.front().contains("://");  // It may contain a password.
    const std::string first = printable(url ? shown_url(rest.front()) : rest.front());
    if (first.starts_with('-')) return fmt::format("unknown option '{}'", first);
    const bool command = app.get_subcommands().empty();
    return fmt::format("{} '{}'", command ? "unknown command" : "unexpected argument", first);
  }
  const std::string_view what = error.what();
  const std::string_view subject = what.substr(0, what.find_first_of(": "));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return app.get_subcommands().empty() ? "no command given" : fmt::format("no {} given", subject);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr ||
      dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    return fmt::format("{} needs a value", subject);
  }
  return printable(what);
}

std::string help_of(const CLI::App& app) {
  const Manual all = manual_of(app);
  const std::string name = subcommand_of(app);
  const auto found = std::ranges::find(all.commands, name, &ManualCommand::name);
  return found == all.commands.end() ? help_text(all) : help_text(*found);
}

// Options that most commands have may precede the command as well: they are moved behind it, and
// the command accepts or refuses them.
std::vector<const char*> command_first(std::span<const char* const> arguments) {
  std::vector<const char*> common;
  std::size_t at = 1;
  for (; at < arguments.size(); ++at) {
    const std::string_view one = arguments[at];
    if (one != "--space" && one != "--json" && !one.starts_with("--space=")) break;
    common.push_back(arguments[at]);
    if (one != "--space") continue;
    if (++at == arguments.size()) throw UsageError("--space needs a value");
    common.push_back(arguments[at]);
  }
  std::vector<const char*> out{arguments.begin(), arguments.begin() + (arguments.empty() ? 0 : 1)};
  if (at >= arguments.size()) return out;
  out.push_back(arguments[at]);
  const bool is_command = !std::string_view{arguments[at]}.starts_with('-');
  if (is_command) out.insert(out.end(), common.begin(), common.end());
  for (const char* const rest : arguments.subspan(at + 1)) out.push_back(rest);
  return out;
}

}  // namespace

Command parse_arguments(int argc, const char* const* argv) {
  const std::vector<const char*> sorted = command_first({argv, static_cast<std::size_t>(argc)});
  std::span<const char* const> arguments{sorted};
  std::vector<std::string> command_line;
  if (arguments.size() > 1 && takes_command(arguments[1])) {
    const auto separator = std::ranges::find(arguments, std::string_view{"--"});
    if (separator != arguments.end()) {
      command_line.assign(separator + 1, arguments.end());
      arguments = arguments.first(static_cast<std::size_t>(separator - arguments.begin()));
    }
  }
  const std::unique_ptr<Definitions> in = define();
  CLI::App& app = in->app;
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
    return options_of(subcommand_of(app), in->raw, std::move(command_line));
  } catch (const CLI::CallForHelp&) {
    return PrintOptions{help_of(app)};
  } catch (const CLI::CallForVersion&) {
    return PrintOptions{"tenure " TENURE_VERSION "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError(explain(app, error), subcommand_of(app));
  } catch (const UsageError& error) {
    throw UsageError(error.what(), subcommand_of(app));
  } catch (const BadRequest& error) {
    throw UsageError(error.what(), subcommand_of(app));
  }
}

Manual manual() { return manual_of(define()->app); }

}  // namespace tenure::cli
