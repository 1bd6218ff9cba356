// raw_options.hpp: options as typed, and their conversion to values.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"

namespace tenure::cli {

// As found on the command line. One invocation has one subcommand, so they share the fields.
struct Raw {
  std::string space, path, group, permits, take, timeout, max_hold, code, label, token, shell;
  std::string flock, on_ask, below;
  std::string clients, processes, keys, mode, seconds, hold;
  std::string remote, branch, message, attempts;
  std::vector<std::string> paths;
  bool shared = false, try_only = false, quiet = false, json = false, now = false;
  bool new_epoch = false, dry_run = false;
  // Of git.
  bool accept_rewrite = false;
  // Of pipeline.
  std::string action, file, jobs, summary, format, report, workspace, registry;
  std::vector<std::string> only, except, from;
  bool keep_going = false, wait = false, watch = false, stream = false;
  // Of flow.
  std::string id, name, content, type, state, since, after, limit, message_id, program;
  std::vector<std::string> tags;
};

// Throws UsageError or BadRequest. `command_line` is what follows `--`, for run.
[[nodiscard]] Command options_of(const std::string& subcommand, const Raw& raw,
                                 std::vector<std::string> command_line);

}  // namespace tenure::cli
