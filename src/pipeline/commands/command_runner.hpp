// command_runner.hpp: runs the tasks of a manifest as commands, one guardian per slot.
//
// An attempt is a sequence of steps in one slot; each is a command, or a question to a server:
//
//   when ──no──► skipped
//     │ yes
//   done ──yes─► done
//     │ no
//   edits are made ──refused──► failed
//     │
//   run ──not 0──► edits are restored ──► failed
//     │ 0
//   edits are restored ──not possible──► failed
//     │
//   verify ──no──► again after `every`; failed after its timeout
//     │ yes
//   done
//
// `when` and `done` are asked before each attempt: an attempt that seemed to fail may have done its
// work. If a server does not answer them, the attempt fails.
//
// Everything that a command started has ended when its step is over: what is left of it gets
// SIGTERM, and SIGKILL after the task's grace. The output of all steps of a task goes to one file.
//
// Invariants
//  1. A command starts only after its start is committed (run_state.hpp).
//  2. No command outlives this process (process/guardian.hpp).
//  3. Two tasks of this run that edit one file run one after another: a task claims its files
//     before it takes a slot, and has them until they are restored.
//  4. However an attempt ends, its files are restored before its end is reported.
//  5. A command whose task has lost a lock is ended, and the attempt fails.
//  6. The listener is told of an end after that end is committed: what somebody saw as done is not
//     repeated by a resumed run.
//
// Requires: the process is a subreaper (adopt_orphans).
//
// Thread safety: none; other threads wake wait() through Answers.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "net/http_client.hpp"
#include "pipeline/commands/answers.hpp"
#include "pipeline/commands/run_state.hpp"
#include "pipeline/edits/file_edits.hpp"
#include "pipeline/loop.hpp"
#include "pipeline/manifest.hpp"
#include "process/descriptor.hpp"
#include "process/guardian.hpp"
#include "tenure/hold.hpp"
#include "tenure/locker.hpp"
#include "tenure/space.hpp"

namespace tenure::pipeline {

// A task of the manifest that this run has to do.
struct CommandTask {
  Task task;
  std::string log;              // The file for its output.
  bool started_before = false;  // In the run that is resumed,
  bool done_before = false;     // and it was done there: nothing is recorded.
};

// Is told what happens, on the thread of the loop.
class CommandListener {
 public:
  CommandListener() = default;
  CommandListener(const CommandListener&) = delete;
  CommandListener& operator=(const CommandListener&) = delete;
  virtual ~CommandListener() = default;
  virtual void started(Index task, unsigned attempt) = 0;
  // `why` is what went wrong with a failed task.
  virtual void ended(Index task, TaskEnd end, std::chrono::nanoseconds took,
                     const std::string& why) = 0;
  virtual void retries(Index task, std::chrono::nanoseconds delay, const std::string& why) = 0;
};

class CommandRunner final : public Runner {
 public:
  struct Options {
    std::string directory;  // Of the manifest.
    // For `locks`. NOLINTNEXTLINE(readability-redundant-member-init)
    std::optional<Locker> locker{};
    EditSession* edits = nullptr;  // For `edits`.
  };
  // Something else to wait for on the same thread.
  struct Source {
    std::function<int()> descriptor;  // Asked before each wait; -1: not now.
    std::function<void()> ready;
  };

  CommandRunner(std::vector<CommandTask> tasks, std::vector<process::Guardian> guardians,
                RunState& state, CommandListener& listener, Options options);
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;
  ~CommandRunner() override;

  void watch(Source source) { sources_.push_back(std::move(source)); }
  // Calls `tick` at least so often while the loop waits.
  void every(std::chrono::nanoseconds period, std::function<void()> tick);
  // What runs is killed at once instead of after its grace.
  void kill();
  // This process is about to be stopped, and was, for so long: so are its commands. now() does not
  // count that time.
  void stop_all();
  void continue_all(std::chrono::nanoseconds stopped);

  struct Busy {
    Index task = no_task;
    std::chrono::nanoseconds since{};
  };
  [[nodiscard]] std::vector<Busy> busy() const;
  // Commits what has ended, and tells the listener. For the end of a run; wait() does it otherwise.
  void commit();
  // Whether the task waits for its locks, or for a file that another task edits.
  [[nodiscard]] bool is_claiming(Index task) const { return claims_.contains(task); }

