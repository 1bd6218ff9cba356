#include "process/signals.hpp"

#include <pthread.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace tenure::process {
namespace {

// Not to be passed on: what can't be caught, what says that this very process is broken, and what
// is about its own children and pipes.
constexpr std::array own{SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                         SIGTRAP, SIGSYS,  SIGABRT, SIGCHLD, SIGPIPE};

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals Signals::block() {
  Signals signals;
  sigset_t taken{};
  ::sigemptyset(&taken);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (std::ranges::find(own, signal) == own.end() && !is_ignored(signal)) {
      ::sigaddset(&taken, signal);
    }
  }
  sigset_t blocked = taken;
  ::sigaddset(&blocked, SIGPIPE);  // A reader of our messages that went away is no reason to end.
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &blocked, &signals.original_); error != 0) {
    throw std::system_error(error, std::generic_category(), "pthread_sigmask");
  }
  signals.reader_ = Descriptor{::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (signals.reader_.get() < 0) {
    throw std::system_error(errno, std::generic_category(), "signalfd");
  }
  return signals;
}

Signals::Unblocked::Unblocked(const Signals& signals) {
  sigset_t mask = signals.original_;
  ::sigaddset(&mask, SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &mask, &blocked_);
}

Signals::Unblocked::~Unblocked() { ::pthread_sigmask(SIG_SETMASK, &blocked_, nullptr); }

std::optional<Arrived> Signals::next() const {
  signalfd_siginfo info{};
  if (::read(reader_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return Arrived{.number = static_cast<int>(info.ssi_signo),
                 .from_terminal = info.ssi_code == SI_KERNEL,
                 .sender = static_cast<pid_t>(info.ssi_pid)};
}

bool ends_by_default(int signal) noexcept {
  constexpr std::array others{SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH, SIGURG, SIGCHLD};
  return std::ranges::find(others, signal) == others.end();
}

}  // namespace tenure::process
