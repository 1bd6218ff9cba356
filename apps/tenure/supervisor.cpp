#include "supervisor.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <stop_token>
#include <system_error>

#include "exit_status.hpp"
#include "family.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using namespace std::chrono_literals;

// Between SIGTERM and SIGKILL, where the deadline allows it.
constexpr BootTime grace = 5s;
// The same where there is no deadline to go by: the space may have passed the lock on already.
constexpr BootTime short_grace = 1s;
// A killed process takes the kernel a moment to take apart, and a busy machine is late.
constexpr BootTime reserve = 250ms;
// What can't be ended in this time after SIGKILL is told, and left.
constexpr BootTime patience = 10s;

}  // namespace

Supervisor::Supervisor(Minder& minder, const Signals& signals, Store& store, Hold& hold,
                       bool in_our_group)
    : minder_(minder),
      signals_(signals),
      store_(store),
      hold_(hold),
      in_our_group_(in_our_group),
      lost_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (lost_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  termios settings{};
  if (in_our_group && ::tcgetattr(STDIN_FILENO, &settings) == 0) terminal_ = settings;
}

std::optional<BootTime> Supervisor::deadline() const {
  try {
    const std::optional<Instant> until = hold_.deadline();
    if (!until) return std::nullopt;
    return detail::saturating_add(boot_time(), detail::saturating_sub(*until, store_.now()));
  } catch (const Error&) {  // A store that can't be asked has not told us any.
    return std::nullopt;
  }
}

int Supervisor::run(int session, const std::string& command) {
  known_deadline_ = deadline();
  std::optional<BootTime> kill_at;
  if (known_deadline_) kill_at = detail::saturating_sub(*known_deadline_, reserve);
  const std::stop_callback when_lost{hold_.lost(), [this] {
                                       const std::uint64_t one = 1;
                                       [[maybe_unused]] const ssize_t written =
                                           ::write(lost_.get(), &one, sizeof one);
                                     }};
  minder_.launch(hold_.token(), session, kill_at);
  while (!over_) {
    step();
    if (!over_ && give_up_ && boot_time() > *give_up_) {
      fmt::print(stderr, "tenure: some processes that '{}' started did not end after SIGKILL\n",
                 printable(command));
      over_ = true;
    }
  }
  if (failed_) {
    fmt::print(stderr, "tenure: {}: {}\n", printable(command),
               std::generic_category().message(*failed_));
    return *failed_ == ENOENT ? exit_not_found : exit_not_executable;
  }
  if (is_lost_) restore_terminal();
  return is_lost_ ? exit_lost : status_of_end();
}

void Supervisor::step() {
  std::array waits{readable(signals_.descriptor()), readable(minder_.descriptor()),
                   readable(lost_.get())};
  ::poll(waits.data(), waits.size(), is_lost_ ? 1000 : -1);
  // What has ended by itself in the same moment has ended by itself.
  if (waits[1].revents != 0) {
    if (const std::optional<MinderReport> report = minder_.next()) on_report(*report);
  }
  if (!over_ && !is_lost_ && waits[2].revents != 0) on_lost();
  if (waits[0].revents != 0) {
    if (const std::optional<Arrived> signal = signals_.next()) on_signal(*signal);
  }
}

void Supervisor::on_signal(const Arrived& signal) {
  if (in_our_group_ && signal.from_terminal) return;  // It has it already.
  if (signal.number == SIGCONT && stop_ == 0) return;
  minder_.signal(signal.number, stop_);
}

void Supervisor::on_report(const MinderReport& report) {
  using Kind = MinderReport::Kind;
  switch (report.kind) {
    case Kind::started: command_ = report.value; break;
    case Kind::failed:
      failed_ = report.value;
      over_ = true;
      break;
    case Kind::stopped: stop_ = report.value; break;
    case Kind::continued: stop_ = 0; break;
    case Kind::ended:
      status_ = report.value;
      over_ = !is_lost_;
      break;
    case Kind::overdue: lose(boot_time()); break;
    case Kind::gone: over_ = true; break;
    case Kind::minder_dead: on_minder_dead(); break;
  }
}

void Supervisor::on_lost() {
  const std::optional<BootTime> until = deadline();
  const std::optional<BootTime> last = until ? until : known_deadline_;
  const BootTime now = boot_time();
  lose(last ? std::min(now + grace, detail::saturating_sub(*last, reserve)) : now + short_grace);
}

void Supervisor::lose(BootTime kill_at) {
  if (is_lost_) return;
  is_lost_ = true;
  give_up_ = boot_time() + grace + patience;
  fmt::print(stderr, "tenure: the lock was lost: ending the command\n");
  minder_.end(kill_at);
}

// The kernel has killed the command, and what it started is ours now.
void Supervisor::on_minder_dead() {
  fmt::print(stderr,
             "tenure: the process that supervises the command was killed: ending the command\n");
  for (;;) {
    signal_family(SIGKILL, in_our_group_ ? 0 : command_);
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == command_) status_ = status;
    }
    if (pid < 0) break;
    ::poll(nullptr, 0, 10);
  }
  over_ = true;
}

void Supervisor::restore_terminal() const {
  if (terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*terminal_);
}

int Supervisor::status_of_end() const {
  if (!status_) return exit_signal + SIGKILL;
  return WIFSIGNALED(*status_) ? exit_signal + WTERMSIG(*status_) : WEXITSTATUS(*status_);
}

}  // namespace tenure::cli
