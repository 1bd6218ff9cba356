#include "pipeline_table.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <fstream>
#include <utility>

namespace tenure::cli {
namespace {

constexpr std::size_t bar_width = 24;
constexpr std::size_t longest_name = 40;

std::vector<double> tails_of(const pipeline::Graph& graph) {
  std::vector<double> tails(graph.nodes.size());
  std::vector<std::size_t> order(graph.nodes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, std::ranges::greater{},
                    [&](std::size_t i) { return graph.nodes[i].level; });
  std::vector<double> longest(graph.nodes.size());  // Of what needs the task.
  for (const std::size_t i : order) {
    tails[i] = graph.nodes[i].seconds + longest[i];
    for (const std::size_t needed : graph.nodes[i].needs) {
      longest[needed] = std::max(longest[needed], tails[i]);
    }
  }
  return tails;
}

// The order of the table: what people look for first.
int place_of(const Progress::Entry& entry) {
  if (entry.running()) return 0;
  if (entry.state == Progress::Entry::State::delayed) return 1;
  if (!entry.ended()) return 4;
  switch (entry.end) {
    case TaskEnd::failed: return 2;
    case TaskEnd::blocked: return 3;
    case TaskEnd::done: return 5;
    case TaskEnd::skipped: return 6;
    case TaskEnd::cancelled: return 7;
  }
  return 8;
}

std::string_view state_text(const Progress::Entry& entry) {
  if (entry.running()) return "running";
  if (entry.state == Progress::Entry::State::delayed) return "retry";
  return entry.ended() ? text_of(entry.end) : "waiting";
}

Style style_of(const Progress::Entry& entry) {
  if (entry.running()) return Style::bold;
  if (entry.state == Progress::Entry::State::delayed) return Style::yellow;
  if (!entry.ended()) return Style::dim;
  switch (entry.end) {
    case TaskEnd::done: return Style::green;
    case TaskEnd::failed: return Style::red;
    case TaskEnd::blocked: return Style::yellow;
    default: return Style::dim;
  }
}

}  // namespace

LiveTable::LiveTable(const Progress& progress, pipeline::Graph graph, unsigned jobs)
    : progress_(progress),
      graph_(std::move(graph)),
      tails_(tails_of(graph_)),
      jobs_(std::max(jobs, 1U)),
      has_keys_(::isatty(STDIN_FILENO) == 1) {}

// ---- The terminal ----

// False: another job has it. SIGTTOU is blocked, so the terminal would not stop us.
bool LiveTable::take_terminal() {
  const pid_t group = ::tcgetpgrp(STDOUT_FILENO);
  if (group >= 0 && group != ::getpgrp()) {
    changed_ = false;  // The shell has its own settings there now.
    return false;
  }
  if (changed_ || !has_keys_) return true;
  if (::tcgetattr(STDIN_FILENO, &before_) != 0) return true;
  termios keys = before_;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  keys.c_cc[VMIN] = 1;  // A shell that reads first must not see the end of a file.
  keys.c_cc[VTIME] = 0;
  changed_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &keys) == 0;
  return true;
}

void LiveTable::suspend() {
  const pid_t group = ::tcgetpgrp(STDOUT_FILENO);
  const bool ours = group < 0 || group == ::getpgrp();
  if (ours) block_.clear();
  if (changed_ && ours) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  changed_ = false;
}

int LiveTable::keys() { return has_keys_ && changed_ && take_terminal() ? STDIN_FILENO : -1; }

std::vector<LiveTable::Request> LiveTable::read_keys() {
  std::array<char, 64> bytes{};
  const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (size <= 0) {
    has_keys_ = false;
    return {};
  }
  std::vector<Request> requests;
  for (const char key : std::string_view{bytes.data(), static_cast<std::size_t>(size)}) {
    const Request request = on_key(key);
    if (request != Request::none) requests.push_back(request);
  }
  return requests;
}

