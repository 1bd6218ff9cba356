#include "process/guardian_main.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
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
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/boot_clock.hpp"
#include "process/launch.hpp"
#include "process/messages.hpp"
#include "process/own_files.hpp"
#include "process/process_tree.hpp"
#include "process/saved_terminal.hpp"

namespace tenure::process {
namespace {

constexpr int kill_again_ms = 10;  // Between two looks at a tree that is being killed.

// Handlers are code of the owner.
void reset_handlers() {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction action{};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    ::sigaction(signal, &action, nullptr);
  }
}

class GuardianMain {
 public:
  GuardianMain(const GuardianOptions& options, SavedTerminal& terminal, pid_t owner_group,
               Descriptor owner);
  // Returns in the guardian when its work is over; in a successor, with the successor's socket.
  [[nodiscard]] Descriptor run();

 private:
  enum class Next : std::uint8_t { go_on, leave, kill, succeed };

  [[nodiscard]] bool owner_is_gone() const;
  [[nodiscard]] Next obey();
  [[nodiscard]] bool read_rest(std::string& text, std::size_t size) const;
  [[nodiscard]] Next launch(const Order& order, std::string_view text);
  [[nodiscard]] Next succeed();
  void pass_on(const Order& order);
  void set_timer(std::int64_t kill_at);
  void time_is_up();
  // In the foreground, the owner stops and continues with the command. One process sends both
  // signals, so the last one counts.
  void signal_owner(int signal) const;
  // Collects what has ended; false when nothing is left.
  bool reap();
  void on_change(int status, const rusage& usage);
  void report(Event event);
  void send_events();
  void drain_children() const;
  void kill_all();

  const GuardianOptions& options_;
  SavedTerminal& terminal_;
  pid_t owner_group_;
  pid_t owner_pid_ = ::getppid();
  Descriptor owner_;
  Descriptor owner_process_;  // Ready when the owner dies, whoever has copies of its sockets.
  Descriptor children_;
  Descriptor timer_;
  std::vector<Descriptor> received_;  // With the last order.
  std::vector<Descriptor> held_;      // Of the command: see Command::descriptors.
  std::vector<char> packet_;
  std::deque<Event> unsent_;  // While the owner, which may be stopped, does not read.

  pid_t command_ = 0;            // 0: none.
  std::optional<Event> exited_;  // To be reported when it is known what is left.
  bool leftovers_ = false;
  pid_t group_ = 0;         // The command's own process group; 0: it is in the owner's.
  std::int32_t stops_ = 0;  // So far.
  std::int32_t stop_ = 0;   // The one that the command is in; 0: none.
  bool stop_ordered_ = false;
  bool owner_stopped_ = false;
  bool timer_set_ = false;
  bool ending_ = false;
  bool killing_ = false;
};

GuardianMain::GuardianMain(const GuardianOptions& options, SavedTerminal& terminal,
                           pid_t owner_group, Descriptor owner)
    : options_(options),
      terminal_(terminal),
      owner_group_(owner_group),
      owner_(lift(std::move(owner))),
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
      owner_process_(lift(Descriptor{static_cast<int>(::syscall(SYS_pidfd_open, owner_pid_, 0))})),
      packet_(max_packet_text) {
  sigset_t child{};
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  children_ = lift(Descriptor{::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK)});
  timer_ = lift(Descriptor{::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)});
  close_files_of_owner(std::array{owner_.get(), owner_process_.get(), children_.get(), timer_.get(),
                                  terminal.descriptor()});
  // Not a session: commands could not join the owner's process group then.
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "tenure-guardian", 0, 0, 0);
  adopt_orphans();
}

Descriptor GuardianMain::run() {
  for (;;) {
    std::array waits{readable(owner_.get()), readable(owner_process_.get()),
                     readable(children_.get()), readable(timer_.get())};
    if (!unsent_.empty()) waits[0].events |= POLLOUT;
    ::poll(waits.data(), waits.size(), killing_ ? kill_again_ms : -1);
    if (waits[3].revents != 0) time_is_up();
    if (killing_) signal_tree(SIGKILL, group_);
    if (killing_ || waits[2].revents != 0) {
      drain_children();
      reap();
    }
    send_events();
    Next next = Next::go_on;
    if ((waits[0].revents & ~POLLOUT) != 0) {
      next = obey();
    } else if (waits[1].revents != 0) {
      next = Next::kill;
    }
    switch (next) {
      case Next::go_on: break;
      case Next::leave: return {};
      case Next::kill: kill_all(); return {};
      case Next::succeed: return std::move(received_.front());
    }
  }
}

