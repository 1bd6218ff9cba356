// The manual page, in troff.
#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "manual.hpp"

namespace tenure::cli {
namespace {

// Backslash and dash have a meaning in troff, and so does a dot or quote at the beginning of a
// line.
std::string troff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins = i == 0 || text[i - 1] == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string option_text(const ManualOption& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", troff(name));
  }
  if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", troff(option.value));
  return fmt::format(".TP\n{}\n{}.\n", names, troff(option.text));
}

std::string command_text(const ManualCommand& command) {
  std::string out = fmt::format(".SS {}\n\\fB{}\\fR\n.PP\n{}.\n", troff(command.name),
                                troff(command.usage()), troff(command.summary));
  for (const ManualArgument& argument : command.arguments) {
    out += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", troff(argument.name), troff(argument.text));
  }
  for (const ManualOption& option : command.options) out += option_text(option);
  return out;
}

using Entry = std::pair<std::string_view, std::string_view>;  // A name, and what it is.

template <std::size_t size>
std::string entries(std::string_view title, const std::array<Entry, size>& list) {
  std::string out = fmt::format(".SH {}\n", title);
  for (const auto& [name, text] : list) {
    out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", troff(name), troff(text));
  }
  return out;
}

constexpr std::array statuses{
    Entry{"0", "Success. run and git: the command's own exit status, whatever it is."},
    Entry{"1",
          "The space can't be used. evict, ask: there is no such ticket. doctor: there is a "
          "problem."},
    Entry{"2", "The command line is not valid."},
    Entry{"73",
          "run: deadlock. The request would wait for a lock that it, or an outer tenure run, "
          "holds. The message prints the cycle."},
    Entry{"74",
          "run: the lock was lost (evicted, --max-hold, the space was replaced) and the command "
          "was ended; or the request was evicted from the queue."},
    Entry{"75",
          "run: the lock was not acquired in time (--try, --timeout). -E sets another status. git: "
          "other writers pushed first every time (--attempts)."},
    Entry{"126", "run: the command was found, but can't be executed."},
    Entry{"127", "run: the command was not found."},
    Entry{"128+n", "Signal n ended the command, the wait for the lock, or tenure itself."},
};

constexpr std::array variables{
    Entry{"TENURE_SPACE", "The space to use if --space is not given."},
    Entry{"TENURE_TOKEN",
          "Set for the command: the fencing token of its lock. Later locks have larger tokens."},
    Entry{"TENURE_PATH", "Set for the command: the locked paths, separated by spaces."},
    Entry{"TENURE_OWNER",
          "Set for the command: the owner of its lock. A tenure run inside the command is a child "
          "of this owner, so waiting for a lock of the outer one is an error, not a hang."},
    Entry{"XDG_STATE_HOME", "The directory of the default space, instead of ~/.local/state."},
    Entry{"NO_COLOR", "If not empty, the output has no colours."},
};

constexpr std::array fields{
    Entry{"space, now", "ls, tree, show, watch: the URL of the space, and the time by its clock."},
    Entry{"tickets",
          "ls, tree, show, watch: the tickets, in the order of their tokens. Each has token (a "
          "string), state (holds or waits), position (0: holds, 1: next), claims (each with path "
          "and mode, and group, limit and take if it has them), owner, session, anchor (the key "
          "that keeps "
          "it alive, or null), host, pid, label, since, deadline, asked_to_leave, fault (why it "
          "cannot be read, or "
          "null) and blocked_by (tokens)."},
    Entry{"token, evicted",
          "evict: the token, and whether there was such a ticket; with --below, "
          "how many there were."},
    Entry{"token, asked", "ask: the token, and whether there was such a ticket."},
    Entry{"limit, tickets", "limit: the new limit, and how many tickets count under it."},
    Entry{"space, facts, sessions, problems, notes", "doctor: the report."},
    Entry{"operations, per_second, lock_ns, hand_off_ns",
          "bench: the results, beside the options that were used. Each of the two times has count, "
          "p50, p99, p999 and max."},
};

constexpr std::string_view about_run =
    ".SH RUNNING A COMMAND\n"
    "The command inherits the standard input, output and error of tenure run, which forwards "
    "signals to it. If standard input is a terminal, the command stays in the process group of "
    "tenure run, so that Ctrl\\-C and Ctrl\\-Z work as usual; otherwise the command gets its own "
    "process group.\n"
    ".PP\n"
    "When the lock is lost, tenure sends SIGTERM to the command and to every process that it "
    "started, and SIGKILL at most five seconds later, before the lock can pass to the next waiter. "
    "When tenure run itself is killed, a helper process kills all of them at once. The lock passes "
    "on only after they have ended, because each keeps the file of the session open. Processes "
    "that still run after the command has ended by itself keep running; they block nobody.\n"
    ".PP\n"
    "Limits: tenure can't kill processes of another user. If both tenure run and its helper are "
    "killed at once, the lock does not wait for a process that has closed the file of the "
    "session.\n";

constexpr std::string_view examples =
    ".SH EXAMPLES\n.nf\n"
    "tenure run deploy/prod \\-\\- ./deploy.sh\n"
    "tenure run backup \\-\\-try \\-E 0 \\-\\- rsync \\-a /home /backup\n"
    "tenure run vendor\\-api \\-\\-permits 3 \\-\\-timeout 1m \\-\\- ./call\n"
    "tenure run db/users db/orders \\-\\-shared \\-\\- pg_dump shop\n"
    "tenure ls \\-\\-json | jq \\-r '.tickets[].token'\n"
    ".fi\n";

}  // namespace

std::string manual_page(const Manual& manual, std::string_view version) {
  std::string out = fmt::format(
      ".TH TENURE 1 \"\" \"tenure {}\" \"User Commands\"\n"
      ".SH NAME\ntenure \\- locks for commands: who holds what, for how long, and who is next\n"
      ".SH SYNOPSIS\n",
      version);
  for (const ManualCommand& command : manual.commands) {
    out += fmt::format("\\fB{}\\fR\n.br\n", troff(command.usage()));
  }
  out += ".SH OPTIONS\n";
  for (const ManualOption& option : manual.options) out += option_text(option);
  out += ".SH COMMANDS\n";
  for (const ManualCommand& command : manual.commands) out += command_text(command);
  out += about_run;
  out += entries("EXIT STATUS", statuses);
  out += entries("ENVIRONMENT", variables);
  out += entries("JSON", fields);
  out +=
      ".SH FILES\n.TP\n\\fB~/.local/state/tenure/tenure.db\\fR\nThe default space, used without "
      "--space or TENURE_SPACE. Its locks exclude only processes of this user.\n";
  return out.append(examples);
}

}  // namespace tenure::cli