LiveTable::Request LiveTable::on_key(char key) {
  if (key == '\x1b' || !escape_.empty()) {  // Escape [ A is the arrow upwards.
    escape_ += key;
    if (escape_ == "\x1b[A") select(-1);
    if (escape_ == "\x1b[B") select(1);
    if (escape_.size() >= 3 || (escape_.size() == 2 && key != '[')) escape_.clear();
    return Request::none;
  }
  const auto toggle = [&](View view) { view_ = view_ == view ? View::tasks : view; };
  switch (key) {
    case 'p': return Request::pause;
    case 'r': return Request::resume;
    case 'q': return Request::quit;
    case 'f': failed_only_ = true; break;
    case 'a': failed_only_ = false; break;
    case 'k': select(-1); break;
    case 'j': select(1); break;
    case 'l': toggle(View::log); break;
    case '?': toggle(View::help); break;
    default: break;
  }
  return Request::none;
}

// ---- What is shown ----

std::vector<std::size_t> LiveTable::shown() const {
  const std::vector<Entry>& entries = progress_.entries();
  std::vector<std::size_t> tasks;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const bool failed =
        entry.ended() && (entry.end == TaskEnd::failed || entry.end == TaskEnd::blocked);
    if (!failed_only_ || failed) tasks.push_back(i);
  }
  std::ranges::sort(tasks, {}, [&](std::size_t i) { return std::pair{place_of(entries[i]), i}; });
  return tasks;
}

void LiveTable::select(int step) {
  const std::vector<std::size_t> tasks = shown();
  if (tasks.empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(tasks.size()) - 1;
  std::ptrdiff_t at = step > 0 ? -1 : 0;
  if (selected_) {
    const auto found = std::ranges::find(tasks, *selected_);
    if (found != tasks.end()) at = found - tasks.begin();
  }
  selected_ = tasks[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at + step, 0, last))];
}

std::optional<double> LiveTable::seconds_left(std::chrono::nanoseconds now) const {
  if (std::ranges::none_of(graph_.nodes, &pipeline::GraphNode::known)) return std::nullopt;
  double longest = 0;
  double work = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Entry& entry = progress_.entries()[i];
    if (entry.ended()) continue;
    const double since = std::chrono::duration<double>(now - entry.since).count();
    const double spent = entry.running() ? std::min(graph_.nodes[i].seconds, since) : 0;
    longest = std::max(longest, tails_[i] - spent);
    work += graph_.nodes[i].seconds - spent;
  }
  return std::max(longest, work / jobs_);
}

std::string LiveTable::bar(std::chrono::nanoseconds now) const {
  const std::vector<Entry>& entries = progress_.entries();
  const auto ended = static_cast<std::size_t>(std::ranges::count_if(entries, &Entry::ended));
  const std::size_t full = entries.empty() ? bar_width : bar_width * ended / entries.size();
  std::string text =
      fmt::format("[{:.<{}}] {} of {}", std::string(full, '#'), bar_width, ended, entries.size());
  if (const auto running = std::ranges::count_if(entries, &Entry::running); running != 0) {
    text += fmt::format(", {} running", running);
  }
  if (const std::size_t failed = progress_.count(TaskEnd::failed); failed != 0) {
    text += fmt::format(", {} failed", failed);
  }
  text +=
      ", " + pipeline::seconds_text(std::chrono::duration<double>(now - progress_.began()).count());
  if (const auto left = seconds_left(now)) {
    text += fmt::format("; about {} left", pipeline::seconds_text(*left));
  }
  if (!note_.empty()) text += "; " + note_;
  return text;
}

std::string LiveTable::waits_for(std::size_t task, std::chrono::nanoseconds now) const {
  const Entry& entry = progress_.entries()[task];
  if (entry.running()) return {};
  if (entry.state == Entry::State::delayed) {
    const auto left = std::chrono::duration<double>(entry.next - now).count();
    return fmt::format("retry in {}: {}", pipeline::seconds_text(std::max(left, 0.0)),
                       printable(entry.why));
  }
  if (entry.ended()) return entry.end == TaskEnd::failed ? printable(entry.why) : "";
  std::string text;
  std::size_t more = 0;
  for (const std::size_t needed : graph_.nodes[task].needs) {
    const Entry& other = progress_.entries()[needed];
    if (other.ended()) continue;
    if (text.empty()) {
      text = printable(other.name);
    } else {
      ++more;
    }
  }
  if (more != 0) text += fmt::format(" and {} more", more);
  if (!text.empty()) return text;
  return claiming_ && claiming_(static_cast<pipeline::Index>(task)) ? "its locks" : "a free slot";
}

