#include "pipeline_progress.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/boot_clock.hpp"
#include "environment.hpp"
#include "pipeline/commands/graph.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;
using pipeline::seconds_text;

void print_lines(const std::string& lines) {
  fmt::print("{}", lines);
  (void)std::fflush(stdout);  // Whoever reads a pipe wants it now.
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string markup(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c; break;
    }
  }
  return out;
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

// NOLINTBEGIN(modernize-raw-string-literal): lines of XML, with their ends.
std::string junit(const std::vector<Progress::Entry>& entries, double seconds) {
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::string cases;
  for (const Progress::Entry& entry : entries) {
    cases +=
        fmt::format("  <testcase name=\"{}\" time=\"{:.3f}\"", markup(entry.name), entry.seconds);
    if (entry.end == TaskEnd::done) {
      cases += "/>\n";
    } else if (entry.end == TaskEnd::failed) {
      ++failed;
      cases += fmt::format(">\n    <failure message=\"{}\"/>\n  </testcase>\n", markup(entry.why));
    } else {
      ++skipped;
      const std::string because = entry.cause.empty() ? "" : " by " + entry.cause;
      cases += fmt::format(">\n    <skipped message=\"{}{}\"/>\n  </testcase>\n",
                           text_of(entry.end), markup(because));
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"pipeline\" tests=\"{}\" "
      "failures=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuite>\n",
      entries.size(), failed, skipped, seconds, cases);
}

// NOLINTEND(modernize-raw-string-literal)

std::string markdown(const std::vector<Progress::Entry>& entries, double seconds) {
  std::string out = fmt::format(
      "# Pipeline, {}\n\n| task | end | time | attempts | why |\n|---|---|---|---|---|\n",
      seconds_text(seconds));
  for (const Progress::Entry& entry : entries) {
    const std::string why = entry.cause.empty() ? entry.why : "needs " + entry.cause;
    out += fmt::format("| {} | {} | {} | {} | {} |\n", cell(entry.name), text_of(entry.end),
                       seconds_text(entry.seconds), entry.attempts,
                       cell(entry.end == TaskEnd::done ? "" : why));
  }
  return out;
}

}  // namespace

Progress::Progress(const std::vector<pipeline::CommandTask>& tasks, Mode mode)
    : mode_(mode), printer_(print_lines), groups_(!environment("GITHUB_ACTIONS").empty()) {
  set_clock(base::boot_time);
  for (const pipeline::CommandTask& task : tasks) {
    Entry& entry = entries_.emplace_back();
    entry.name = task.task.name;
    entry.log = task.log;
  }
}

void Progress::set_clock(std::function<std::chrono::nanoseconds()> now) {
  now_ = std::move(now);
  began_ = now_();
}

std::size_t Progress::count(TaskEnd end) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      entries_, [&](const Entry& entry) { return entry.ended() && entry.end == end; }));
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters): the order of the interface.
void Progress::started(pipeline::Index task, unsigned attempt) {
  Entry& entry = entries_[task];
  entry.attempts = attempt + 1;
  entry.state = Entry::State::running;
  entry.since = now_();
  if (json()) {
    say(json_text({{"event", "started"}, {"task", entry.name}, {"attempt", attempt + 1}}));
  } else if (mode_ == Mode::lines) {
    say(fmt::format("start    {}{}", printable(entry.name),
                    attempt == 0 ? "" : fmt::format(" (attempt {})", attempt + 1)));
  }
}

void Progress::retries(pipeline::Index task, std::chrono::nanoseconds delay,
                       const std::string& why) {
  Entry& entry = entries_[task];
  entry.state = Entry::State::delayed;
  entry.next = now_() + delay;
  entry.why = why;
  const double seconds = seconds_of(delay);
  if (json()) {
    say(json_text({{"event", "retry"}, {"task", entry.name}, {"why", why}, {"delay", seconds}}));
  } else {
    say(fmt::format("retry    {} in {}: {}", printable(entry.name), seconds_text(seconds),
                    printable(why)));
  }
}

