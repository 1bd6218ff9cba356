// options.hpp: the options of a command line as plain values: one struct per subcommand.
//
// cli.cpp makes them from the arguments, and is the only file that knows how arguments are parsed.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "exit_status.hpp"
#include "tenure/claim.hpp"
#include "tenure/flow.hpp"
#include "tenure/path.hpp"
#include "tenure/ticket.hpp"

namespace tenure::cli {

struct RunOptions {
  std::string space;  // As given by --space; empty: see space_choice.hpp. So in all of these.
  std::vector<Path> paths;
  Mode mode;
  bool try_only = false;
  std::optional<std::chrono::nanoseconds> timeout;
  std::optional<std::chrono::nanoseconds> max_hold;
  int not_in_time = exit_not_in_time;
  std::string label;
  std::string flock;     // A file to lock as flock(1) does, once the paths are; empty: none.
  int on_ask = SIGTERM;  // What the command is sent when its holder is asked to leave; 0: nothing.
  bool quiet = false;
  std::vector<std::string> command;  // Never empty.
};

struct GitOptions {
  std::string space;
  std::string remote;  // Empty: that of the repository of the current directory. So is the branch.
  std::string branch;
  std::string message;  // Empty: the command's name.
  std::uint32_t attempts = 20;
  bool dry_run = false;
  bool accept_rewrite = false;
  bool quiet = false;
  std::vector<std::string> command;  // Never empty.
};

struct ListOptions {
  std::string space;
  Path path;
  bool json = false;
};
struct LsOptions : ListOptions {};
struct TreeOptions : ListOptions {};
struct ShowOptions : ListOptions {};
struct WatchOptions : ListOptions {};

struct EvictOptions {
  std::string space;
  Token token;
  std::optional<Path> below;  // All tickets there, instead of one.
  bool now = false;
  bool json = false;
};

struct AskOptions {
  std::string space;
  Token token;
  bool json = false;
};

struct LimitOptions {
  std::string space;
  Claim limit;
  bool json = false;
};

struct DoctorOptions {
  std::string space;
  bool new_epoch = false;
  bool json = false;
};

struct ShardsOptions {
  enum class Action : std::uint8_t { list, set, where };
  Action action = Action::list;
  std::string space;
  std::vector<std::string> names;  // set: of the shards.
  std::vector<Path> paths;         // where.
  std::chrono::nanoseconds wait{0};
  bool json = false;
};

struct BenchOptions {
  enum class Kind : std::uint8_t { exclusive, shared, permits };
  std::string space;  // Empty: a temporary file.
  std::size_t clients = 4;
  std::size_t processes = 1;
  std::size_t keys = 1;
  Kind mode = Kind::exclusive;
  std::uint32_t permits = 2;
  std::chrono::nanoseconds time = std::chrono::seconds{3};
  std::chrono::nanoseconds hold{0};
  bool json = false;
};

struct PipelineCommand {
  enum class Action : std::uint8_t { run, resume, plan, graph, status, restore, schema };
  Action action = Action::run;
  std::string file;       // The manifest, or the root of an npm workspace.
  bool packages = false;  // The latter: publish its packages.
  std::string registry;   // Where to; empty: as npm is configured.
  std::string space;      // Of the tasks' `locks`.
  std::vector<std::string> only;
  std::vector<std::string> except;
  std::vector<std::string> from;
  std::optional<unsigned> jobs;
  bool keep_going = false;
  bool dry_run = false;
  bool wait = false;
  bool watch = false;   // status: until the run has ended.
  bool stream = false;  // Output while tasks run.
  bool json = false;
  std::string summary;  // A file that ends with .xml or .md; empty: none.
  std::string format;   // text, dot, mermaid, json or svg.
  std::chrono::nanoseconds report = std::chrono::seconds{30};  // Between "still running" lines.
};

struct FlowCommand {
  enum class Action : std::uint8_t {
    ls,
    show,
    history,
    print_history,  // As one document: `export`.
    signal,
    cancel,
    terminate,
    retry,
    release,
    schedules,
    engines,
    take_over,
    replay
  };
  Action action = Action::ls;
  std::string space;
  std::string id;     // Of all actions but ls and engines; of a schedule; of an engine.
  std::string name;   // Of a signal; what to do with the schedule, empty: list all.
  std::string value;  // Of a signal; why it is terminated; the path of a lock.
  std::string message_id;
  std::string program;  // That replays.
  FlowFilter filter;
  std::optional<std::chrono::nanoseconds> since;
  bool json = false;
};

struct DemoOptions {};
// For the four processes that `demo` starts; not shown in the help.
struct ContenderOptions {
  std::string space;
  Path path;
};

// For the processes of a workflow that `demo` starts; not shown in the help.
struct DemoWorkerOptions {
  std::string space;
  int shipping = 0;  // How long that takes, in milliseconds.
};

struct CompletionsOptions {
  std::string shell;
};
struct ManOptions {};

// A text to print: --help, --version.
struct PrintOptions {
  std::string text;
};

using Command =
    std::variant<PrintOptions, RunOptions, GitOptions, LsOptions, TreeOptions, ShowOptions,
                 WatchOptions, EvictOptions, AskOptions, LimitOptions, DoctorOptions, ShardsOptions,
                 BenchOptions, PipelineCommand, FlowCommand, DemoOptions, ContenderOptions,
                 DemoWorkerOptions, CompletionsOptions, ManOptions>;

}  // namespace tenure::cli
