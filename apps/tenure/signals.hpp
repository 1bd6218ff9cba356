// signals.hpp: the signals that reach this process, as something to be read.
//
// They are blocked, and so are those of every thread that is started later: nothing interrupts a
// library, and no signal is acted on by chance. What was ignored when the program began stays
// ignored, here and in the command: nohup and background jobs mean it.
#pragma once

#include <csignal>
#include <optional>

#include "descriptor.hpp"

namespace tenure::cli {

struct Arrived {
  int number = 0;
  // The terminal sent it, to its whole foreground group.
  bool from_terminal = false;
};

class Signals {
 public:
  // Before there are other threads. All signals that a process can pass on; SIGCHLD is not one.
  [[nodiscard]] static Signals block();

  [[nodiscard]] int descriptor() const noexcept { return reader_.get(); }
  [[nodiscard]] std::optional<Arrived> next() const;
  // As it was when the program began: for the command.
  [[nodiscard]] const sigset_t& original() const noexcept { return original_; }

 private:
  sigset_t original_{};
  Descriptor reader_;
};

// Whether it ends a process that has made no other arrangements.
[[nodiscard]] bool ends_by_default(int signal) noexcept;

}  // namespace tenure::cli
