// The minder's side: see minder.hpp.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "family.hpp"
#include "minder_orders.hpp"

namespace tenure::cli {
namespace {

// Scripts use small numbers for files of their own; closing ours by accident would free the lock.
constexpr int first_session_number = 64;
constexpr int retry_ms = 10;  // Between looks at a family that is being killed.

class Minding {
 public:
  Minding(const MinderPlan& plan, Descriptor wrapper);
  int run();

 private:
  enum class Next : std::uint8_t { go_on, leave, kill };

  [[nodiscard]] Next obey();
  void launch(const MinderOrder& order);
  void pass_on(const MinderOrder& order);
  [[noreturn]] void become_command(Token token, int failure);
  void let_go_of_files();
  void set_timer(std::int64_t kill_at);
  void time_is_up();
  // The wrapper stops with the command, so that a shell sees it, and goes on with it. One process
  // sends both, so the last one counts.
  void tell_wrapper(int signal) const;
  // False when there is no child left.
  bool reap();
  void report(MinderReport::Kind kind, std::int32_t value) const;
  void kill_all();

  const MinderPlan& plan_;
  pid_t self_ = ::getpid();
  pid_t wrapper_pid_ = ::getppid();
  pid_t wrapper_group_ = ::getpgrp();
  Descriptor wrapper_;
  Descriptor children_;
  Descriptor timer_;
  Descriptor session_;
  pid_t command_ = 0;       // 0: not started, or reaped.
  pid_t group_ = 0;         // Of the command's own; 0 when it is in the wrapper's.
  std::int32_t stops_ = 0;  // So far.
  std::int32_t stop_ = 0;   // Which one it is in; 0: none.
  bool stop_ordered_ = false;
  bool wrapper_stopped_ = false;
  bool ending_ = false;
  bool killing_ = false;
};

Minding::Minding(const MinderPlan& plan, Descriptor wrapper)
    : plan_(plan), wrapper_(std::move(wrapper)) {
  sigset_t all{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  sigset_t child{};
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  children_ = Descriptor{::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)};
  timer_ = Descriptor{::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
  // No session of its own: the command could not return to the wrapper's group then.
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "tenure-minder", 0, 0, 0);
  adopt_orphans();
}

int Minding::run() {
  for (;;) {
    std::array waits{readable(wrapper_.get()), readable(children_.get()), readable(timer_.get())};
    ::poll(waits.data(), waits.size(), killing_ ? retry_ms : -1);
    if (waits[2].revents != 0) time_is_up();
    if (killing_) signal_family(SIGKILL, group_);
    signalfd_siginfo info{};
    while (::read(children_.get(), &info, sizeof info) > 0) {
    }
    const bool some_left = reap();
    if (ending_ && !some_left) {
      report(MinderReport::Kind::gone, 0);
      ending_ = killing_ = false;
    }
    if (waits[0].revents == 0) continue;
    switch (obey()) {
      case Next::go_on: break;
      case Next::leave: return 0;
      case Next::kill: kill_all(); return 0;
    }
  }
}

Minding::Next Minding::obey() {
  MinderOrder order;
  iovec part{.iov_base = &order, .iov_len = sizeof order};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(wrapper_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return Next::go_on;
  if (size != static_cast<ssize_t>(sizeof order)) return Next::kill;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof number);
    session_ = Descriptor{number};
  }
  switch (order.kind) {
    case MinderOrder::Kind::launch: launch(order); break;
    case MinderOrder::Kind::signal: pass_on(order); break;
    case MinderOrder::Kind::end:
      ending_ = true;
      signal_family(SIGTERM, group_);
      set_timer(order.kill_at);
      break;
    case MinderOrder::Kind::leave: return Next::leave;
  }
  return Next::go_on;
}

void Minding::pass_on(const MinderOrder& order) {
  const int signal = order.signal;
  if (signal == SIGCONT && order.stop != stop_) return;
  if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) stop_ordered_ = true;
  if (signal == SIGCONT) stop_ordered_ = false;
  if (command_ != 0) ::kill(group_ != 0 ? -group_ : command_, signal);
}

void Minding::launch(const MinderOrder& order) {
  if (session_.get() >= 0) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
    const int higher = ::fcntl(session_.get(), F_DUPFD_CLOEXEC, first_session_number);
    if (higher >= 0) session_ = Descriptor{higher};
  }
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
    report(MinderReport::Kind::failed, errno);
    return;
  }
  const Descriptor read_end{failure[0]};
  Descriptor write_end{failure[1]};
  command_ = ::fork();
  if (command_ == 0) become_command(Token{order.token}, write_end.get());
  write_end.reset();
  if (command_ < 0) {
    command_ = 0;
    report(MinderReport::Kind::failed, errno);
    return;
  }
  // The command does the same: whoever comes first.
  ::setpgid(command_, plan_.in_our_group ? wrapper_group_ : command_);
  group_ = plan_.in_our_group ? 0 : command_;
  int error = 0;
  if (::read(read_end.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(command_, nullptr, 0);
    command_ = group_ = 0;
    report(MinderReport::Kind::failed, error);
    return;
  }
  let_go_of_files();
  if (order.kill_at != 0) set_timer(order.kill_at);
  report(MinderReport::Kind::started, command_);
}

