// pipeline_table.hpp: the live table of `tenure pipeline run` on a terminal: a progress bar with an
// estimate, one line per task, and keys.
//
//   key         | does
//   ------------+----------------------------------------------------------------------
//   p, r        | pause: nothing more starts; resume
//   q           | nothing more starts, what runs finishes; again: what runs is ended
//   f, a        | show failed tasks only; all tasks
//   up, down    | select a task (also k, j)
//   l           | the end of the log of the selected task, and back
//   ?           | help, and back
//
// The keys need the terminal without line editing and echo. Only a process in the foreground may
// change that, so each frame looks: in the background nothing is drawn and no key is read.
// The guardian restores the settings after SIGKILL (process/guardian.hpp).
//
// Thread safety: none.
#pragma once

#include <termios.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/commands/graph.hpp"
#include "pipeline_progress.hpp"
#include "terminal.hpp"
#include "terminal_block.hpp"

namespace tenure::cli {

class LiveTable {
 public:
  enum class Request : std::uint8_t { none, pause, resume, quit };

  // `graph` has the tasks in the order of `progress`, with times of earlier runs.
  LiveTable(const Progress& progress, pipeline::Graph graph, unsigned jobs);
  LiveTable(const LiveTable&) = delete;
  LiveTable& operator=(const LiveTable&) = delete;
  ~LiveTable() { suspend(); }

  // Whether the task waits for its locks or files, and not for a slot.
  void set_claiming(std::function<bool(pipeline::Index)> claiming) {
    claiming_ = std::move(claiming);
  }
  void set_note(std::string note) { note_ = std::move(note); }  // "paused", "cancelling", …
  void draw(std::chrono::nanoseconds now);
  void print(std::string_view text) { block_.above(text); }  // Whole lines, above the table.
  // The settings of the terminal are what they were, and the table is gone, until the next draw().
  void suspend();

  // Where keys come from; -1 while this process is in the background.
  [[nodiscard]] int keys();
  // Reads them. Those that change what is shown are done with.
  [[nodiscard]] std::vector<Request> read_keys();

 private:
  enum class View : std::uint8_t { tasks, log, help };
  using Entry = Progress::Entry;

  [[nodiscard]] bool take_terminal();
  [[nodiscard]] Request on_key(char key);
  void select(int step);
  [[nodiscard]] std::vector<std::size_t> shown() const;
  [[nodiscard]] std::string bar(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::optional<double> seconds_left(std::chrono::nanoseconds now) const;
  [[nodiscard]] std::string row(std::size_t task, std::size_t name_width,
                                std::chrono::nanoseconds now, std::size_t columns) const;
  [[nodiscard]] std::string waits_for(std::size_t task, std::chrono::nanoseconds now) const;
  [[nodiscard]] std::vector<std::string> task_lines(ScreenSize size, std::chrono::nanoseconds now);
  [[nodiscard]] std::vector<std::string> log_lines(ScreenSize size) const;

  const Progress& progress_;
  pipeline::Graph graph_;
  std::vector<double> tails_;  // By task: seconds from its start to the end of the last dependent.
  unsigned jobs_;
  Terminal terminal_ = Terminal::detect();
  std::function<bool(pipeline::Index)> claiming_;
  std::string note_;
  TerminalBlock block_;
  termios before_{};
  bool changed_ = false;  // The settings.
  bool has_keys_;
  std::string escape_;  // The beginning of a key that is several bytes.
  View view_ = View::tasks;
  bool failed_only_ = false;
  std::optional<std::size_t> selected_;
};

}  // namespace tenure::cli