  [[nodiscard]] std::chrono::nanoseconds now() override;
  bool claim(Index task) override;
  void unclaim(Index task) override;
  void start(Index task, unsigned attempt) override;
  void stop(Index task, StopReason reason) override;
  void delayed(Index task, std::chrono::nanoseconds delay) override;
  void ended(Index task, TaskEnd end) override;
  [[nodiscard]] std::optional<Report> wait(std::optional<std::chrono::nanoseconds> until) override;

 private:
  enum class Step : std::uint8_t { when, done, run, verify, pause };
  struct Slot {
    std::optional<FileEdits> edits;             // While `run` runs.
    std::optional<process::Guardian> guardian;  // None: it was killed, and has no successor yet.
    Index task = no_task;
    Step step = Step::run;
    bool ok = false;        // How the command of the step has exited, while its leftovers end.
    bool stopping = false;  // The attempt ends with this step.
    std::chrono::nanoseconds began{};
    std::chrono::nanoseconds verify_until{};
    std::chrono::nanoseconds next{};  // Of Step::pause, and when a question is given up.
    std::uint64_t question = 0;       // 0: no server is being asked.
    net::HttpClient::Id request = 0;  // Of the question.

    [[nodiscard]] bool asking() const noexcept { return question != 0; }
    // Nothing of it runs: it waits for a time or for a server.
    [[nodiscard]] bool idle() const noexcept { return asking() || step == Step::pause; }
  };
  struct Ended {
    Index task = no_task;
    TaskEnd end = TaskEnd::done;
    std::chrono::nanoseconds took{};
    std::string why;
  };
  // What a task has claimed, and who tells the loop of a loss.
  struct Claimed {
    std::vector<Hold> holds;
    std::deque<std::stop_callback<std::function<void()>>> when_lost;

    [[nodiscard]] bool lost() const;
  };
  struct Attempt {
    unsigned number = 0;
    std::chrono::nanoseconds began{};
    std::string why;
  };
  [[nodiscard]] const Task& task_of(const Slot& slot) const { return tasks_[slot.task].task; }
  [[nodiscard]] const std::optional<Check>& check_of(const Slot& slot) const;
  void advance(Slot& slot, std::optional<Step> step);
  std::optional<Step> after_step(Slot& slot);
  void launch(Slot& slot, const Invocation& what, std::optional<std::chrono::nanoseconds> limit);
  void ask(Slot& slot, const HttpCheck& what, std::chrono::nanoseconds limit);
  void stop_asking(Slot& slot);
  void on_answer(Slot& slot, const net::HttpResult& result);
  bool make_edits(Slot& slot);
  bool restore_edits(Slot& slot);
  [[nodiscard]] std::string directory_of(const Task& task) const;
  [[nodiscard]] std::vector<Claim> file_claims(const Task& task) const;
  std::nullopt_t finish(Slot& slot, Report::Kind kind);
  void fail(Slot& slot, std::string why);
  void on_event(Slot& slot, const process::Event& event);
  void on_exit(Slot& slot, const process::Event& event);
  void replace_guardian(Slot& slot);
  void take_answers();
  void take_claims(ClaimAnswer answer);
  void on_lost(Index task);
  [[nodiscard]] std::optional<Report> take_report();
  [[nodiscard]] int timeout_ms(std::optional<std::chrono::nanoseconds> until);
  void poll_once(std::optional<std::chrono::nanoseconds> until);
  void on_time(Slot& slot);

  std::vector<CommandTask> tasks_;
  std::vector<Slot> slots_;
  std::vector<Attempt> attempts_;  // By task.
  RunState& state_;
  CommandListener& listener_;
  Options options_;
  std::vector<Source> sources_;
  std::deque<Report> reports_;
  std::vector<Ended> untold_;  // Noted, but not committed.
  std::map<Index, Claimed> claimed_;
  std::map<Index, std::stop_source> claims_;
  std::shared_ptr<Answers> answers_;
  Space files_;  // The files that tasks of this run edit.
  std::uint64_t questions_ = 0;
  std::unique_ptr<net::HttpClient> http_;  // Made for the first question.
  std::chrono::nanoseconds stopped_{};     // How long this process was stopped, in all.
  std::chrono::nanoseconds period_{};
  std::chrono::nanoseconds next_tick_{};
  std::function<void()> tick_;
};

}  // namespace tenure::pipeline