bool GuardianMain::owner_is_gone() const {
  std::array waits{pollfd{.fd = owner_.get(), .events = 0, .revents = 0},
                   readable(owner_process_.get())};
  ::poll(waits.data(), waits.size(), 0);
  return waits[0].revents != 0 || waits[1].revents != 0;
}

GuardianMain::Next GuardianMain::obey() {
  Order order;
  std::array<iovec, 2> parts{{{.iov_base = &order, .iov_len = sizeof order},
                              {.iov_base = packet_.data(), .iov_len = packet_.size()}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_packet_descriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(owner_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return Next::go_on;
  if (size < static_cast<ssize_t>(sizeof order)) return Next::kill;
  received_.clear();
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
    for (const int number : numbers) received_.push_back(lift(Descriptor{number}));
  }
  switch (order.kind) {
    case Order::Kind::launch: {
      std::string text{packet_.data(), static_cast<std::size_t>(size) - sizeof order};
      if (!read_rest(text, order.text_size)) return Next::kill;
      return launch(order, text);
    }
    case Order::Kind::signal: pass_on(order); break;
    case Order::Kind::stop: stop_tree(); break;
    case Order::Kind::resume: resume_tree(); break;
    case Order::Kind::end:
      if (command_ == 0 && !leftovers_) break;
      ending_ = true;
      signal_tree(SIGTERM, group_);
      set_timer(order.kill_at);
      break;
    case Order::Kind::leave: return Next::leave;
    case Order::Kind::succeed: return succeed();
  }
  return Next::go_on;
}

bool GuardianMain::read_rest(std::string& text, std::size_t size) const {
  while (text.size() < size) {
    const std::size_t before = text.size();
    text.resize(std::min(size, before + max_packet_text));
    const ssize_t count = ::recv(owner_.get(), text.data() + before, text.size() - before, 0);
    if (count == 0 || (count < 0 && errno != EINTR)) return false;
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  return true;
}

GuardianMain::Next GuardianMain::launch(const Order& order, std::string_view text) {
  // An order that was sent before the owner died is still read after that.
  if (owner_is_gone()) return Next::kill;
  if (command_ != 0 || leftovers_) {
    report({.kind = Event::Kind::failed, .step = Step::process, .value = EBUSY});
    return Next::go_on;
  }
  Launch launch{.group = order.group,
                .owner_group = owner_group_,
                .signal_mask = options_.signal_mask.value_or(sigset_t{})};
  read_texts(order, text, launch);
  auto received = received_.begin();
  for (std::size_t i = 0; i < launch.standard.size(); ++i) {
    launch.standard.at(i).kind = order.targets.at(i);
    if (order.targets.at(i) != Target::Kind::descriptor) continue;
    if (received == received_.end()) return Next::kill;
    launch.standard.at(i).descriptor = (received++)->get();
  }
  held_.assign(std::move_iterator{received}, std::move_iterator{received_.end()});
  for (const Descriptor& descriptor : held_) launch.descriptors.push_back(descriptor.get());
  const Launched launched = start(launch);
  received_.clear();
  if (launched.pid == 0) {
    held_.clear();
    report({.kind = Event::Kind::failed, .step = launched.step, .value = launched.error});
    return Next::go_on;
  }
  command_ = launched.pid;
  group_ = order.group == Group::owner ? 0 : launched.pid;
  stop_ = 0;
  stop_ordered_ = owner_stopped_ = ending_ = killing_ = false;
  // The command's output ends with the command for its readers, and no file system is kept busy.
  if (options_.foreground) close_inherited_files();
  if (order.kill_at != 0 || timer_set_) set_timer(order.kill_at);
  report({.kind = Event::Kind::started, .value = command_});
  return Next::go_on;
}

// CLONE_PARENT: the owner becomes the parent of the successor, which is not one of this guardian's
// children, and reaps it.
GuardianMain::Next GuardianMain::succeed() {
  if (received_.empty()) return Next::kill;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
  const long pid = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  if (pid != 0) {
    received_.clear();
    return Next::go_on;
  }
  const Event ready{.kind = Event::Kind::started, .value = ::getpid()};
  ::send(received_.front().get(), &ready, sizeof ready, MSG_NOSIGNAL | MSG_DONTWAIT);
  return Next::succeed;
}

void GuardianMain::pass_on(const Order& order) {
  const int signal = order.signal;
  if (signal == SIGCONT && order.stop != stop_) return;
  if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) stop_ordered_ = true;
  if (signal == SIGCONT) stop_ordered_ = false;
  if (command_ != 0) ::kill(group_ != 0 ? -group_ : command_, signal);
}

void GuardianMain::set_timer(std::int64_t kill_at) {
  constexpr std::int64_t second = 1'000'000'000;
  itimerspec time{};
  time.it_value = {.tv_sec = kill_at / second, .tv_nsec = kill_at % second};
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr);
  timer_set_ = kill_at != 0;
}

void GuardianMain::time_is_up() {
  std::uint64_t times = 0;
  if (::read(timer_.get(), &times, sizeof times) < 0) return;
  if (!ending_) {
    if (command_ == 0) return;  // What a command left behind in time may stay.
    report({.kind = Event::Kind::overdue});
    signal_owner(SIGCONT);
  }
  ending_ = killing_ = true;
}

void GuardianMain::signal_owner(int signal) const {
  if (options_.foreground && owner_pid_ > 1 && ::getppid() == owner_pid_) {
    ::kill(owner_pid_, signal);
  }
}

bool GuardianMain::reap() {
  bool some_left = true;
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
    if (pid <= 0) {
      some_left = pid == 0 || errno != ECHILD;
      break;
    }
    if (pid == command_) on_change(status, usage);
  }
  if (exited_) {
    exited_->left = leftovers_ = some_left;
    report(*exited_);
    exited_.reset();
    if (owner_stopped_) signal_owner(SIGCONT);
  } else if (leftovers_ && !some_left) {
    leftovers_ = false;
    report({.kind = Event::Kind::gone});
  }
  if (command_ == 0 && !some_left) {
    ending_ = killing_ = false;
    held_.clear();
  }
  return some_left;
}

