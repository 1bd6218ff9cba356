// saved_terminal.hpp: the settings of a terminal before a command, and when to bring them back.
//
// Invariant: settings that another process has chosen are not overwritten. A shell with line
// editing changes them as soon as its job has ended; to restore them then would break its input.
#pragma once

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "process/descriptor.hpp"

namespace tenure::process {

class SavedTerminal {
 public:
  // No terminal: every call does nothing.
  explicit SavedTerminal(Descriptor terminal) : terminal_(std::move(terminal)) {
    if (::tcgetattr(terminal_.get(), &saved_) != 0) terminal_.reset();
  }
  [[nodiscard]] int descriptor() const noexcept { return terminal_.get(); }

  // Before the commands of `group` are ended: what they have made of the settings. A shell that has
  // taken the terminal back from that group restores it itself.
  void note_settings(pid_t group) {
    termios now{};
    if (::tcgetpgrp(terminal_.get()) == group && ::tcgetattr(terminal_.get(), &now) == 0) {
      noted_ = now;
    }
  }
  // After that. Requires: SIGTTOU is blocked, for a process in the background.
  void restore() const {
    termios now{};
    if (!noted_ || ::tcgetattr(terminal_.get(), &now) != 0 || !same(now, *noted_)) return;
    if (!same(now, saved_)) ::tcsetattr(terminal_.get(), TCSANOW, &saved_);
  }

 private:
  static bool same(const termios& a, const termios& b) {
    return a.c_iflag == b.c_iflag && a.c_oflag == b.c_oflag && a.c_cflag == b.c_cflag &&
           a.c_lflag == b.c_lflag && std::ranges::equal(a.c_cc, b.c_cc);
  }

  Descriptor terminal_;
  termios saved_{};
  std::optional<termios> noted_;
};

}  // namespace tenure::process
