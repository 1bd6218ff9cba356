#include "supervisor.hpp"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <stop_token>
#include <system_error>

#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"
#include "terminal.hpp"

namespace tenure::cli {
namespace {

using namespace std::chrono_literals;

// Between SIGTERM and SIGKILL, if the deadline allows it.
constexpr base::BootTime grace = 5s;
// The same without a deadline: the space may have granted the lock to the next holder already.
constexpr base::BootTime short_grace = 1s;
// The kernel takes a moment to end a killed process, and a busy machine is late.
constexpr base::BootTime reserve = 250ms;

int exit_status_of(const process::Outcome& outcome) {
  if (!outcome.status) return exit_signal + SIGKILL;
  const int status = *outcome.status;
  return WIFSIGNALED(status) ? exit_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

std::optional<base::BootTime> Supervisor::deadline() const {
  try {
    const std::optional<Instant> until = hold_.deadline();
    if (!until) return std::nullopt;
    return detail::saturating_add(base::boot_time(), detail::saturating_sub(*until, store_.now()));
  } catch (const Error&) {  // A store that does not answer has not confirmed a deadline.
    return std::nullopt;
  }
}

int Supervisor::run(process::Command command) {
  known_deadline_ = deadline();
  if (known_deadline_) command.kill_at = detail::saturating_sub(*known_deadline_, reserve);
  const process::Descriptor lost{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const process::Descriptor asked{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (lost.get() < 0 || asked.get() < 0) process::fail_system("eventfd");
  const auto raise = [](const process::Descriptor& event) {
    return [&event] {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(event.get(), &one, sizeof one);
    };
  };
  const std::stop_callback when_lost{hold_.lost(), raise(lost)};
  const std::stop_callback when_asked{on_ask_ != 0 ? hold_.asked_to_leave() : std::stop_token{},
                                      raise(asked)};
  process::Foreground foreground{guardian_, signals_};
  foreground.on_readable(asked.get(), [this] {
    fmt::print(stderr, "tenure: somebody asked for the lock: sending the command a signal\n");
    return on_ask_;
  });
  const process::Outcome outcome =
      foreground.run(command, lost.get(), [this] { return on_lost(); });
  const std::string name = printable(command.words.front());
  if (outcome.failed) {
    fmt::print(stderr, "tenure: {}: {}\n", name, std::generic_category().message(*outcome.failed));
    return *outcome.failed == ENOENT ? exit_not_found : exit_not_executable;
  }
  if (outcome.guardian_died) {
    fmt::print(stderr,
               "tenure: the guardian that supervises the command was killed: ended the command\n");
  }
  if (outcome.survivors) {
    fmt::print(stderr, "tenure: some processes that '{}' started did not end after SIGKILL\n",
               name);
  }
  lost_ = outcome.was_ended;
  return lost_ ? exit_lost : exit_status_of(outcome);
}

base::BootTime Supervisor::on_lost() const {
  fmt::print(stderr, "tenure: the lock was lost: ending the command\n");
  const std::optional<base::BootTime> until = deadline();
  const std::optional<base::BootTime> last = until ? until : known_deadline_;
  const base::BootTime now = base::boot_time();
  return last ? std::min(now + grace, detail::saturating_sub(*last, reserve)) : now + short_grace;
}

}  // namespace tenure::cli
