#include "pipeline/commands/command_runner.hpp"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <coroutine>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "base/boot_clock.hpp"
#include "process/process_tree.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

// A slot that runs something has a guardian, and a task with `locks` a locker.
// NOLINTBEGIN(bugprone-unchecked-optional-access)

namespace tenure::pipeline {

using process::Event;
using process::Guardian;

// Where grants arrive, on any thread; shared with the requests, which may outlive the runner.
struct CommandRunner::ClaimQueue {
  // NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
  struct Answer {
    Index task = no_task;
    std::optional<Hold> hold{};
    std::string error{};
  };
  // NOLINTEND(readability-redundant-member-init)
  ClaimQueue() : wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  void put(Answer answer) {
    const std::scoped_lock lock{mutex};
    answers.push_back(std::move(answer));
    const std::uint64_t one = 1;
    static_cast<void>(::write(wake.get(), &one, sizeof one));
  }
  std::vector<Answer> take() {
    const std::scoped_lock lock{mutex};
    std::uint64_t count = 0;
    static_cast<void>(::read(wake.get(), &count, sizeof count));
    return std::exchange(answers, {});
  }
  process::Descriptor wake;
  std::mutex mutex;
  std::vector<Answer> answers;

  struct Detached {
    struct promise_type {  // NOLINT(readability-identifier-naming): the standard's name.
      [[nodiscard]] static Detached get_return_object() noexcept { return {}; }
      [[nodiscard]] static std::suspend_never initial_suspend() noexcept { return {}; }
      [[nodiscard]] static std::suspend_never final_suspend() noexcept { return {}; }
      void return_void() const noexcept {}
      [[noreturn]] static void unhandled_exception() noexcept { std::terminate(); }
    };
  };
  // NOLINTNEXTLINE(readability-static-accessed-through-instance): the compiler does that.
  static Detached wait_for(std::shared_ptr<ClaimQueue> queue, Locker locker,
                           std::vector<Claim> claims, std::stop_token stop, Index task) {
    Answer answer{.task = task};
    try {
      Request request{claims};
      answer.hold = co_await locker.async_lock(std::move(request), std::move(stop));
    } catch (const std::exception& error) {
      answer.error = error.what();
    }
    queue->put(std::move(answer));
  }
};

namespace {

std::string text_of_status(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  const char* const name = ::sigabbrev_np(WTERMSIG(status));
  return fmt::format("killed by SIG{}", name == nullptr ? "?" : name);
}

std::string text_of_start(const Event& event) {
  constexpr std::array steps{"the process", "its directory", "its input",
                             "its output",  "its output",    "the program"};
  std::array<char, 256> buffer{};
  return fmt::format("cannot start: {}: {}", steps.at(static_cast<std::size_t>(event.step)),
                     ::strerror_r(event.value, buffer.data(), buffer.size()));
}

process::Command command_of(const Invocation& what) {
  if (what.shell) return process::Command::shell(what.words.front());
  return {.words = what.words};
}

}  // namespace

CommandRunner::CommandRunner(std::vector<CommandTask> tasks, std::vector<Guardian> guardians,
                             RunState& state, CommandListener& listener, Options options)
    : tasks_(std::move(tasks)),
      attempts_(tasks_.size()),
      state_(state),
      listener_(listener),
      options_(std::move(options)),
      claim_queue_(std::make_shared<ClaimQueue>()) {
  for (Guardian& guardian : guardians) slots_.emplace_back().guardian.emplace(std::move(guardian));
}

CommandRunner::~CommandRunner() {
  for (auto& [task, stop] : claims_) stop.request_stop();
}

void CommandRunner::every(std::chrono::nanoseconds period, std::function<void()> tick) {
  period_ = period;
  next_tick_ = now() + period;
  tick_ = std::move(tick);
}

std::chrono::nanoseconds CommandRunner::now() { return base::boot_time(); }

std::vector<CommandRunner::Busy> CommandRunner::busy() const {
  std::vector<Busy> out;
  for (const Slot& slot : slots_) {
    if (slot.task != no_task) {
      out.push_back({.task = slot.task, .since = attempts_[slot.task].began});
    }
  }
  return out;
}

// ---- Claims ----

bool CommandRunner::claim(Index task) {
  const std::vector<Claim>& locks = tasks_[task].task.locks;
  if (locks.empty()) return true;
  const std::stop_source& stop = claims_.insert_or_assign(task, std::stop_source{}).first->second;
  ClaimQueue::wait_for(claim_queue_, *options_.locker, locks, stop.get_token(), task);
  return false;
}

void CommandRunner::unclaim(Index task) {
  if (const auto at = claims_.find(task); at != claims_.end()) {
    at->second.request_stop();
    claims_.erase(at);
  }
  holds_.erase(task);
}

void CommandRunner::take_claims() {
  for (ClaimQueue::Answer& answer : claim_queue_->take()) {
    // Of a request that was taken back, a grant that came all the same is released here.
    if (claims_.erase(answer.task) == 0) continue;
    if (answer.hold) {
      holds_.emplace(answer.task, std::move(*answer.hold));
      reports_.push_back({.task = answer.task, .kind = Report::Kind::claimed});
    } else {
      attempts_[answer.task].why = "its locks cannot be granted: " + answer.error;
      reports_.push_back({.task = answer.task, .kind = Report::Kind::failed});
    }
  }
}

// ---- Steps of an attempt ----

void CommandRunner::start(Index task, unsigned attempt) {
  const auto free = std::ranges::find_if(
      slots_, [](const Slot& slot) { return slot.task == no_task && slot.guardian.has_value(); });
  attempts_[task] = {.number = attempt, .began = now(), .why = {}};
  if (free == slots_.end()) {
    attempts_[task].why = "no guardian is left to run it";
    reports_.push_back({.task = task, .kind = Report::Kind::failed});
    return;
  }
  const CommandTask& own = tasks_[task];
  free->task = task;
  free->stopping = false;
  free->began = attempts_[task].began;
  listener_.started(task, attempt);
  if (own.task.once && own.started_before && !own.task.done && attempt == 0) {
    fail(*free,
         "an earlier run started it, it may run only once, and it has no `done` check: see whether "
         "its work was done, and add the check");
    return;
  }
  state_.start(own.task.name, attempt, own.task.once);
  state_.commit();
  advance(*free, attempt == 0 ? Step::when : Step::run);
}

const std::optional<Check>& CommandRunner::check_of(const Slot& slot) const {
  const Task& task = task_of(slot);
  if (slot.step == Step::when) return task.when;
  return slot.step == Step::done ? task.done : task.verify;
}

// Launches the command of this step, or of the next one that has a command.
void CommandRunner::advance(Slot& slot, std::optional<Step> step) {
  for (; step; step = after_step(slot)) {
    slot.step = *step;
    if (slot.step == Step::run) {
      launch(slot, task_of(slot).run, std::nullopt);
      return;
    }
    if (const std::optional<Check>& check = check_of(slot)) {
      if (slot.step == Step::verify && slot.verify_until.count() == 0) {
        slot.verify_until = detail::saturating_add(now(), check->timeout);
      }
      launch(slot, std::get<Invocation>(check->what), check->timeout);
      return;
    }
    slot.ok = slot.step != Step::done;  // Without a check: applies, is not done, is right.
  }
}

void CommandRunner::launch(Slot& slot, const Invocation& what,
                           std::optional<std::chrono::nanoseconds> limit) {
  const Task& task = task_of(slot);
  process::Command command = command_of(what);
  command.directory = task.dir.empty() ? options_.directory : options_.directory + "/" + task.dir;
  for (const auto& [name, value] : task.env) {
    std::string variable = name;
    command.environment.push_back(std::move(variable.append("=").append(value)));
  }
  command.input = process::Target::null();
  command.output = process::Target::file(tasks_[slot.task].log);
  command.error = command.output;
  if (limit) command.kill_at = detail::saturating_add(now(), *limit);
  slot.ok = false;
  slot.guardian->launch(command);
}

// The command of the step has ended, and `slot.ok` says how. Nothing: so has the attempt, or it
// waits.
std::optional<CommandRunner::Step> CommandRunner::after_step(Slot& slot) {
  using enum Report::Kind;
  if (slot.stopping) return finish(slot, failed);
  switch (slot.step) {
    case Step::when: return slot.ok ? std::optional{Step::done} : finish(slot, skipped);
    case Step::done: return slot.ok ? finish(slot, done) : std::optional{Step::run};
    case Step::run:
      if (!slot.ok) return finish(slot, failed);
      slot.verify_until = {};
      return Step::verify;
    case Step::verify:
      if (slot.ok) return finish(slot, done);
      if (now() >= slot.verify_until) {
        attempts_[slot.task].why = "`verify` did not succeed in time";
        return finish(slot, failed);
      }
      slot.step = Step::pause;
      slot.next = std::min(detail::saturating_add(now(), check_of(slot)->every), slot.verify_until);
      return std::nullopt;
    case Step::pause: return Step::verify;
  }
  return std::nullopt;
}

void CommandRunner::fail(Slot& slot, std::string why) {
  attempts_[slot.task].why = std::move(why);
  finish(slot, Report::Kind::failed);
}

std::nullopt_t CommandRunner::finish(Slot& slot, Report::Kind kind) {
  holds_.erase(slot.task);
  reports_.push_back({.task = std::exchange(slot.task, no_task), .kind = kind});
  return std::nullopt;
}

void CommandRunner::stop(Index task, StopReason reason) {
  const auto slot = std::ranges::find(slots_, task, &Slot::task);
  if (slot == slots_.end()) return;
  if (!slot->stopping) {
    switch (reason) {
      case StopReason::timeout: attempts_[task].why = "timed out"; break;
      case StopReason::cancel: attempts_[task].why = "cancelled"; break;
      case StopReason::remove: attempts_[task].why = "removed"; break;
    }
  }
  slot->stopping = true;
  if (slot->step == Step::pause) {
    finish(*slot, Report::Kind::failed);
  } else if (slot->guardian) {
    slot->guardian->end(detail::saturating_add(now(), tasks_[task].task.grace));
  }
}

void CommandRunner::kill() {
  for (Slot& slot : slots_) {
    if (slot.task == no_task || !slot.guardian) continue;
    slot.stopping = true;
    slot.guardian->end(now());
  }
}

void CommandRunner::delayed(Index task, std::chrono::nanoseconds delay) {
  listener_.retries(task, delay, attempts_[task].why);
}

void CommandRunner::ended(Index task, TaskEnd end) {
  const Attempt& attempt = attempts_[task];
  const bool ran = attempt.began.count() != 0;
  const std::chrono::nanoseconds took = ran ? now() - attempt.began : std::chrono::nanoseconds{0};
  if (!tasks_[task].done_before) {
    state_.end(tasks_[task].task.name, end, attempt.number,
               ran ? std::chrono::duration_cast<std::chrono::milliseconds>(took)
                   : std::chrono::milliseconds{-1});
  }
  listener_.ended(task, end, took, attempt.why);
}

// ---- Events of guardians ----

void CommandRunner::on_event(Slot& slot, const Event& event) {
  switch (event.kind) {
    case Event::Kind::failed:
      if (slot.task == no_task) return;
      attempts_[slot.task].why = text_of_start(event);
      slot.ok = false;
      advance(slot, after_step(slot));
      break;
    case Event::Kind::exited: on_exit(slot, event); break;
    case Event::Kind::gone:
      if (slot.task != no_task) advance(slot, after_step(slot));
      break;
    case Event::Kind::guardian_dead: replace_guardian(slot); break;
    default: break;
  }
}

void CommandRunner::on_exit(Slot& slot, const Event& event) {
  if (slot.task == no_task) return;
  slot.ok = event.value == 0;
  if (!slot.ok && !slot.stopping) attempts_[slot.task].why = text_of_status(event.value);
  if (event.left) {
    slot.guardian->end(detail::saturating_add(now(), task_of(slot).grace));
  } else {
    advance(slot, after_step(slot));
  }
}

// The kernel has killed its command; what that started is ours now.
void CommandRunner::replace_guardian(Slot& slot) {
  slot.guardian.reset();
  std::vector<pid_t> kept;
  for (const Slot& other : slots_) {
    if (other.guardian) kept.push_back(other.guardian->pid());
  }
  process::end_orphans(kept);
  for (Slot& other : slots_) {
    if (slot.guardian || !other.guardian) continue;
    try {
      slot.guardian.emplace(other.guardian->successor());
    } catch (const std::system_error&) {
      continue;  // That one has died too; its own event follows.
    }
  }
  if (!slot.guardian) slot.guardian.emplace(Guardian::start());
  if (slot.task != no_task) fail(slot, "its guardian was killed");
}

// ---- Waiting ----

std::optional<Runner::Report> CommandRunner::take_report() {
  if (reports_.empty()) return std::nullopt;
  const Report report = reports_.front();
  reports_.pop_front();
  return report;
}

int CommandRunner::timeout_ms(std::optional<std::chrono::nanoseconds> until) {
  for (const Slot& slot : slots_) {
    if (slot.task != no_task && slot.step == Step::pause)
      until = std::min(until.value_or(slot.next), slot.next);
  }
  if (tick_) until = std::min(until.value_or(next_tick_), next_tick_);
  if (!until) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void CommandRunner::poll_once(std::optional<std::chrono::nanoseconds> until) {
  std::vector<pollfd> waits{process::readable(claim_queue_->wake.get())};
  for (const Slot& slot : slots_) {
    waits.push_back(process::readable(slot.guardian ? slot.guardian->descriptor() : -1));
  }
  for (const Source& source : sources_) waits.push_back(process::readable(source.descriptor));
  if (::poll(waits.data(), waits.size(), timeout_ms(until)) < 0) return;
  if (waits[0].revents != 0) take_claims();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (waits[i + 1].revents == 0 || !slots_[i].guardian) continue;
    if (const std::optional<Event> event = slots_[i].guardian->next()) on_event(slots_[i], *event);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (waits[i + 1 + slots_.size()].revents != 0) sources_[i].ready();
  }
}

std::optional<Runner::Report> CommandRunner::wait(std::optional<std::chrono::nanoseconds> until) {
  if (!reports_.empty()) return take_report();
  state_.commit();
  poll_once(until);
  for (Slot& slot : slots_) {
    if (slot.task == no_task || slot.step != Step::pause || now() < slot.next) continue;
    advance(slot, after_step(slot));
  }
  if (tick_ && now() >= next_tick_) {
    next_tick_ = now() + period_;
    tick_();
  }
  return take_report();
}

}  // namespace tenure::pipeline

// NOLINTEND(bugprone-unchecked-optional-access)
