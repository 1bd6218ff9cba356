// pipeline_progress.hpp: what `tenure pipeline run` tells while it runs and at its end, as plain
// lines or as JSON events, one per line.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/commands/command_runner.hpp"
#include "pipeline/edits/file_edits.hpp"

namespace tenure::cli {

class Progress final : public pipeline::CommandListener {
 public:
  struct Entry {
    enum class State : std::uint8_t { waiting, running, delayed, ended };
    std::string name;
    std::string log;
    std::string why;
    unsigned attempts = 0;
    double seconds = 0;
    State state = State::waiting;
    std::chrono::nanoseconds since{};  // Of a task that runs,
    std::chrono::nanoseconds next{};   // and of one that waits for its next attempt.
    TaskEnd end = TaskEnd::cancelled;
    std::string cause;    // Of a blocked task.
    bool before = false;  // It was done in an earlier run.
    [[nodiscard]] bool ended() const noexcept { return state == State::ended; }
    [[nodiscard]] bool running() const noexcept { return state == State::running; }
  };
  enum class Mode : std::uint8_t {
    lines,
    json,
    table,  // A table shows what starts and ends; only what it can't show is printed.
  };

  Progress(const std::vector<pipeline::CommandTask>& tasks, Mode mode);

  // Who prints lines; standard output by default.
  void set_printer(std::function<void(const std::string& lines)> printer) {
    printer_ = std::move(printer);
  }
  // Is called before the end of a task is told.
  void set_on_end(std::function<void(pipeline::Index)> on_end) { on_end_ = std::move(on_end); }
  void set_clock(std::function<std::chrono::nanoseconds()> now);
  [[nodiscard]] std::chrono::nanoseconds began() const noexcept { return began_; }

  // Before run() of the loop: these are not told.
  void done_before(pipeline::Index task) { entries_[task].before = true; }
  void blocked_by(pipeline::Index task, const std::string& cause) { entries_[task].cause = cause; }

  void started(pipeline::Index task, unsigned attempt) override;
  void ended(pipeline::Index task, TaskEnd end, std::chrono::nanoseconds took,
             const std::string& why) override;
  void retries(pipeline::Index task, std::chrono::nanoseconds delay,
               const std::string& why) override;
  void still_running(const std::vector<pipeline::CommandRunner::Busy>& busy,
                     std::chrono::nanoseconds now);
  // A line that a task has written (--stream).
  void output(pipeline::Index task, const std::string& line) const;
  // "paused", "resumed", "cancelling", …
  void event(std::string_view what, std::string_view text) const;
  // At the end. `resume` is the command that goes on with what is left.
  void total(double seconds, const std::string& resume);

  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::size_t count(TaskEnd end) const;

 private:
  void say(const std::string& line) const { printer_(line + "\n"); }
  void say_output(const Entry& entry) const;
  [[nodiscard]] bool json() const noexcept { return mode_ == Mode::json; }

  std::vector<Entry> entries_;
  Mode mode_;
  std::function<void(const std::string& lines)> printer_;
  std::function<void(pipeline::Index)> on_end_;
  std::function<std::chrono::nanoseconds()> now_;
  std::chrono::nanoseconds began_{};
  bool groups_;  // A service that folds groups of lines shows the output.
};

// One line per file that a dead run had edited, and that was restored or could not be. Returns
// whether all of them are what they were.
bool say_restored(const std::vector<pipeline::EditReport>& reports, std::FILE* out);

// JUnit XML or Markdown, by the ending of the name: .xml, .md. Throws Error if it can't be written.
void write_summary(const std::string& file, const std::vector<Progress::Entry>& entries,
                   double seconds);

}  // namespace tenure::cli
