#include "run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "cli.hpp"
#include "exit_status.hpp"
#include "owner.hpp"
#include "process/process_tree.hpp"
#include "space_choice.hpp"
#include "supervisor.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"
#include "waiting.hpp"
#include "wrapped.hpp"

namespace tenure::cli {
namespace {

// For people who list the locks. Arguments may be secret, so only the name.
std::string label_of(const RunOptions& options) {
  if (!options.label.empty()) return options.label;
  const std::string& command = options.command.front();
  return command.substr(command.rfind('/') + 1).substr(0, 256);
}

process::Command command_of(const RunOptions& options, const Owner& owner, const Acquired& acquired,
                            int session) {
  std::string paths;
  for (const Path& path : options.paths) paths += (paths.empty() ? "" : " ") + path.text();
  process::Command command{.words = options.command};
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it is called with a hold.
  const std::uint64_t token = acquired.hold->token().value;
  command.environment = {"TENURE_PATH=" + paths, "TENURE_OWNER=" + owner.text(),
                         "TENURE_TOKEN=" + std::to_string(token)};
  command.group = ::isatty(STDIN_FILENO) == 1 ? process::Group::owner : process::Group::own;
  // The kernel's locks live until the last process of the command has ended.
  if (session >= 0) command.descriptors.push_back(session);
  if (acquired.file) command.descriptors.push_back(acquired.file->descriptor());
  return command;
}

// Releases the lock after the command has ended, and reports problems.
int finish(Hold& hold, int status) {
  try {
    if (hold.release()) return status;
    fmt::print(stderr, "tenure: the lock was lost before the command ended\n");
    return exit_lost;
  } catch (const Error& error) {
    // The command is done, and the lock ends with this process.
    fmt::print(stderr, "tenure: the command has ended, but releasing its lock failed: {}\n",
               printable(error.what()));
    return status;
  }
}

std::string not_free(const RunOptions& options, const std::string& path) {
  std::string what = options.paths.size() == 1 ? "'" + path + "'" : "the lock";
  if (!options.flock.empty()) what += " or the file '" + printable(options.flock) + "'";
  return what;
}

int run_locked(const RunOptions& options, const SpaceChoice& choice, const Owner& owner,
               const process::Signals& signals, process::Guardian& guardian) {
  const bool made = choice.of_this_user && !exists(choice);
  // A server that does not answer may take its whole timeout.
  const OpenSpace in = signals.interruptible(
      [&] { return open_space(choice, options.label, &options.paths.front()); });
  if (made && !options.quiet) {
    fmt::print(
        stderr,
        "tenure: created '{}'; its locks exclude only processes of this user (see --space)\n",
        printable(choice.file));
  }
  Acquired acquired = acquire(options, in, owner, signals);
  if (acquired.signal != 0) return exit_signal + acquired.signal;
  if (!acquired.hold) {
    if (!options.quiet) {
      const std::string path = printable(options.paths.front().text());
      fmt::print(stderr,
                 "tenure: gave up, because {} is not free; 'tenure show {}' shows who holds it\n",
                 not_free(options, path), path);
    }
    return options.not_in_time;
  }
  Supervisor supervisor{guardian, signals, *in.store, *acquired.hold, options.on_ask};
  const int status = supervisor.run(command_of(options, owner, acquired, in.space.descriptor()));
  acquired.file.reset();  // First: the next in line waits for the file while it has the lock.
  const int result = supervisor.lost() ? status : finish(*acquired.hold, status);
  guardian.leave();
  return result;
}

}  // namespace

int run(const RunOptions& options) {
  return run_wrapped("run", options.command, [&options] {
    RunOptions labelled = options;
    labelled.label = label_of(options);
    const SpaceChoice choice = choose_space(options.space);
    const Owner owner = new_owner("run");
    const process::Signals signals = process::Signals::block();
    process::adopt_orphans();
    process::Guardian guardian = process::Guardian::start(
        {.signal_mask = signals.original(), .foreground = true, .restore_terminal = true});
    return run_locked(labelled, choice, owner, signals, guardian);
  });
}

}  // namespace tenure::cli
