// A command changes the terminal of an owner that is killed.
#include "process/saved_terminal.hpp"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <csignal>
#include <string>

#include "process/guardian.hpp"
#include "process/tools_test.hpp"
#include "tests/kit/process.hpp"

namespace tenure::process {
namespace {

class Pty {
 public:
  Pty() {
    int master = -1;
    int terminal = -1;
    if (::openpty(&master, &terminal, nullptr, nullptr, nullptr) != 0) fail_system("openpty");
    master_ = Descriptor{master};
    terminal_ = Descriptor{terminal};
  }
  // Makes the calling process the leader of a session with this terminal.
  void take() const {
    ::setsid();
    ::ioctl(terminal_.get(), TIOCSCTTY, 0);  // NOLINT(cppcoreguidelines-pro-type-vararg)
    ::dup2(terminal_.get(), STDIN_FILENO);
  }
  [[nodiscard]] termios settings() const {
    termios now{};
    ::tcgetattr(terminal_.get(), &now);
    return now;
  }
  [[nodiscard]] bool echoes() const { return (settings().c_lflag & ECHO) != 0; }

 private:
  Descriptor master_;
  Descriptor terminal_;
};

// The leader of the session: like a shell, it starts the owner as its foreground job. Says
// "changed" when the command has changed the settings; then it does what it is told.
void lead(const Pty& pty, const kit::Line& line, const std::string& mark) {
  pty.take();
  ::signal(SIGTTOU, SIG_IGN);  // NOLINT: as a shell does, to give the terminal to a job.
  Pipe pids;
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::setpgid(0, 0);
    ::tcsetpgrp(STDIN_FILENO, ::getpid());
    ::signal(SIGTTOU, SIG_DFL);  // NOLINT: the job starts like any other.
    Guardian guardian = Guardian::start({.foreground = true, .restore_terminal = true});
    Command command = marked_shell("stty raw -echo; exec sleep 1000", mark);
    command.group = Group::owner;
    guardian.launch(command);
    const pid_t pid = guardian.pid();
    if (::write(pids.write.get(), &pid, sizeof pid) < 0) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t guardian = 0;
  if (::read(pids.read.get(), &guardian, sizeof guardian) < 0) return;
  wait_until([&] { return !pty.echoes(); });
  line.say("changed");
  for (std::optional<std::string> order; (order = line.hear());) {
    if (*order == "kill owner") {
      ::kill(owner, SIGKILL);
      ::waitpid(owner, nullptr, 0);
      wait_until([&] { return is_dead(guardian); });
    } else if (*order == "take terminal") {  // As a shell does, and begins to edit a line.
      ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
      termios own = pty.settings();
      own.c_cc[VMIN] = 3;
      ::tcsetattr(STDIN_FILENO, TCSANOW, &own);
    }
    line.say("done");
  }
}

TEST(SavedTerminal, AGuardianRestoresItAfterTheDeathOfTheOwner) {
  const Pty pty;
  const termios before = pty.settings();
  const std::string mark = new_mark();
  kit::Process leader{[&](const kit::Line& line) { lead(pty, line, mark); }};
  ASSERT_EQ(leader.hear(), "changed");
  EXPECT_EQ(leader.ask("kill owner"), "done");
  EXPECT_TRUE(pty.echoes());
  EXPECT_EQ(pty.settings().c_lflag, before.c_lflag);
  EXPECT_EQ(pty.settings().c_iflag, before.c_iflag);
  EXPECT_EQ(pty.settings().c_oflag, before.c_oflag);
  EXPECT_TRUE(find_marked(mark).empty());
}

TEST(SavedTerminal, AShellThatHasTakenItBackKeepsItsSettings) {
  const Pty pty;
  const std::string mark = new_mark();
  kit::Process leader{[&](const kit::Line& line) { lead(pty, line, mark); }};
  ASSERT_EQ(leader.hear(), "changed");
  EXPECT_EQ(leader.ask("take terminal"), "done");
  EXPECT_EQ(leader.ask("kill owner"), "done");
  EXPECT_TRUE(find_marked(mark).empty());
  EXPECT_EQ(pty.settings().c_cc[VMIN], 3);
  EXPECT_FALSE(pty.echoes());
}

}  // namespace
}  // namespace tenure::process
