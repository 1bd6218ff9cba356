// supervisor.hpp: `tenure run` while its command runs: if the hold is lost, ends the command; with
// a deadline, before the next grant.
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
  Supervisor(process::Guardian& guardian, const process::Signals& signals, Store& store, Hold& hold)
      : guardian_(guardian), signals_(signals), store_(store), hold_(hold) {}

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
  std::optional<base::BootTime> known_deadline_;
  bool lost_ = false;
};

}  // namespace tenure::cli