void GuardianMain::on_change(int status, const rusage& usage) {
  if (WIFSTOPPED(status)) {
    stop_ = ++stops_;
    // A command that was stopped alone, where no shell looks, leaves the owner running.
    owner_stopped_ = (group_ == 0 || stop_ordered_) && !ending_;
    // The event first: the owner must know the number of the stop when a shell continues it.
    report({.kind = Event::Kind::stopped, .value = stop_});
    if (owner_stopped_) signal_owner(SIGSTOP);
  } else if (WIFCONTINUED(status)) {
    report({.kind = Event::Kind::continued});
    stop_ordered_ = owner_stopped_ = false;
    stop_ = 0;
    signal_owner(SIGCONT);
  } else {
    command_ = 0;
    exited_ = Event{.kind = Event::Kind::exited, .value = status, .usage = usage};
  }
}

void GuardianMain::report(Event event) {
  unsent_.push_back(event);
  send_events();
}

void GuardianMain::send_events() {
  while (!unsent_.empty()) {
    const ssize_t sent =
        ::send(owner_.get(), &unsent_.front(), sizeof(Event), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) return;
    unsent_.pop_front();  // An owner that is gone needs no events.
  }
}

void GuardianMain::drain_children() const {
  signalfd_siginfo info{};
  while (::read(children_.get(), &info, sizeof info) > 0) {
  }
}

void GuardianMain::kill_all() {
  terminal_.note_settings(owner_group_);
  const base::BootTime end_at = base::boot_time() + options_.linger;
  const base::BootTime kill_at = end_at + options_.grace;
  bool told = options_.grace.count() == 0;
  for (;;) {
    const base::BootTime now = base::boot_time();
    if (now >= kill_at) {
      signal_tree(SIGKILL, group_);
    } else if (now >= end_at && !told) {
      signal_tree(SIGTERM, group_);
      told = true;
    }
    if (!reap()) break;
    pollfd wait = readable(children_.get());
    ::poll(&wait, 1, kill_again_ms);
    drain_children();
  }
  terminal_.restore();
}

}  // namespace

int guardian_main(const GuardianOptions& options, Descriptor owner) {
  sigset_t all{};
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  reset_handlers();
  const pid_t owner_group = ::getpgrp();
  SavedTerminal terminal{options.restore_terminal
                             ? lift(Descriptor{::open("/dev/tty", O_RDWR | O_CLOEXEC)})
                             : Descriptor{}};
  for (;;) {
    Descriptor successor = GuardianMain{options, terminal, owner_group, std::move(owner)}.run();
    if (successor.get() < 0) return 0;
    owner = std::move(successor);
  }
}

}  // namespace tenure::process
