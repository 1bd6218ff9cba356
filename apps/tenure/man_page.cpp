// The manual page, in troff.
#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "manual.hpp"

namespace tenure::cli {
namespace {

// A backslash and a dash mean something to troff, and so does a dot or quote that begins a line.
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
    Entry{"0", "All went well; of run: the command's own status."},
    Entry{"1", "The space can't be used, or there is no such ticket."},
    Entry{"2", "The command line is wrong."},
    Entry{"73",
          "run: it would have waited for itself for ever: a deadlock. The circle is printed."},
    Entry{"74",
          "run: the lock was lost (evicted, --max-hold, a space that was replaced) and the "
          "command ended for it; or its place in line was taken away."},
    Entry{"75", "run: the lock was not had in time (--try, --timeout). -E chooses another."},
    Entry{"126", "run: the command can't be executed."},
    Entry{"127", "run: there is no such command."},
    Entry{"128+n", "Signal n ended the command, or the wait for the lock."},
};

constexpr std::array variables{
    Entry{"TENURE_SPACE", "The space, where --space is not given."},
    Entry{"TENURE_TOKEN", "Set for a command: the fencing token of its lock. It only goes up."},
    Entry{"TENURE_PATH", "Set for a command: what is locked; several paths with blanks between."},
    Entry{"TENURE_OWNER",
          "Set for a command, so that tenure run inside it is known as its child: "
          "asking for what the outer one holds is then an error at once."},
    Entry{"XDG_STATE_HOME", "Where the file of this user is, instead of ~/.local/state."},
    Entry{"NO_COLOR", "No colours when it is set to anything."},
};

constexpr std::array fields{
    Entry{"space, now", "Of ls, tree, show, watch: its URL, and the time by its clock."},
    Entry{"tickets",
          "In order. Each has token (a string), state (holds or waits), position (0: "
          "holds), claims (path, mode, and group and limit where there are), owner, "
          "session, host, pid, label, since, deadline, blocked_by (tokens)."},
    Entry{"token, evicted", "Of evict."},
    Entry{"space, facts, sessions, problems, notes", "Of doctor."},
    Entry{"operations, per_second, lock_ns, hand_off_ns",
          "Of bench, with what was asked for; times have count, p50, p99, p999 and max."},
};

constexpr std::string_view about_run =
    ".SH RUNNING A COMMAND\n"
    "Signals that reach tenure run are passed on to the command, which has its standard input and "
    "output. With a terminal on standard input the command stays in the process group, so that "
    "Ctrl\\-C and Ctrl\\-Z work as without tenure; otherwise it has a group of its own.\n"
    ".PP\n"
    "When the lock is lost, all that the command started gets SIGTERM and, up to five seconds "
    "later but before the lock can pass on, SIGKILL. When tenure run itself is killed, a process "
    "that it left for that kills them at once. The lock does not pass on before they have gone: "
    "each has the session's file open, and the kernel knows. What the command leaves behind after "
    "it ended by itself goes on, and blocks nobody.\n"
    ".PP\n"
    "Limits: a program that closes all files or runs as another user can be outlived by the lock "
    "when both tenure processes are killed at once; a program of another user can't be killed.\n";

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
      ".SH NAME\ntenure \\- locks for processes: who holds what, for how long, and who is next\n"
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
      ".SH FILES\n.TP\n\\fB~/.local/state/tenure/tenure.db\\fR\nThe space of this user, where "
      "none is named. It excludes only this user's processes.\n";
  return out.append(examples);
}

}  // namespace tenure::cli
