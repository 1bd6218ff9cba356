#include "pipeline_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/duration.hpp"
#include "cli.hpp"
#include "exit_status.hpp"
#include "pipeline/commands/command_runner.hpp"
#include "pipeline/commands/run_state.hpp"
#include "pipeline/edits/file_edits.hpp"
#include "pipeline_control.hpp"
#include "pipeline_progress.hpp"
#include "pipeline_stream.hpp"
#include "pipeline_table.hpp"
#include "pipeline_workspace.hpp"
#include "process/process_tree.hpp"
#include "process/signals.hpp"
#include "space_choice.hpp"
#include "tenure/error.hpp"
#include "tenure/space.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using pipeline::CommandRunner;
using pipeline::CommandTask;
using pipeline::Index;
using pipeline::RunInfo;
using pipeline::RunState;
using pipeline::Task;
using pipeline::TaskRecord;

constexpr int exit_cancelled = 130;

// Null: no task has edits.
std::unique_ptr<pipeline::EditSession> edit_session(const std::vector<Task>& tasks) {
  const bool any = std::ranges::any_of(tasks, [](const Task& task) { return !task.edits.empty(); });
  if (!any) return nullptr;
  auto session = std::make_unique<pipeline::EditSession>(edits_directory());
  say_restored(session->recovered(), stderr);
  return session;
}

std::string file_name_of(const Task& task, std::size_t number) {
  std::string name;
  for (const char c : task.name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += plain ? c : '_';
  }
  return fmt::format("{}-{}.log", number, name.substr(0, 100));
}

// Who holds the workspace, for a message.
std::string holder_text(const Space& space) {
  for (const TicketInfo& info : space.inspect(Path::of(run_lock))) {
    if (!info.granted) continue;
    std::string text = fmt::format("process {} on {}", info.pid, printable(info.host));
    if (info.since) {
      const auto age =
          std::chrono::system_clock::now().time_since_epoch() - info.since->time_since_epoch();
      text += fmt::format(", for {}", base::age_text(age));
    }
    return text;
  }
  return "another process";
}

class PipelineRun {
 public:
  explicit PipelineRun(const PipelineCommand& options)
      : options_(options),
        workspace_(workspace_of(options)),
        manifest_(read_unedited()),
        tasks_(selected(manifest_, options)),
        jobs_(jobs_of(manifest_, options)) {}

