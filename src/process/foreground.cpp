#include "process/foreground.hpp"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>

#include "process/process_tree.hpp"
#include "process/saved_terminal.hpp"

namespace tenure::process {
namespace {

// How long processes that were sent SIGKILL may take to end. Longer, and they are left.
constexpr base::BootTime patience = std::chrono::seconds{10};
constexpr int look_ms = 1000;  // At the clock, while they are awaited.

}  // namespace

Outcome Foreground::run(const Command& command, int end_request, const OnEnd& on_end) {
  outcome_ = {};
  give_up_.reset();
  over_ = false;
  in_our_group_ = command.group == Group::owner;
  SavedTerminal terminal{
      Descriptor{in_our_group_ ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : -1}};
  guardian_.launch(command);
  while (!over_) {
    step(end_request, on_end);
    if (!over_ && give_up_ && base::boot_time() > *give_up_) outcome_.survivors = over_ = true;
  }
  const bool killed = outcome_.status && WIFSIGNALED(*outcome_.status);
  if (outcome_.was_ended || outcome_.guardian_died || killed) {
    terminal.note_settings(::getpgrp());
    terminal.restore();
  }
  return outcome_;
}

void Foreground::step(int end_request, const OnEnd& on_end) {
  std::array waits{readable(signals_.descriptor()), readable(guardian_.descriptor()),
                   readable(outcome_.was_ended ? -1 : end_request),
                   readable(outcome_.was_ended ? -1 : notice_)};
  ::poll(waits.data(), waits.size(), give_up_ ? look_ms : -1);
  // First: a command that has ended by itself in the same moment was not ended.
  if (waits[1].revents != 0) {
    if (const std::optional<Event> event = guardian_.next()) on_event(*event, on_end);
  }
  if (!over_ && waits[2].revents != 0) end(on_end);
  if (!over_ && !outcome_.was_ended && waits[3].revents != 0) {
    notice_ = -1;
    guardian_.signal(notice_signal_(), stop_);
  }
  if (waits[0].revents != 0) {
    if (const std::optional<Arrived> signal = signals_.next()) on_signal(*signal);
  }
}

void Foreground::on_signal(const Arrived& signal) {
  if (in_our_group_ && signal.from_terminal) return;  // The command has it already.
  // The guardian continues this process after the command, which may have been stopped once more
  // since: that signal is not for the new stop.
  if (signal.number == SIGCONT && (stop_ == 0 || signal.sender == guardian_.pid())) return;
  guardian_.signal(signal.number, stop_);
}

void Foreground::on_event(const Event& event, const OnEnd& on_end) {
  switch (event.kind) {
    case Event::Kind::started: break;
    case Event::Kind::failed:
      outcome_.failed = event.value;
      over_ = true;
      break;
    case Event::Kind::stopped: stop_ = event.value; break;
    case Event::Kind::continued: stop_ = 0; break;
    case Event::Kind::exited:
      outcome_.status = event.value;
      over_ = !(outcome_.was_ended && event.left);
      break;
    case Event::Kind::overdue: end(on_end); break;
    case Event::Kind::gone: over_ = true; break;
    case Event::Kind::guardian_dead: on_guardian_dead(); break;
  }
}

void Foreground::end(const OnEnd& on_end) {
  if (outcome_.was_ended) return;
  outcome_.was_ended = true;
  const base::BootTime kill_at = on_end();
  give_up_ = std::max(kill_at, base::boot_time()) + patience;
  guardian_.end(kill_at);
}

// The kernel has killed the command, and what it started is ours now.
void Foreground::on_guardian_dead() {
  outcome_.guardian_died = true;
  end_orphans({});
  over_ = true;
}

}  // namespace tenure::process