void Progress::ended(pipeline::Index task, TaskEnd end, std::chrono::nanoseconds took,
                     const std::string& why) {
  if (on_end_) on_end_(task);
  Entry& entry = entries_[task];
  entry.state = Entry::State::ended;
  entry.end = end;
  entry.seconds = seconds_of(took);
  entry.why = why;
  if (entry.before && end == TaskEnd::done) return;
  if (json()) {
    Json event{{"event", "ended"}, {"task", entry.name}, {"end", text_of(end)}};
    event["seconds"] = entry.seconds;
    if (end == TaskEnd::failed) {
      event["why"] = why;
      event["log"] = entry.log;
    }
    say(json_text(event));
    return;
  }
  if (end == TaskEnd::blocked || end == TaskEnd::cancelled) return;  // The summary has them.
  const std::string time =
      took.count() == 0 ? "" : fmt::format(" ({})", seconds_text(entry.seconds));
  if (end != TaskEnd::failed) {
    if (mode_ == Mode::table) return;
    say(fmt::format("{:<8} {}{}", text_of(end), printable(entry.name), time));
    return;
  }
  say(fmt::format("failed   {}{}: {}", printable(entry.name), time, printable(why)));
  if (!on_end_) say_output(entry);  // With --stream it was printed already.
}

// Whole lines of one task, never between those of another one.
void Progress::say_output(const Entry& entry) const {
  std::ifstream in{entry.log, std::ios::binary};
  if (!in || in.peek() == std::ifstream::traits_type::eof()) return;
  say(fmt::format("{}output of {}", groups_ ? "::group::" : "--- ", printable(entry.name)));
  for (std::string line; std::getline(in, line);) say(line);
  say(groups_ ? "::endgroup::" : "---");
}

void Progress::output(pipeline::Index task, const std::string& line) const {
  const std::string& name = entries_[task].name;
  if (json()) {
    say(json_text({{"event", "output"}, {"task", name}, {"line", line}}));
  } else {
    say(printable(name) + " | " + line);
  }
}

void Progress::still_running(const std::vector<pipeline::CommandRunner::Busy>& busy,
                             std::chrono::nanoseconds now) {
  if (busy.empty()) return;
  Json tasks = Json::array();
  std::string text;
  for (const pipeline::CommandRunner::Busy& one : busy) {
    const std::string& name = entries_[one.task].name;
    const double seconds = seconds_of(now - one.since);
    tasks.push_back(Json{{"task", name}, {"seconds", seconds}});
    text +=
        fmt::format("{} {} ({})", text.empty() ? "" : ",", printable(name), seconds_text(seconds));
  }
  if (json()) {
    say(json_text({{"event", "still_running"}, {"tasks", tasks}}));
  } else {
    say("still running:" + text);
  }
}

void Progress::event(std::string_view what, std::string_view text) const {
  if (json()) {
    say(json_text({{"event", what}, {"text", text}}));
  } else if (mode_ == Mode::lines) {  // A table says so itself.
    say(std::string{text});
  }
}

void Progress::total(double seconds, const std::string& resume) {
  Json counts{{"event", "summary"}, {"seconds", seconds}};
  std::string text;
  for (const TaskEnd end :
       {TaskEnd::done, TaskEnd::failed, TaskEnd::blocked, TaskEnd::skipped, TaskEnd::cancelled}) {
    counts[std::string{text_of(end)}] = count(end);
    if (count(end) == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count(end), text_of(end));
  }
  if (json()) {
    say(json_text(counts));
    return;
  }
  for (const Entry& entry : entries_) {
    if (entry.end == TaskEnd::failed) {
      say(fmt::format("failed:  {}: {}; its output is in {}", printable(entry.name),
                      printable(entry.why), printable(entry.log)));
    } else if (entry.end == TaskEnd::blocked) {
      say(fmt::format("blocked: {}, because {} failed", printable(entry.name),
                      printable(entry.cause)));
    }
  }
  say(fmt::format("{} in {}", text, seconds_text(seconds)));
  if (!resume.empty()) say("go on with: " + resume);
}

bool say_restored(const std::vector<pipeline::EditReport>& reports, std::FILE* out) {
  using Outcome = pipeline::EditReport::Outcome;
  bool all = true;
  for (const pipeline::EditReport& report : reports) {
    const bool restored = report.outcome == Outcome::restored || report.outcome == Outcome::copied;
    all = all && restored;
    fmt::print(out, "tenure: {}\n",
               restored ? fmt::format("restored '{}', which a run that was killed had edited",
                                      printable(report.file.string()))
                        : printable(report.message));
  }
  return all;
}

void write_summary(const std::string& file, const std::vector<Progress::Entry>& entries,
                   double seconds) {
  std::ofstream out{file, std::ios::binary};
  out << (file.ends_with(".xml") ? junit(entries, seconds) : markdown(entries, seconds));
  out.close();
  if (!out) throw Error(fmt::format("cannot write the summary '{}'", printable(file)));
}

}  // namespace tenure::cli
