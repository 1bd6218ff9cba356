// guardian.hpp: a small process that runs commands for this one, and leaves none of them behind.
//
//   owner (threads, files, memory)  ──orders──►  guardian (one thread)  ──►  command ──► …
//                                   ◄─events───
//
// An owner starts a guardian before it has threads, memory and open files, and reuses it for one
// command after another. The guardian is a subreaper (process_tree.hpp) in a process group of its
// own, with all signals blocked.
//
//   state      | means                                      | left by
//   -----------+--------------------------------------------+--------------------------------------
//   idle       | nothing runs below the guardian            | launch()
//   running    | the command runs                           | failed, exited
//   leftovers  | the command has exited; processes that it  | gone; successor() gives the owner
//              | started still run (exited, `left` is true) | another guardian for more commands
//
//   what happens                 | what the guardian does
//   -----------------------------+---------------------------------------------------------------
//   the owner dies, or destroys  | SIGKILL to everything below it (after `linger`, SIGTERM and
//   this object                  | `grace`, if there are any), until nothing is left; then restores
//                                | the terminal, if asked to
//   end(kill_at)                 | SIGTERM to everything below it; at that time SIGKILL
//   `kill_at` of the command     | SIGKILL, whatever the owner does (it may be stopped)
//   leave()                      | exits; leftovers go on
//   the guardian is killed       | the kernel kills the command (PR_SET_PDEATHSIG). Everything else
//                                | becomes the owner's, if the owner is a subreaper: end_orphans()
//
// Invariants
//  1. A command starts only while the owner lives, and only after everything of the one before it
//     has ended. No process below a guardian outlives the owner by more than `linger` and
//     `grace`.
//  2. Every launch() leads to one `failed` or one `exited`; an `exited` with `left` to one `gone`,
//     unless the owner calls leave().
//  3. A command inherits no descriptor beyond those in its Command and those that the owner had
//     open without close-on-exec when it started the guardian.
//
// Requires: the owner calls adopt_orphans() once. Nothing here changes the owner's signal handlers,
// mask or other global state.
//
// Thread safety: one thread at a time. Any thread may start a guardian and end later.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <optional>

#include "base/boot_clock.hpp"
#include "process/command.hpp"
#include "process/descriptor.hpp"

namespace tenure::process {

struct GuardianOptions {
  // Of commands. Not set: that of the thread that starts the guardian.
  // NOLINTNEXTLINE(readability-redundant-member-init): designated initializers may leave it out.
  std::optional<sigset_t> signal_mask{};
  // The guardian runs one command, which is the owner's job in the eyes of a shell. When the
  // command stops, the guardian stops the owner, so that the shell sees it, and continues it with
  // the command. Once the command runs, the guardian closes the files that it inherited.
  bool foreground = false;
  // After the death of the owner, the settings of its terminal become what they were when the
  // guardian was started, unless another process has changed them since that death.
  bool restore_terminal = false;
  // After the death of the owner, everything gets SIGTERM first, and SIGKILL after this time: for
  // programs such as git, which remove their lock files when they are asked to end.
  base::BootTime grace{0};
  // Before that SIGTERM, so long for programs that end by themselves when their input does. A git
  // that gets SIGTERM between making a lock file and noting it leaves the file.
  base::BootTime linger{0};
};

// What a command could not be started for.
enum class Step : std::uint8_t { process, directory, input, output, error, program };

struct Event {
  enum class Kind : std::uint8_t {
    started,  // value: the command's process
    failed,   // value: errno of `step`; nothing runs
    stopped,  // value: the number of the stop, from 1
    continued,
    exited,   // value: a status as waitpid() returns it; also `left` and `usage`
    overdue,  // The guardian kills everything, because the command's `kill_at` has come.
    gone,     // The leftovers have ended.
    guardian_dead,
  };
  Kind kind = Kind::gone;
  Step step = Step::process;
  bool left = false;
  std::int32_t value = 0;
  rusage usage{};
};

class Guardian {
 public:
  // Throws std::system_error where the system can't start a process.
  [[nodiscard]] static Guardian start(const GuardianOptions& options = {});
  Guardian(Guardian&& other) noexcept;
  Guardian& operator=(Guardian&& other) noexcept;
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  // Kills what still runs, unless leave() was called, and waits until it has ended.
  ~Guardian();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }  // 0 after its death was reported.
  // Readable when there is an event.
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  // Does not wait. After the death of the guardian, every call returns `guardian_dead`.
  [[nodiscard]] std::optional<Event> next();

  // Throws BadRequest for a command that no process can have: no words, a NUL in a text, too many
  // descriptors.
  void launch(const Command& command);
  // To the process group of the command. SIGCONT ends the stop of that number only: when it
  // arrives, the command may be in the next one already.
  void signal(int number, std::int32_t stop = 0);
  // Everything below the guardian, wherever it has moved.
  void stop();
  void resume();
  void end(base::BootTime kill_at);
  void leave();
  // Another guardian with the same options, forked by this one, which stays with its leftovers.
  // Throws std::system_error where that fails, and where this guardian is dead.
  [[nodiscard]] Guardian successor();

 private:
  Guardian(pid_t pid, Descriptor socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  void close() noexcept;
  void reap() noexcept;

  pid_t pid_;          // 0: reaped, or moved from.
  Descriptor socket_;  // None: moved from.
};

}  // namespace tenure::process