std::string LiveTable::row(std::size_t task, std::size_t name_width, std::chrono::nanoseconds now,
                           std::size_t columns) const {
  const Entry& entry = progress_.entries()[task];
  double seconds = entry.seconds;
  if (entry.running()) seconds = std::chrono::duration<double>(now - entry.since).count();
  const std::string name = fit(printable(entry.name), name_width);
  const std::string time = seconds > 0 ? pipeline::seconds_text(seconds) : "";
  const std::string attempt = entry.attempts == 0 ? "" : std::to_string(entry.attempts);
  const std::string text =
      fmt::format("{} {}{}  {:<9}  {:>7}  {:>8}  {}", selected_ == task ? '>' : ' ', name,
                  std::string(name_width - width(name), ' '), state_text(entry), attempt, time,
                  waits_for(task, now));
  return terminal_.paint(style_of(entry), fit(text, columns));
}

std::vector<std::string> LiveTable::task_lines(ScreenSize size, std::chrono::nanoseconds now) {
  const std::vector<std::size_t> tasks = shown();
  std::size_t name_width = 4;
  for (const std::size_t i : tasks) {
    name_width = std::max(name_width, width(printable(progress_.entries()[i].name)));
  }
  name_width = std::min(name_width, longest_name);
  std::vector<std::string> lines;
  lines.push_back(terminal_.paint(
      Style::dim, fit(fmt::format("  {:<{}}  {:<9}  {:>7}  {:>8}  {}", "TASK", name_width, "STATE",
                                  "ATTEMPT", "TIME", "WAITS FOR"),
                      size.columns)));
  const std::size_t room = std::max<std::size_t>(size.rows, 6) - 4;  // Bar, titles, keys, cursor.
  std::size_t first = 0;
  if (selected_) {
    const auto at = static_cast<std::size_t>(std::ranges::find(tasks, *selected_) - tasks.begin());
    if (at >= room && at < tasks.size()) first = at - room + 1;
  }
  const std::size_t last = std::min(tasks.size(), first + room);
  for (std::size_t i = first; i < last; ++i) {
    lines.push_back(row(tasks[i], name_width, now, size.columns));
  }
  return lines;
}

std::vector<std::string> LiveTable::log_lines(ScreenSize size) const {
  std::size_t task = 0;
  if (selected_) {
    task = *selected_;
  } else if (const std::vector<std::size_t> tasks = shown(); !tasks.empty()) {
    task = tasks.front();
  }
  const Entry& entry = progress_.entries()[task];
  const std::size_t room = std::max<std::size_t>(size.rows, 6) - 4;
  std::deque<std::string> lines;
  std::ifstream in{entry.log, std::ios::binary};
  constexpr std::streamoff longest = 65'536;  // Of a log that may be large.
  in.seekg(0, std::ios::end);
  const std::streamoff end = in.tellg();
  in.seekg(std::max<std::streamoff>(0, end - longest));
  for (std::string line; std::getline(in, line);) {
    lines.push_back(fit(printable(line), size.columns));
    if (lines.size() > room) lines.pop_front();
  }
  std::vector<std::string> out{
      terminal_.paint(Style::bold, fit("log of " + printable(entry.name), size.columns))};
  out.insert(out.end(), lines.begin(), lines.end());
  return out;
}

void LiveTable::draw(std::chrono::nanoseconds now) {
  if (!take_terminal()) return;
  ScreenSize size = screen_size(STDOUT_FILENO);
  size.columns = std::max<std::size_t>(size.columns, 2) - 1;  // The last one would wrap.
  std::vector<std::string> lines;
  if (view_ == View::help) {
    for (const std::string_view line :
         {"p  pause: tasks that run go on, no other starts", "r  resume",
          "q  cancel: nothing more starts, tasks that run finish; again: they are ended",
          "f  failed tasks only", "a  all tasks", "j, k, arrows  select a task",
          "l  log of the selected task, and back", "?  this help, and back",
          "Ctrl-C  end the tasks that run; again: kill them"}) {
      lines.push_back(fit(line, size.columns));
    }
  } else {
    lines = view_ == View::log ? log_lines(size) : task_lines(size, now);
  }
  lines.push_back(terminal_.paint(Style::bold, fit(bar(now), size.columns)));
  if (has_keys_) {
    lines.push_back(terminal_.paint(
        Style::dim,
        fit("p pause  r resume  q cancel  f failed  a all  l log  ? help", size.columns)));
  }
  block_.show(lines);
}

}  // namespace tenure::cli
