// supervisor.hpp: `tenure run` while its command runs: signals go in, its fate comes out, and a
// hold that is lost ends it.
//
//   stdin is a terminal | the command's group | signals of the terminal      | Ctrl-Z
//   --------------------+---------------------+------------------------------+-------------------
//   yes                 | the wrapper's       | reach it without us          | stops both
//   no                  | its own             | are passed on, like all      | is passed on; then
//                       |                     | others                       | the wrapper stops
//
// Thread safety: one thread.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

#include "descriptor.hpp"
#include "minder.hpp"
#include "signals.hpp"
#include "tenure/hold.hpp"
#include "tenure/store.hpp"

namespace tenure::cli {

class Supervisor {
 public:
  Supervisor(Minder& minder, const Signals& signals, Store& store, Hold& hold, bool in_our_group);

  // Starts the command and stays until it has ended. Returns the exit status of the program; what
  // went wrong has been told on standard error.
  [[nodiscard]] int run(int session, const std::string& command);
  // Whether the hold was, and the command ended for that.
  [[nodiscard]] bool lost() const noexcept { return is_lost_; }

 private:
  [[nodiscard]] std::optional<BootTime> deadline() const;
  void step();
  void on_signal(const Arrived& signal);
  void on_report(const MinderReport& report);
  void on_lost();
  void on_minder_dead();
  void lose(BootTime kill_at);
  void restore_terminal() const;
  [[nodiscard]] int status_of_end() const;

  Minder& minder_;
  const Signals& signals_;
  Store& store_;
  Hold& hold_;
  bool in_our_group_;
  std::optional<termios> terminal_;  // As it was before the command.
  std::optional<BootTime> known_deadline_;
  Descriptor lost_;
  pid_t command_ = 0;
  std::int32_t stop_ = 0;  // Which one the command is in; 0: none.
  bool is_lost_ = false;
  std::optional<BootTime> give_up_;  // Of waiting for a family that was told to end.
  std::optional<int> failed_;        // errno of exec.
  std::optional<int> status_;
  bool over_ = false;
};

}  // namespace tenure::cli