// Between fork and exec of a process with one thread: anything may be called.
void Minding::become_command(Token token, int failure) {
  ::setpgid(0, plan_.in_our_group ? wrapper_group_ : 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != self_) ::_exit(1);  // It died before the line above.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  if (session_.get() >= 0) ::fcntl(session_.get(), F_SETFD, 0);

  std::vector<std::string> ours = plan_.environment;
  ours.push_back("TENURE_TOKEN=" + std::to_string(token.value));
  std::vector<char*> environment;
  const auto is_replaced = [&ours](std::string_view variable) {
    const std::string_view name = variable.substr(0, variable.find('='));
    return std::ranges::any_of(ours, [name](const std::string& one) {
      return std::string_view{one}.substr(0, one.find('=')) == name;
    });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!is_replaced(*variable)) environment.push_back(*variable);
  }
  for (std::string& variable : ours) environment.push_back(variable.data());
  environment.push_back(nullptr);

  std::vector<std::string> words = plan_.command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::pthread_sigmask(SIG_SETMASK, &plan_.signal_mask, nullptr);
  ::execvpe(arguments.front(), arguments.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof error);
  ::_exit(1);
}

// So that whoever reads the command's output sees its end, and no file system is kept busy.
void Minding::let_go_of_files() {
  const Descriptor nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing.get() >= 0) ::dup2(nothing.get(), standard);
  }
  std::array kept{wrapper_.get(), children_.get(), timer_.get(), session_.get()};
  std::ranges::sort(kept);
  unsigned from = STDERR_FILENO + 1;
  for (const int number : kept) {
    if (number < 0) continue;
    const auto at = static_cast<unsigned>(number);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
    if (at > from) ::syscall(SYS_close_range, from, at - 1, 0);
    from = at + 1;
  }
  ::syscall(SYS_close_range, from, ~0U, 0);  // NOLINT(cppcoreguidelines-pro-type-vararg)
  [[maybe_unused]] const int changed = ::chdir("/");
}

void Minding::set_timer(std::int64_t kill_at) {
  constexpr std::int64_t second = 1'000'000'000;
  itimerspec time{};
  time.it_value = {.tv_sec = kill_at / second, .tv_nsec = kill_at % second};
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
}

void Minding::time_is_up() {
  std::uint64_t times = 0;
  if (::read(timer_.get(), &times, sizeof times) < 0) return;
  if (!ending_) {
    if (command_ == 0) return;  // It has ended, and what it left behind may stay.
    report(MinderReport::Kind::overdue, 0);
    tell_wrapper(SIGCONT);
  }
  ending_ = killing_ = true;
}

void Minding::tell_wrapper(int signal) const {
  if (wrapper_pid_ > 1 && ::getppid() == wrapper_pid_) ::kill(wrapper_pid_, signal);
}

bool Minding::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0) return pid == 0 || errno != ECHILD;
    const bool over = WIFEXITED(status) || WIFSIGNALED(status);
    if (pid != command_) continue;
    if (WIFSTOPPED(status)) {
      stop_ = ++stops_;
      // What stopped the command alone, where no shell looks, leaves the wrapper awake, to see a
      // hold that is lost.
      wrapper_stopped_ = (plan_.in_our_group || stop_ordered_) && !ending_;
      // First the report: the wrapper must know which stop it is when a shell continues it.
      report(MinderReport::Kind::stopped, stop_);
      if (wrapper_stopped_) tell_wrapper(SIGSTOP);
    } else if (WIFCONTINUED(status)) {
      report(MinderReport::Kind::continued, 0);
      stop_ordered_ = wrapper_stopped_ = false;
      stop_ = 0;
      tell_wrapper(SIGCONT);
    } else if (over) {
      command_ = 0;
      report(MinderReport::Kind::ended, status);
      if (wrapper_stopped_) tell_wrapper(SIGCONT);
    }
  }
}

void Minding::report(MinderReport::Kind kind, std::int32_t value) const {
  const MinderReport report{.kind = kind, .value = value};
  ::send(wrapper_.get(), &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Minding::kill_all() {
  for (;;) {
    signal_family(SIGKILL, group_);
    if (!reap()) return;
    pollfd wait = readable(children_.get());
    ::poll(&wait, 1, retry_ms);
    signalfd_siginfo info{};
    while (::read(children_.get(), &info, sizeof info) > 0) {
    }
  }
}

}  // namespace

int mind(const MinderPlan& plan, Descriptor wrapper) {
  return Minding{plan, std::move(wrapper)}.run();
}

}  // namespace tenure::cli
