// The steps of one attempt: commands, questions to servers, edits of files.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/boot_clock.hpp"
#include "pipeline/commands/command_runner.hpp"
#include "tenure/detail/saturating.hpp"

// A slot that runs something has a guardian, and a task that edits something a session.
// NOLINTBEGIN(bugprone-unchecked-optional-access)

namespace tenure::pipeline {
namespace {

constexpr std::chrono::seconds last_moment{1};

process::Command command_of(const Invocation& what) {
  if (what.shell) return process::Command::shell(what.words.front());
  return {.words = what.words};
}

}  // namespace

const std::optional<Check>& CommandRunner::check_of(const Slot& slot) const {
  const Task& task = task_of(slot);
  if (slot.step == Step::when) return task.when;
  return slot.step == Step::done ? task.done : task.verify;
}

// Launches the command of this step, or of the next one that has a command.
void CommandRunner::advance(Slot& slot, std::optional<Step> step) {
  for (; step; step = after_step(slot)) {
    slot.step = *step;
    attempts_[slot.task].why.clear();
    if (slot.step == Step::run) {
      if (make_edits(slot)) launch(slot, task_of(slot).run, std::nullopt);
      return;
    }
    if (const std::optional<Check>& check = check_of(slot)) {
      std::chrono::nanoseconds limit = check->timeout;
      if (slot.step == Step::verify) {
        if (slot.verify_until.count() == 0) {
          slot.verify_until = detail::saturating_add(now(), check->timeout);
        }
        // The last question, asked when the time is over, gets a moment too.
        limit = std::max<std::chrono::nanoseconds>(slot.verify_until - now(), last_moment);
      }
      if (const auto* const http = std::get_if<HttpCheck>(&check->what)) {
        ask(slot, *http, limit);
      } else {
        launch(slot, std::get<Invocation>(check->what), limit);
      }
      return;
    }
    slot.ok = slot.step != Step::done;  // Without a check: applies, is not done, is right.
  }
}

std::string CommandRunner::directory_of(const Task& task) const {
  return task.dir.empty() ? options_.directory : options_.directory + "/" + task.dir;
}

void CommandRunner::launch(Slot& slot, const Invocation& what,
                           std::optional<std::chrono::nanoseconds> limit) {
  const Task& task = task_of(slot);
  process::Command command = command_of(what);
  command.directory = directory_of(task);
  for (const auto& [name, value] : task.env) {
    std::string variable = name;
    command.environment.push_back(std::move(variable.append("=").append(value)));
  }
  command.input = process::Target::null();
  command.output = process::Target::file(tasks_[slot.task].log);
  command.error = command.output;
  if (limit) command.kill_at = detail::saturating_add(base::boot_time(), *limit);
  slot.ok = false;
  slot.guardian->launch(command);
}

void CommandRunner::ask(Slot& slot, const HttpCheck& what, std::chrono::nanoseconds limit) {
  if (http_ == nullptr) http_ = std::make_unique<net::HttpClient>();
  slot.ok = false;
  slot.question = ++questions_;
  slot.next = detail::saturating_add(now(), limit);
  net::HttpRequest request{.url = what.url, .ignore_body = true};
  request.timeout = std::min(request.timeout, limit);
  slot.request = http_->start(
      std::move(request), [answers = answers_, question = slot.question](net::HttpResult result) {
        answers->put(HttpAnswer{.question = question, .result = std::move(result)});
      });
}

void CommandRunner::stop_asking(Slot& slot) {
  if (slot.asking()) http_->cancel(slot.request);
  slot.question = 0;
}

void CommandRunner::on_answer(Slot& slot, const net::HttpResult& result) {
  slot.question = 0;
  const auto& what = std::get<HttpCheck>(check_of(slot)->what);
  slot.ok = result && result->status == what.status;
  // A server that cannot answer has not said no.
  const bool unknown = !result || result->status == 429 || result->status >= 500;
  if (!slot.ok) {
    attempts_[slot.task].why =
        result ? fmt::format("{} answered {}", what.url, result->status) : result.error().message;
  }
  if (!slot.ok && unknown && slot.step != Step::verify && !slot.stopping) {
    fail(slot, fmt::format("`{}` has no answer: {}", slot.step == Step::when ? "when" : "done",
                           attempts_[slot.task].why));
    return;
  }
  advance(slot, after_step(slot));
}

// False: they were refused, and the attempt has failed.
bool CommandRunner::make_edits(Slot& slot) {
  const Task& task = task_of(slot);
  if (task.edits.empty()) return true;
  try {
    slot.edits.emplace(*options_.edits, task.edits, directory_of(task));
    return true;
  } catch (const EditError& error) {
    fail(slot, error.what());
    return false;
  }
}

// False: at least one file is not what it was. The reason is that of the attempt then.
bool CommandRunner::restore_edits(Slot& slot) {
  if (!slot.edits) return true;
  std::string wrong;
  for (const EditReport& report : slot.edits->restore()) {
    if (report.outcome == EditReport::Outcome::restored) continue;
    if (report.outcome == EditReport::Outcome::copied) continue;
    wrong += (wrong.empty() ? "" : "; ") + report.message;
  }
  slot.edits.reset();
  if (wrong.empty()) return true;
  std::string& why = attempts_[slot.task].why;
  why += (why.empty() ? "" : "; ") + wrong;
  return false;
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
      if (!slot.ok || !restore_edits(slot)) return finish(slot, failed);
      slot.verify_until = {};
      return Step::verify;
    case Step::verify:
      if (slot.ok) return finish(slot, done);
      if (now() >= slot.verify_until) {
        std::string& why = attempts_[slot.task].why;
        why = "`verify` did not succeed in time" + (why.empty() ? "" : ": " + why);
        return finish(slot, failed);
      }
      slot.step = Step::pause;
      slot.next = std::min(detail::saturating_add(now(), check_of(slot)->every), slot.verify_until);
      return std::nullopt;
    case Step::pause: return Step::verify;
  }
  return std::nullopt;
}

}  // namespace tenure::pipeline

// NOLINTEND(bugprone-unchecked-optional-access)
