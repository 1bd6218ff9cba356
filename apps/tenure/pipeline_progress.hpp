// pipeline_progress.hpp: what `tenure pipeline run` tells while it runs and at its end, as plain
// lines or as JSON events, one per line.
//
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
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
    std::string name;
    std::string log;
    std::string why;
    unsigned attempts = 0;
    double seconds = 0;
    bool ended = false;
    TaskEnd end = TaskEnd::cancelled;
    std::string cause;    // Of a blocked task.
    bool before = false;  // It was done in an earlier run.
  };

  Progress(const std::vector<pipeline::CommandTask>& tasks, bool json);

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
  // "paused", "resumed", "cancelling", …
  void event(std::string_view what, std::string_view text) const;
  // At the end. `resume` is the command that goes on with what is left.
  void total(double seconds, const std::string& resume);

  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] std::size_t count(TaskEnd end) const;

 private:
  void show_output(const Entry& entry) const;

  std::vector<Entry> entries_;
  bool json_;
  bool groups_;  // A service that folds groups of lines shows the output.
};

// One line per file that a dead run had edited, and that was restored or could not be. Returns
// whether all of them are what they were.
bool say_restored(const std::vector<pipeline::EditReport>& reports, std::FILE* out);

// JUnit XML or Markdown, by the ending of the name: .xml, .md. Throws Error if it can't be written.
void write_summary(const std::string& file, const std::vector<Progress::Entry>& entries,
                   double seconds);

}  // namespace tenure::cli
