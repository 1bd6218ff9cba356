#include "pipeline/commands/command_runner.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/boot_clock.hpp"
#include "tenure/detail/saturating.hpp"

// A slot that runs something has a guardian, and a task with `locks` a locker.
// NOLINTBEGIN(bugprone-unchecked-optional-access)

namespace tenure::pipeline {

using process::Guardian;

namespace {

constexpr const char* text_of_loss = "one of its locks was lost";
// Between SIGTERM and SIGKILL after that: somebody else waits for the lock.
constexpr std::chrono::seconds grace_of_loss{1};

}  // namespace

CommandRunner::CommandRunner(std::vector<CommandTask> tasks, std::vector<Guardian> guardians,
                             RunState& state, CommandListener& listener, Options options)
    : tasks_(std::move(tasks)),
      attempts_(tasks_.size()),
      state_(state),
      listener_(listener),
      options_(std::move(options)),
      answers_(std::make_shared<Answers>()),
      files_(tenure::open("local:")) {
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

std::chrono::nanoseconds CommandRunner::now() { return base::boot_time() - stopped_; }

std::vector<CommandRunner::Busy> CommandRunner::busy() const {
  std::vector<Busy> out;
  for (const Slot& slot : slots_) {
    if (slot.task != no_task) {
      out.push_back({.task = slot.task, .since = attempts_[slot.task].began});
    }
  }
  return out;
}

void CommandRunner::commit() {
  state_.commit();
  for (const Ended& one : std::exchange(untold_, {})) {
    listener_.ended(one.task, one.end, one.took, one.why);
  }
}

// ---- Claims ----

bool CommandRunner::claim(Index task) {
  const Task& own = tasks_[task].task;
  std::vector<ClaimSet> sets;
  if (!own.locks.empty()) sets.push_back({.locker = *options_.locker, .claims = own.locks});
  if (std::vector<Claim> files = file_claims(own); !files.empty()) {
    sets.push_back({.locker = files_, .claims = std::move(files)});
  }
  if (sets.empty()) return true;
  const std::stop_source& stop = claims_.insert_or_assign(task, std::stop_source{}).first->second;
  ask_for_claims(answers_, std::move(sets), stop.get_token(), task);
  return false;
}

void CommandRunner::unclaim(Index task) {
  if (const auto at = claims_.find(task); at != claims_.end()) {
    at->second.request_stop();
    claims_.erase(at);
  }
  claimed_.erase(task);
}

void CommandRunner::take_claims(ClaimAnswer answer) {
  // Of a request that was taken back, grants that came all the same are released here.
  if (claims_.erase(answer.task) == 0) return;
  if (answer.error.empty()) {
    Claimed& own = claimed_[answer.task];
    own.holds = std::move(answer.holds);
    for (const Hold& hold : own.holds) {
      own.when_lost.emplace_back(
          hold.lost(), [answers = answers_, task = answer.task] { answers->put_lost(task); });
    }
    reports_.push_back({.task = answer.task, .kind = Report::Kind::claimed});
  } else {
    attempts_[answer.task].why = "its locks cannot be granted: " + answer.error;
    reports_.push_back({.task = answer.task, .kind = Report::Kind::failed});
  }
}

bool CommandRunner::Claimed::lost() const {
  return std::ranges::any_of(holds, [](const Hold& hold) { return hold.lost().stop_requested(); });
}

void CommandRunner::on_lost(Index task) {
  const auto claimed = claimed_.find(task);
  // Not so: the loss was one of an attempt before this one.
  if (claimed == claimed_.end() || !claimed->second.lost()) return;
  stop(task, StopReason::lost);
}

void CommandRunner::take_answers() {
  Answers::Taken taken = answers_->take();
  for (const Index task : taken.lost) on_lost(task);
  for (ClaimAnswer& answer : taken.claims) take_claims(std::move(answer));
  for (const HttpAnswer& answer : taken.http) {
    // An answer that nobody waits for any more has no slot.
    const auto slot = std::ranges::find(slots_, answer.question, &Slot::question);
    if (slot != slots_.end()) on_answer(*slot, answer.result);
  }
}

// A file has two names here: its path, and its inode. The path alone is not enough for a hard link,
// nor the inode for a file that has been edited since.
std::vector<Claim> CommandRunner::file_claims(const Task& task) const {
  std::vector<Claim> claims;
  const auto add = [&](const Path& path) {
    if (std::ranges::find(claims, path, &Claim::path) == claims.end()) claims.emplace_back(path);
  };
  for (const Edit& edit : task.edits) {
    std::error_code error;
    const auto file =
        std::filesystem::canonical(std::filesystem::path{directory_of(task)} / edit.file, error);
    struct stat status{};
    // The attempt says what is wrong with a file that is not there.
    if (error || ::stat(file.c_str(), &status) != 0) continue;
    add(Path::of("path", std::hash<std::string>{}(file.string())));
    add(Path::of("inode", static_cast<std::uint64_t>(status.st_dev),
                 static_cast<std::uint64_t>(status.st_ino)));
  }
  return claims;
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
  const bool repeated = own.task.once && own.started_before && !own.task.done && attempt == 0;
  if (!repeated) state_.start(own.task.name, attempt, own.task.once);
  commit();
  listener_.started(task, attempt);
  if (repeated) {
    fail(*free,
         "an earlier run started it, it may run only once, and it has no `done` check: see whether "
         "its work was done, and add the check");
    return;
  }
  if (const auto claimed = claimed_.find(task);
      claimed != claimed_.end() && claimed->second.lost()) {
    fail(*free, text_of_loss);
    return;
  }
  advance(*free, Step::when);
}

void CommandRunner::fail(Slot& slot, std::string why) {
  attempts_[slot.task].why = std::move(why);
  finish(slot, Report::Kind::failed);
}

std::nullopt_t CommandRunner::finish(Slot& slot, Report::Kind kind) {
  if (!restore_edits(slot) && kind == Report::Kind::done) kind = Report::Kind::failed;
  stop_asking(slot);
  claimed_.erase(slot.task);
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
      case StopReason::lost: attempts_[task].why = text_of_loss; break;
    }
  }
  slot->stopping = true;
  if (slot->idle()) {
    finish(*slot, Report::Kind::failed);
  } else if (slot->guardian) {
    std::chrono::nanoseconds grace = tasks_[task].task.grace;
    if (reason == StopReason::lost)
      grace = std::min<std::chrono::nanoseconds>(grace, grace_of_loss);
    slot->guardian->end(detail::saturating_add(base::boot_time(), grace));
  }
}

void CommandRunner::kill() {
  for (Slot& slot : slots_) {
    if (slot.task == no_task || !slot.guardian) continue;
    slot.stopping = true;
    if (slot.idle()) {
      finish(slot, Report::Kind::failed);
    } else {
      slot.guardian->end(base::boot_time());
    }
  }
}

void CommandRunner::stop_all() {
  for (Slot& slot : slots_) {
    if (slot.guardian) slot.guardian->stop();
  }
}

void CommandRunner::continue_all(std::chrono::nanoseconds stopped) {
  stopped_ += stopped;
  for (Slot& slot : slots_) {
    if (slot.guardian) slot.guardian->resume();
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
  untold_.push_back({.task = task, .end = end, .took = took, .why = attempt.why});
}

}  // namespace tenure::pipeline

// NOLINTEND(bugprone-unchecked-optional-access)
