// foreground.hpp: one command in the place of this program: signals go to it, its fate comes back,
// and its end can be requested.
//
//   the command's group | signals of the terminal        | Ctrl-Z
//   --------------------+--------------------------------+---------------------------------------
//   Group::owner        | reach it without this program  | stops both
//   Group::own          | are passed on, like all others | is passed on; then this program stops
//
// Requires: a guardian with `foreground`, and adopt_orphans(); this program has no other children.
//
// Thread safety: one thread.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "base/boot_clock.hpp"
#include "process/guardian.hpp"
#include "process/signals.hpp"

namespace tenure::process {

struct Outcome {
  // NOLINTBEGIN(readability-redundant-member-init): designated initializers may leave them out.
  std::optional<int> failed{};  // errno: the command could not be started
  std::optional<int> status{};  // as waitpid() returns it; null if unknown, because it was killed
  // NOLINTEND(readability-redundant-member-init)
  bool was_ended = false;      // on request, or at its kill_at
  bool guardian_died = false;  // so that everything was killed
  bool survivors = false;      // some processes did not end after SIGKILL
};

class Foreground {
 public:
  // Called once, when the end of the command is requested or its kill_at has come. Returns when to
  // send SIGKILL; SIGTERM is sent at once.
  using OnEnd = std::function<base::BootTime()>;

  Foreground(Guardian& guardian, const Signals& signals) noexcept
      : guardian_(guardian), signals_(signals) {}

  // While a command runs: when the descriptor becomes readable for the first time, sends the
  // command the signal that the function returns.
  void on_readable(int descriptor, std::function<int()> signal) {
    notice_ = descriptor;
    notice_signal_ = std::move(signal);
  }

  // Starts the command, and returns when it has ended: with everything that it started, if it was
  // ended. A readable `end_request` (a descriptor) requests its end. Restores the terminal's
  // settings after a command that was killed or ended, as a shell does.
  [[nodiscard]] Outcome run(const Command& command, int end_request, const OnEnd& on_end);

 private:
  void step(int end_request, const OnEnd& on_end);
  void on_signal(const Arrived& signal);
  void on_event(const Event& event, const OnEnd& on_end);
  void end(const OnEnd& on_end);
  void on_guardian_dead();

  Guardian& guardian_;
  const Signals& signals_;
  int notice_ = -1;  // Until it was readable.
  std::function<int()> notice_signal_;
  bool in_our_group_ = false;
  std::int32_t stop_ = 0;  // The one that the command is in; 0: none.
  std::optional<base::BootTime> give_up_;
  Outcome outcome_;
  bool over_ = false;
};

}  // namespace tenure::process
