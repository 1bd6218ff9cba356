// minder.hpp: the process between `tenure run` and its command: it starts the command, and ends it
// when the wrapper can't.
//
//   wrapper (threads, space, terminal)  ──orders──►  minder (one thread)  ──►  command …
//                                       ◄─reports──
//
// It is forked before there are threads, so it forks the command as freely as any simple program.
// It has a process group of its own and takes no signal, adopts every orphan of the command, and
// has the session's descriptor: so does the command, and the kernel's lock lives until all of them
// have gone.
//
//   what happens                | what it does
//   ----------------------------+--------------------------------------------------------------
//   the wrapper goes away       | SIGKILL to all that the command started, until none is left
//   order `end`, until when     | SIGTERM to all of them; at that time SIGKILL
//   the deadline it was given   | SIGKILL, whatever the wrapper does (it may be stopped)
//   order `leave`               | exits; what runs goes on
//   the command stops           | stops the wrapper, where a shell would look; likewise continues
//   somebody kills it           | the kernel kills the command itself (PR_SET_PDEATHSIG); the
//                               | wrapper adopts the rest, and ends them
//
// Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "descriptor.hpp"
#include "tenure/ticket.hpp"

namespace tenure::cli {

// CLOCK_BOOTTIME: as the store's clock it goes on while the machine sleeps.
using BootTime = std::chrono::nanoseconds;
[[nodiscard]] BootTime boot_time();

struct MinderPlan {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // Beside TENURE_TOKEN: NAME=value, in place of any other.
  bool in_our_group = false;             // The command stays in the wrapper's process group.
  sigset_t signal_mask{};                // Of the command.
};

struct MinderReport {
  enum class Kind : std::uint8_t {
    started,  // value: the command's process
    failed,   // value: errno of exec; nothing runs
    stopped,  // value: which of its stops that is, from 1
    continued,
    ended,    // value: as waitpid tells it
    overdue,  // It was killed at its deadline, without an order.
    gone,     // After `end`: no process of its family is left.
    minder_dead,
  };
  Kind kind = Kind::gone;
  std::int32_t value = 0;
};

class Minder {
 public:
  [[nodiscard]] static Minder start(const MinderPlan& plan);
  Minder(Minder&&) noexcept = default;
  Minder& operator=(Minder&&) = delete;
  Minder(const Minder&) = delete;
  Minder& operator=(const Minder&) = delete;
  // A command that still runs is killed, unless leave() was called.
  ~Minder();

  // Readable when there is a report.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  [[nodiscard]] std::optional<MinderReport> next();

  // `session` may be -1. `kill_at`: when the command must be gone.
  void launch(Token token, int session, std::optional<BootTime> kill_at);
  // SIGCONT is for one stop: when it arrives, the command may be in the next already.
  void signal(int number, std::int32_t stop = 0);
  void end(BootTime kill_at);
  void leave();

 private:
  Minder(pid_t pid, Descriptor socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  Descriptor socket_;
};

}  // namespace tenure::cli
