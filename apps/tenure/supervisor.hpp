// supervisor.hpp: `tenure run` while its command runs: if the hold is lost, ends the command; with
// a deadline, before the next grant. If the holder is asked to leave, sends the command a signal.
//
// Thread safety: one thread.
#pragma once

#include <optional>
#include <string>

#include "base/boot_clock.hpp"
#include "process/foreground.hpp"
#include "tenure/hold.hpp"
#include "tenure/store.hpp"

namespace tenure::cli {

class Supervisor {
 public:
  // `on_ask`: the signal for the command when its holder is asked to leave; 0: none.
  Supervisor(process::Guardian& guardian, const process::Signals& signals, Store& store, Hold& hold,
             int on_ask)
      : guardian_(guardian), signals_(signals), store_(store), hold_(hold), on_ask_(on_ask) {}

  // Starts the command and waits until it has ended. Returns the exit status of the program;
  // problems were printed on standard error.
  [[nodiscard]] int run(process::Command command);
  // Whether the hold was lost, and the command was ended for that reason.
  [[nodiscard]] bool lost() const noexcept { return lost_; }

 private:
  [[nodiscard]] std::optional<base::BootTime> deadline() const;
  [[nodiscard]] base::BootTime on_lost() const;

  process::Guardian& guardian_;
  const process::Signals& signals_;
  Store& store_;
  Hold& hold_;
  const int on_ask_;
  std::optional<base::BootTime> known_deadline_;
  bool lost_ = false;
};

}  // namespace tenure::cli
