// signals.hpp: the signals that reach this process, as something to be read.
//
// They are blocked, and so are those of every thread that is started later: nothing interrupts a
// library, and no signal is acted on by chance. What was ignored when the program began stays
// ignored, here and in the command: nohup and background jobs mean it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <future>
#include <optional>
#include <utility>

#include "process/descriptor.hpp"

namespace tenure::process {

struct Arrived {
  int number = 0;
  // The terminal sent it, to its whole foreground group.
  bool from_terminal = false;
  pid_t sender = 0;  // 0: the kernel, or a process of another PID namespace.
};

class Signals {
 public:
  // Before there are other threads. All signals that a process can pass on; SIGCHLD is not one.
  [[nodiscard]] static Signals block();

  [[nodiscard]] int descriptor() const noexcept { return reader_.get(); }
  [[nodiscard]] std::optional<Arrived> next() const;
  // As it was when the program began: for the command.
  [[nodiscard]] const sigset_t& original() const noexcept { return original_; }

  // Returns what `work` returns. Until then signals act as they did when the program began: one
  // that ends a process ends this one at once. The work runs on another thread, so that threads
  // that libraries start meanwhile have signals blocked, as all others do.
  template <class Work>
  [[nodiscard]] auto interruptible(Work work) const {
    auto result = std::async(std::launch::async, std::move(work));
    const Unblocked unblocked{*this};
    return result.get();
  }

 private:
  class Unblocked {
   public:
    explicit Unblocked(const Signals& signals);
    Unblocked(const Unblocked&) = delete;
    Unblocked& operator=(const Unblocked&) = delete;
    ~Unblocked();

   private:
    sigset_t blocked_{};
  };

  sigset_t original_{};
  Descriptor reader_;
};

// Whether it ends a process that has made no other arrangements.
[[nodiscard]] bool ends_by_default(int signal) noexcept;

}  // namespace tenure::process
