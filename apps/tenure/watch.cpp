#include "watch.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "exit_status.hpp"
#include "process/descriptor.hpp"
#include "process/signals.hpp"
#include "snapshot.hpp"
#include "space_choice.hpp"

namespace tenure::cli {
namespace {

constexpr int refresh_ms = 1000;      // Ages are updated although nothing changes.
constexpr int min_interval_ms = 100;  // The minimum time between two updates.

// Switches to the alternate screen, and back at the end.
class Screen {
 public:
  Screen() { enter(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() { leave(); }

  void enter() {
    wait_for_foreground();
    if (::tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios keys = before_;
      keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
      changed_ = true;
    }
    write("\x1b[?1049h\x1b[?25l");
  }
  void leave() {
    write("\x1b[?25h\x1b[?1049l");
    if (changed_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    changed_ = false;
  }
  // Overwrites line by line, so that nothing flickers.
  static void show(std::string_view text, std::size_t rows) {
    std::string out = "\x1b[H";
    for (std::size_t row = 1; row <= rows && !text.empty(); ++row) {
      const std::string_view line = text.substr(0, text.find('\n'));
      out.append(row == 1 ? "" : "\r\n").append(line).append("\x1b[K");
      text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    write(out + "\x1b[J");
  }

 private:
  // SIGTTOU is blocked like all other signals, so the terminal would not stop us.
  static void wait_for_foreground() {
    for (;;) {
      const pid_t group = ::tcgetpgrp(STDOUT_FILENO);
      if (group < 0 || group == ::getpgrp()) return;
      ::raise(SIGSTOP);
    }
  }
  static void write(std::string_view text) {
    fmt::print("{}", text);
    (void)std::fflush(stdout);
  }

  termios before_{};
  bool changed_ = false;
};

class Watching {
 public:
  Watching(const WatchOptions& options, const Terminal& terminal, const process::Signals& signals)
      : options_(options),
        terminal_(terminal),
        signals_(signals),
        choice_(choose_space(options.space)),
        in_(signals.interruptible([this] { return open_existing_space(choice_); })) {
    if (changed_.get() < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    if (!options.json && can_rewrite(STDOUT_FILENO)) screen_.emplace();
    keys_ = screen_ && ::isatty(STDIN_FILENO) == 1;
  }

  int run() {
    while (!over_) {
      show();
      wait(min_interval_ms, false);
      if (!over_) wait(refresh_ms, true);
    }
    return status_;
  }

 private:
  void tell() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(changed_.get(), &one, sizeof one);
  }

  void show() {
    if (std::exchange(due_, false)) tickets_ = tickets_watch_->look();
    const Snapshot snapshot{.url = choice_.shown, .now = in_.now(), .tickets = tickets_};
    if (screen_) {
      const ScreenSize size = screen_size(STDOUT_FILENO);
      std::string text = terminal_.paint(Style::bold, fit(printable(choice_.shown), size.columns));
      text += fmt::format("\n{} of {} tickets hold their lock; press q to quit\n\n",
                          holders(snapshot), snapshot.tickets.size());
      for (const std::string& fault : missing_shards(snapshot))
        text += "not listed: " + fault + "\n";
      Screen::show(text + table_text(snapshot, terminal_, size.columns), size.rows);
      return;
    }
    if (shown_ == snapshot.tickets) return;
    shown_ = snapshot.tickets;
    report_missing_shards(snapshot);
    if (options_.json) {
      fmt::print("{}", json_text(snapshot, true));
    } else {
      fmt::print("{}\n{}\n", time_text(snapshot.now), table_text(snapshot, terminal_, 0));
    }
    (void)std::fflush(stdout);
  }

  static std::size_t holders(const Snapshot& snapshot) {
    std::size_t count = 0;
    for (const TicketInfo& info : snapshot.tickets) count += info.granted ? 1 : 0;
    return count;
  }

  // Ends early on a signal or a relevant key and, if `changes`, on a change.
  void wait(int wait_ms, bool changes) {
    std::array waits{
        process::readable(signals_.descriptor()), process::readable(keys_ ? STDIN_FILENO : -1),
        pollfd{.fd = STDOUT_FILENO, .events = 0, .revents = 0},  // Whether anybody still reads.
        process::readable(changes ? changed_.get() : -1)};
    ::poll(waits.data(), waits.size(), wait_ms);
    if (waits[0].revents != 0) on_signal();
    if (waits[1].revents != 0) on_key();
    if ((waits[2].revents & (POLLERR | POLLHUP)) != 0) over_ = true;
    if (waits[3].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t size = ::read(changed_.get(), &count, sizeof count);
      due_ = true;
    }
  }

  void on_signal() {
    const std::optional<process::Arrived> signal = signals_.next();
    if (!signal) return;
    if (process::ends_by_default(signal->number)) {
      over_ = true;
      status_ = signal->number == SIGINT ? exit_ok : exit_signal + signal->number;
    } else if (signal->number == SIGTSTP || signal->number == SIGTTIN ||
               signal->number == SIGTTOU) {
      if (screen_) screen_->leave();
      ::raise(SIGSTOP);
      if (screen_) screen_->enter();
    }
  }

  void on_key() {
    char key = 0;
    const ssize_t size = ::read(STDIN_FILENO, &key, 1);
    if (size <= 0 || key == 'q' || key == 'Q') over_ = true;
  }

  const WatchOptions& options_;
  const Terminal& terminal_;
  const process::Signals& signals_;
  SpaceChoice choice_;
  process::Descriptor changed_{::eventfd(0, EFD_CLOEXEC)};
  OpenSpace in_;
  std::optional<std::vector<TicketInfo>> shown_;
  std::optional<Screen> screen_;
  bool keys_ = false;
  bool over_ = false;
  int status_ = exit_ok;
  bool due_ = true;  // The tickets may be others than `tickets_`.
  std::vector<TicketInfo> tickets_;
  // Last: its notice uses the above.
  std::unique_ptr<detail::TicketWatch> tickets_watch_ =
      detail::SpaceAccess::backend(in_.space).watch(options_.path, [this] { tell(); });
};

}  // namespace

int watch(const WatchOptions& options, const Terminal& terminal) {
  const process::Signals signals = process::Signals::block();
  return Watching{options, terminal, signals}.run();
}

}  // namespace tenure::cli