  int run() {
    if (options_.dry_run) return dry_run();
    make_directories(workspace_.state);
    const process::Signals signals = process::Signals::block();
    process::adopt_orphans();
    std::vector<process::Guardian> guardians;  // Before there are threads, stores and memory.
    const std::size_t count = std::min<std::size_t>(jobs_, tasks_.size());
    guardians.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      // One of them, or they would undo what the shell has set meanwhile.
      guardians.push_back(process::Guardian::start(
          {.signal_mask = signals.original(), .restore_terminal = has_table() && i == 0}));
    }
    const std::shared_ptr<Store> store = tenure::store(workspace_.url());
    const Space space = tenure::open(store, {.label = "tenure pipeline"});
    const std::optional<Hold> hold = lock(space, signals);
    if (!hold) return exit_not_in_time;
    if (options_.packages) {  // Another run may have had them edited when they were read.
      manifest_ = read_unedited();
      tasks_ = selected(manifest_, options_);
    }
    RunState state{store};
    if (!begin(state)) return exit_ok;
    return run_locked(state, std::move(guardians), signals);
  }

 private:
  // What a dead run left edited must not be read: it may be a package.json, or the manifest.
  [[nodiscard]] pipeline::Manifest read_unedited() const {
    say_restored(pipeline::restore_edits(edits_directory()), stderr);
    return read_manifest(workspace_, options_);
  }

  [[nodiscard]] int dry_run() const {
    for (const Task& task : tasks_) {
      std::string words;
      for (const std::string& word : task.run.words) words += " " + word;
      fmt::print("{}:{}\n", printable(task.name), printable(words));
    }
    return exit_ok;
  }

  [[nodiscard]] std::optional<Hold> lock(const Space& space,
                                         const process::Signals& signals) const {
    const Path path = Path::of(run_lock);
    if (std::optional<Hold> hold = space.try_lock(path)) return hold;
    const std::string text =
        fmt::format("another run of {} goes on: {}", printable(options_.file), holder_text(space));
    if (!options_.wait) {
      fmt::print(stderr, "tenure: {}; use --wait to wait for its end\n", text);
      return std::nullopt;
    }
    fmt::print(stderr, "tenure: {}; waiting\n", text);
    return signals.interruptible([&] { return std::optional<Hold>{space.lock(path)}; });
  }

  // False: there is nothing to do.
  bool begin(RunState& state) {
    info_.manifest = workspace_.file;
    info_.began = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
    for (const Task& task : tasks_) info_.texts[task.name] = pipeline::task_text(task);
    if (options_.action == PipelineCommand::Action::run) {
      state.begin(info_);
    } else {
      const std::optional<RunInfo> before = state.newest();
      if (!before) {
        throw UsageError("there is no run of this manifest to resume: use '" +
                         command_text(options_, "run") + "'");
      }
      if (before->result == "done") {
        fmt::print("run {} is done: there is nothing to resume\n", before->id);
        return false;
      }
      info_.id = before->id;
      info_.began = before->began;
      state.go_on(info_);
      records_ = state.tasks(info_.id);
      explain_changes(*before);
    }
    times_ = state.times();
    logs_ = workspace_.state + "/" + info_.id;
    make_directories(logs_);
    return true;
  }

  void explain_changes(const RunInfo& before) const {
    for (const auto& [name, text] : info_.texts) {
      const auto old = before.texts.find(name);
      const bool done = is_done(name);
      if (old == before.texts.end()) {
        fmt::print(stderr, "tenure: {} is new since the run began\n", printable(name));
      } else if (old->second != text) {
        fmt::print(stderr, "tenure: {} changed since the run began; it {}\n", printable(name),
                   done ? "was done before that, and is not repeated" : "runs as it is now");
      }
    }
    for (const auto& [name, text] : before.texts) {
      if (info_.texts.contains(name)) continue;
      fmt::print(stderr, "tenure: {} was in the run that is resumed, and is not selected now\n",
                 printable(name));
    }
  }

  [[nodiscard]] bool is_done(const std::string& name) const {
    const auto at = records_.find(name);
    return at != records_.end() && at->second.state == TaskRecord::State::done;
  }

  [[nodiscard]] std::vector<CommandTask> command_tasks() const {
    std::vector<CommandTask> out;
    out.reserve(tasks_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const std::string& name = tasks_[i].name;
      out.push_back({.task = tasks_[i],
                     .log = logs_ + "/" + file_name_of(tasks_[i], i),
                     .started_before = records_.contains(name),
                     .done_before = is_done(name)});
    }
    return out;
  }

  std::vector<Index> fill(pipeline::Plan& plan) const {
    std::map<std::string, Index> index;
    const pipeline::Graph estimates = graph();
    for (const Task& task : tasks_) index[task.name] = plan.append({});
    for (const Task& task : tasks_) {
      const Index own = index[task.name];
      plan.estimate(own, static_cast<float>(estimates.nodes[own].seconds));
      for (const std::string& needed : task.needs) plan.need(own, index[needed]);
    }
    return plan.seal([&](Index task) { return tasks_[task].name; });
  }

  // Space for the locks of tasks; nothing if none has any.
  [[nodiscard]] std::optional<OpenSpace> open_locks() const {
    const bool any = std::ranges::any_of(tasks_, [](const Task& t) { return !t.locks.empty(); });
    if (!any) return std::nullopt;
    return open_space(choose_space(options_.space), "tenure pipeline");
  }

  int run_locked(RunState& state, std::vector<process::Guardian> guardians,
                 const process::Signals& signals) {
    const std::optional<OpenSpace> locks = open_locks();
    const std::unique_ptr<pipeline::EditSession> edits = edit_session(tasks_);
    std::vector<CommandTask> tasks = command_tasks();
    Progress progress{tasks, mode()};
    CommandRunner::Options how{.directory = workspace_.directory};
    if (locks) how.locker = locks->space;
    how.edits = edits.get();
    const auto concurrency = static_cast<unsigned>(guardians.size());
    CommandRunner runner{std::move(tasks), std::move(guardians), state, progress, std::move(how)};
    progress.set_clock([&runner] { return runner.now(); });
    pipeline::Plan plan;
    std::vector<Index> roots = fill(plan);
    pipeline::Loop loop{plan,
                        runner,
                        std::move(roots),
                        {.concurrency = concurrency,
                         .seed = std::random_device{}(),
                         .keep_going = options_.keep_going}};
    prepare(loop, progress);
    const std::unique_ptr<OutputStream> stream = open_stream(progress, runner);
    std::optional<LiveTable> table;
    if (has_table()) show_table(table.emplace(progress, graph(), concurrency), progress, runner);
    PipelineControl control{loop, runner, progress, table ? &*table : nullptr};
    control.watch(signals);
    if (!table) {
      runner.every(options_.report, [&] { progress.still_running(runner.busy(), runner.now()); });
    }
    loop.run();
    runner.commit();
    const std::chrono::duration<double> took = runner.now() - progress.began();
    if (table) table->suspend();
    cancelled_ = control.cancelled();
    return finish(state, plan, progress, took.count());
  }

  [[nodiscard]] bool has_table() const {
    return !options_.json && !options_.stream && can_rewrite(STDOUT_FILENO);
  }

  [[nodiscard]] Progress::Mode mode() const {
    if (options_.json) return Progress::Mode::json;
    return has_table() ? Progress::Mode::table : Progress::Mode::lines;
  }

  [[nodiscard]] pipeline::Graph graph() const { return pipeline::graph_of(tasks_, times_); }

  static void show_table(LiveTable& table, Progress& progress, CommandRunner& runner) {
    constexpr std::chrono::milliseconds frame{200};
    table.set_claiming([&runner](Index task) { return runner.is_claiming(task); });
    progress.set_printer([&table](const std::string& lines) { table.print(lines); });
    table.draw(runner.now());
    runner.every(frame, [&table, &runner] { table.draw(runner.now()); });
  }

  // Null without --stream.
  std::unique_ptr<OutputStream> open_stream(Progress& progress, CommandRunner& runner) const {
    if (!options_.stream) return nullptr;
    std::vector<std::string> files;
    for (const Progress::Entry& entry : progress.entries()) files.push_back(entry.log);
    auto stream = std::make_unique<OutputStream>(
        logs_, std::move(files),
        [&progress](Index task, const std::string& line) { progress.output(task, line); });
    progress.set_on_end([&at = *stream](Index task) { at.finish(task); });
    runner.watch({.descriptor = [&at = *stream] { return at.descriptor(); },
                  .ready =
                      [&at = *stream, &runner] {
                        std::vector<Index> running;
                        for (const CommandRunner::Busy& one : runner.busy()) {
                          running.push_back(one.task);
                        }
                        at.read(running);
                      }});
    return stream;
  }

  void prepare(pipeline::Loop& loop, Progress& progress) const {
    for (Index task = 0; task < tasks_.size(); ++task) {
      const Task& own = tasks_[task];
      loop.set_terms(
          task, {.timeout = own.timeout,
                 .retry = {.max = own.retry.max, .base = own.retry.base, .cap = own.retry.cap}});
    }
    for (Index task = 0; task < tasks_.size(); ++task) {
      if (is_done(tasks_[task].name)) {
        progress.done_before(task);
        loop.set_done(task);
      } else if (tasks_[task].skip) {
        loop.remove(task, Dependents::release);
      }
    }
  }

  int finish(RunState& state, const pipeline::Plan& plan, Progress& progress, double seconds) {
    for (Index task = 0; task < tasks_.size(); ++task) {
      const pipeline::Plan::Word word = plan.word(task);
      if (word.state() == pipeline::State::blocked) {
        progress.blocked_by(task, tasks_[word.high()].name);
      }
    }
    const bool failed = progress.count(TaskEnd::failed) != 0;
    const bool left = progress.count(TaskEnd::cancelled) != 0;
    info_.result = "done";
    if (failed) info_.result = "failed";
    if (cancelled_ || (left && !failed)) info_.result = "cancelled";
    info_.ended = std::chrono::duration_cast<std::chrono::seconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count();
    state.finish(info_);
    progress.total(seconds, info_.result == "done" ? "" : command_text(options_, "resume"));
    if (!options_.summary.empty()) write_summary(options_.summary, progress.entries(), seconds);
    if (cancelled_) return exit_cancelled;
    return info_.result == "done" ? exit_ok : exit_failure;
  }

  const PipelineCommand& options_;
  Workspace workspace_;
  pipeline::Manifest manifest_;
  std::vector<Task> tasks_;
  unsigned jobs_;
  RunInfo info_;
  std::map<std::string, TaskRecord> records_;
  std::map<std::string, double> times_;
  std::string logs_;
  bool cancelled_ = false;
};

}  // namespace

int run_pipeline(const PipelineCommand& options) { return PipelineRun{options}.run(); }

}  // namespace tenure::cli
