// What happens while commands run: events of guardians, answers, times, and the wait for them.
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <expected>
#include <system_error>
#include <utility>

#include "base/boot_clock.hpp"
#include "pipeline/commands/command_runner.hpp"
#include "process/process_tree.hpp"
#include "tenure/detail/saturating.hpp"

// A slot that runs something has a guardian, and a task that edits something a session.
// NOLINTBEGIN(bugprone-unchecked-optional-access)

namespace tenure::pipeline {
using process::Event;
using process::Guardian;

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

}  // namespace

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
    slot.guardian->end(detail::saturating_add(base::boot_time(), task_of(slot).grace));
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
    if (slot.task != no_task && slot.idle()) {
      until = std::min(until.value_or(slot.next), slot.next);
    }
  }
  if (tick_) until = std::min(until.value_or(next_tick_), next_tick_);
  if (!until) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void CommandRunner::poll_once(std::optional<std::chrono::nanoseconds> until) {
  std::vector<pollfd> waits{process::readable(answers_->descriptor())};
  for (const Slot& slot : slots_) {
    waits.push_back(process::readable(slot.guardian ? slot.guardian->descriptor() : -1));
  }
  for (const Source& source : sources_) waits.push_back(process::readable(source.descriptor()));
  if (::poll(waits.data(), waits.size(), timeout_ms(until)) < 0) return;
  if (waits[0].revents != 0) take_answers();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (waits[i + 1].revents == 0 || !slots_[i].guardian) continue;
    if (const std::optional<Event> event = slots_[i].guardian->next()) on_event(slots_[i], *event);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (waits[i + 1 + slots_.size()].revents != 0) sources_[i].ready();
  }
}

void CommandRunner::on_time(Slot& slot) {
  if (!slot.asking()) {
    advance(slot, after_step(slot));
    return;
  }
  stop_asking(slot);
  const auto& what = std::get<HttpCheck>(check_of(slot)->what);
  on_answer(slot, std::unexpected(net::HttpError{.kind = net::HttpError::Kind::timeout,
                                                 .message = what.url + " did not answer in time"}));
}

std::optional<Runner::Report> CommandRunner::wait(std::optional<std::chrono::nanoseconds> until) {
  if (!reports_.empty()) return take_report();
  commit();
  poll_once(until);
  for (Slot& slot : slots_) {
    if (slot.task != no_task && slot.idle() && now() >= slot.next) on_time(slot);
  }
  if (tick_ && now() >= next_tick_) {
    next_tick_ = now() + period_;
    tick_();
  }
  return take_report();
}

}  // namespace tenure::pipeline

// NOLINTEND(bugprone-unchecked-optional-access)
