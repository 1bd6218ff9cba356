#include "process/guardian.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "process/process_tree.hpp"
#include "process/tools_test.hpp"
#include "tenure/error.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::process {
namespace {

using namespace std::chrono_literals;
using Kind = Event::Kind;

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

Event launch_and_fail(Guardian& guardian, const Command& command) {
  guardian.launch(command);
  const Event event = next_event(guardian);
  EXPECT_EQ(event.kind, Kind::failed);
  return event;
}

// What a command writes.
std::string output_of(Guardian& guardian, Command command) {
  const kit::TemporaryDirectory directory;
  command.output = Target::file(directory / "out");
  EXPECT_EQ(run(guardian, command), 0);
  return read_file(directory / "out");
}

TEST(Guardian, RunsOneCommandAfterAnother) {
  Guardian guardian = Guardian::start();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(exit_status(run(guardian, Command::shell("exit " + std::to_string(i)))), i);
  }
  EXPECT_EQ(exit_status(run(guardian, {.words = {"false"}})), 1);
}

TEST(Guardian, ReportsDeathBySignalAndUsage) {
  Guardian guardian = Guardian::start();
  guardian.launch(Command::shell("kill -TERM $$"));
  const Event started = next_event(guardian);
  EXPECT_EQ(started.kind, Kind::started);
  EXPECT_GT(started.value, 1);
  const Event exited = next_event(guardian);
  ASSERT_EQ(exited.kind, Kind::exited);
  ASSERT_TRUE(WIFSIGNALED(exited.value));
  EXPECT_EQ(WTERMSIG(exited.value), SIGTERM);
  EXPECT_FALSE(exited.left);
  EXPECT_GT(exited.usage.ru_maxrss, 0);
}

TEST(Guardian, ReportsWhatACommandCouldNotBeStartedFor) {
  Guardian guardian = Guardian::start();
  const Event missing = launch_and_fail(guardian, {.words = {"no-such-command-anywhere"}});
  EXPECT_EQ(missing.step, Step::program);
  EXPECT_EQ(missing.value, ENOENT);
  const Event forbidden = launch_and_fail(guardian, {.words = {"/etc/passwd"}});
  EXPECT_EQ(forbidden.step, Step::program);
  EXPECT_EQ(forbidden.value, EACCES);
  const Event directory =
      launch_and_fail(guardian, {.words = {"true"}, .directory = "/no/such/directory"});
  EXPECT_EQ(directory.step, Step::directory);
  const Event input =
      launch_and_fail(guardian, {.words = {"true"}, .input = Target::file("/no/such/file")});
  EXPECT_EQ(input.step, Step::input);
  const Event output =
      launch_and_fail(guardian, {.words = {"true"}, .output = Target::file("/no/such/file")});
  EXPECT_EQ(output.step, Step::output);
  const Event error =
      launch_and_fail(guardian, {.words = {"true"}, .error = Target::file("/no/such/file")});
  EXPECT_EQ(error.step, Step::error);
  EXPECT_EQ(exit_status(run(guardian, {.words = {"true"}})), 0);
}

TEST(Guardian, RefusesCommandsThatCannotBe) {
  Guardian guardian = Guardian::start();
  EXPECT_THROW(guardian.launch({.words = {}}), BadRequest);
  EXPECT_THROW(guardian.launch({.words = {std::string("a\0b", 3)}}), BadRequest);
  EXPECT_THROW(guardian.launch({.words = {"true"}, .descriptors = std::vector<int>(9, 0)}),
               BadRequest);
  EXPECT_THROW(guardian.launch({.words = {"true"}, .output = Target::of(12'345)}),
               std::system_error);
  EXPECT_EQ(exit_status(run(guardian, {.words = {"true"}})), 0);
}

TEST(Guardian, GivesDirectoryAndEnvironment) {
  const kit::TemporaryDirectory directory;
  Guardian guardian = Guardian::start();
  ::setenv("TENURE_TEST_OLD", "old", 1);  // NOLINT(concurrency-mt-unsafe): one thread.
  Guardian later = Guardian::start();
  ::unsetenv("TENURE_TEST_OLD");  // NOLINT(concurrency-mt-unsafe): one thread.
  const std::string script = "pwd; echo $TENURE_TEST_OLD,$TENURE_TEST_NEW";
  Command command = Command::shell(script);
  command.directory = directory.path();
  command.environment = {"TENURE_TEST_NEW=a b=c"};
  EXPECT_EQ(output_of(later, command), directory.path().string() + "\nold,a b=c\n");
  command.environment = {"TENURE_TEST_NEW=", "TENURE_TEST_OLD"};
  EXPECT_EQ(output_of(later, command), directory.path().string() + "\n,\n");
  EXPECT_EQ(output_of(guardian, Command::shell("echo ${TENURE_TEST_OLD-none}")), "none\n");
}

TEST(Guardian, FindsTheProgramInThePathOfTheCommand) {
  const kit::TemporaryDirectory directory;
  std::ofstream{directory / "special"} << "echo from here\n";  // No #!: the shell runs it.
  std::filesystem::permissions(directory / "special", std::filesystem::perms::owner_all);
  Guardian guardian = Guardian::start();
  EXPECT_EQ(output_of(guardian,
                      {.words = {"special"}, .environment = {"PATH=" + directory.path().string()}}),
            "from here\n");
  EXPECT_EQ(launch_and_fail(guardian, {.words = {"special"}}).value, ENOENT);
}

TEST(Guardian, ConnectsFilesPipesAndMoreDescriptors) {
  const kit::TemporaryDirectory directory;
  std::ofstream{directory / "in"} << "input\n";
  Pipe output;
  Guardian guardian = Guardian::start();
  Command command = Command::shell(
      "cat; echo error >&2; for fd in /proc/self/fd/*; do test $fd -ef \"$FILE\" && cat $fd; done");
  command.environment = {"FILE=" + (directory / "more").string()};
  command.input = Target::file(directory / "in");
  command.output = Target::of(output.write.get());
  command.error = Target::file(directory / "error");
  std::ofstream{directory / "more"} << "more\n";
  const Descriptor more{::open((directory / "more").c_str(), O_RDONLY | O_CLOEXEC)};
  command.descriptors = {more.get()};
  EXPECT_EQ(exit_status(run(guardian, command)), 0);
  output.write.reset();
  std::string text(100, '\0');
  std::size_t size = 0;
  for (ssize_t count = 1; count > 0; size += static_cast<std::size_t>(count)) {
    count = ::read(output.read.get(), text.data() + size, text.size() - size);
    ASSERT_GE(count, 0);
  }
  text.resize(size);
  EXPECT_EQ(text, "input\nmore\n");
  EXPECT_EQ(read_file(directory / "error"), "error\n");
}

TEST(Guardian, AppendsToOneFileFromOutputAndError) {
  const kit::TemporaryDirectory directory;
  Guardian guardian = Guardian::start();
  Command command = Command::shell("echo one; echo two >&2; echo three");
  command.output = command.error = Target::file(directory / "log");
  EXPECT_EQ(run(guardian, command), 0);
  EXPECT_EQ(run(guardian, command), 0);
  EXPECT_EQ(read_file(directory / "log"), "one\ntwo\nthree\none\ntwo\nthree\n");
}

TEST(Guardian, PassesNoOtherDescriptorOn) {
  const Descriptor secret{::open("/etc/passwd", O_RDONLY | O_CLOEXEC)};
  Guardian first = Guardian::start();
  Guardian second = Guardian::start();  // Forked while the socket of the first one is open.
  // Those that this program has from its own parent are passed on.
  const std::string script = "cd /proc/self/fd && echo *";
  EXPECT_EQ(output_of(second, Command::shell(script)), kit::run({"sh", "-c", script}));
  // And the guardian has neither: the first one must see its owner go.
  for (const auto& entry :
       std::filesystem::directory_iterator{"/proc/" + std::to_string(second.pid()) + "/fd"}) {
    EXPECT_NE(std::filesystem::read_symlink(entry), "/etc/passwd");
  }
}

TEST(Guardian, SendsLongCommands) {
  Guardian guardian = Guardian::start();
  const std::string word(100'000, 'x');
  Command command{.words = {"sh", "-c", "echo $# ${#1} ${#9}", "sh"}};
  for (int i = 0; i < 9; ++i) command.words.push_back(word);
  EXPECT_EQ(output_of(guardian, command), "9 100000 100000\n");
}

TEST(Guardian, GivesCommandsASessionWithoutATerminal) {
  Guardian guardian = Guardian::start();
  Command command = Command::shell("test $(cut -d' ' -f6 /proc/$$/stat) = $$ && ! (: < /dev/tty)");
  command.error = Target::null();
  EXPECT_EQ(exit_status(run(guardian, command)), 0);
}

TEST(Guardian, ReportsLeftoversAndEndsThem) {
  Guardian guardian = Guardian::start();
  for (int i = 0; i < 3; ++i) {
    const std::string mark = new_mark();
    Command command = marked_shell(std::string{leaves_three_kinds}, mark);
    command.output = Target::null();
    guardian.launch(command);
    EXPECT_TRUE(wait_for(guardian, Kind::exited).left);
    EXPECT_TRUE(wait_for_sleepers(mark, 4));
    // Busy: it would not be known to whom what is left belongs.
    EXPECT_EQ(launch_and_fail(guardian, {.words = {"true"}}).value, EBUSY);
    guardian.end(base::boot_time() + 1h);
    wait_for(guardian, Kind::gone);
    EXPECT_TRUE(find_marked(mark).empty());
    EXPECT_EQ(run(guardian, {.words = {"true"}}), 0);
  }
}

TEST(Guardian, ReportsLeftoversThatEndByThemselves) {
  Guardian guardian = Guardian::start();
  Command command = Command::shell("exec 3<&0; cat <&3 & exit 3");
  Pipe input;
  command.input = Target::of(input.read.get());
  guardian.launch(command);
  const Event exited = wait_for(guardian, Kind::exited);
  EXPECT_EQ(exit_status(exited.value), 3);
  EXPECT_TRUE(exited.left);
  input.read.reset();
  input.write.reset();  // The end of its input.
  wait_for(guardian, Kind::gone);
}

TEST(Guardian, ASuccessorTakesTheSlotOfAGuardianWithLeftovers) {
  adopt_orphans();
  const std::string mark = new_mark();
  Guardian first = Guardian::start();
  first.launch(marked_shell("sleep 1000 & exit", mark));
  ASSERT_TRUE(wait_for(first, Kind::exited).left);
  {
    Guardian second = first.successor();
    EXPECT_NE(second.pid(), first.pid());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(exit_status(run(second, Command::shell("exit 7"))), 7);
    }
    EXPECT_EQ(find_marked(mark).size(), 1);
    // The leftovers stay when the successor goes, and go with their own guardian.
  }
  EXPECT_EQ(find_marked(mark).size(), 1);
  first = Guardian::start();
  EXPECT_TRUE(find_marked(mark).empty());
  EXPECT_EQ(run(first, {.words = {"true"}}), 0);
}

TEST(Guardian, EndKillsACommandThatIgnoresSigterm) {
  const std::string mark = new_mark();
  Guardian guardian = Guardian::start();
  guardian.launch(marked_shell("trap '' TERM; kill -STOP $$; sleep 1000", mark));
  wait_for(guardian, Kind::stopped);
  guardian.end(base::boot_time());
  const Event exited = wait_for(guardian, Kind::exited);
  EXPECT_TRUE(WIFSIGNALED(exited.value) && WTERMSIG(exited.value) == SIGKILL);
  if (exited.left) wait_for(guardian, Kind::gone);
  EXPECT_TRUE(find_marked(mark).empty());
}

TEST(Guardian, KillsACommandAtItsTime) {
  Guardian guardian = Guardian::start();
  Command command{.words = {"sleep", "1000"}};
  command.kill_at = base::boot_time() + 10ms;
  guardian.launch(command);
  wait_for(guardian, Kind::overdue);
  const Event exited = wait_for(guardian, Kind::exited);
  EXPECT_TRUE(WIFSIGNALED(exited.value));
  // The time of one command is not that of the next.
  Command quick{.words = {"true"}};
  quick.kill_at = base::boot_time() + 100ms;
  run(guardian, quick);
  EXPECT_EQ(exit_status(run(guardian, Command::shell("sleep 0.2; exit 4"))), 4);
}

TEST(Guardian, PassesSignalsOn) {
  Pipe output;
  Guardian guardian = Guardian::start();
  Command command =
      Command::shell("trap 'echo usr1; exit 5' USR1; echo ready; while :; do sleep 0.01; done");
  command.output = Target::of(output.write.get());
  command.error = Target::null();
  guardian.launch(command);
  std::array<char, 6> ready{};
  ASSERT_EQ(::read(output.read.get(), ready.data(), ready.size()), 6);
  guardian.signal(SIGUSR1);
  EXPECT_EQ(exit_status(wait_for(guardian, Kind::exited).value), 5);
}

TEST(Guardian, StopsAndResumesEverythingThatACommandStarted) {
  const std::string mark = new_mark();
  Guardian guardian = Guardian::start();
  Command command = marked_shell(std::string{leaves_three_kinds} + "exec sleep 1000", mark);
  command.output = Target::null();
  guardian.launch(command);
  ASSERT_TRUE(wait_for_sleepers(mark, 5));
  const auto all_are = [&](bool stopped) {
    return [&mark, stopped] {
      return std::ranges::all_of(find_marked(mark),
                                 [=](pid_t pid) { return (state_of(pid) == 'T') == stopped; });
    };
  };
  for (int i = 0; i < 3; ++i) {
    guardian.stop();
    wait_for(guardian, Kind::stopped);
    EXPECT_TRUE(wait_until(all_are(true)));
    guardian.resume();
    wait_for(guardian, Kind::continued);
    EXPECT_TRUE(wait_until(all_are(false)));
  }
  guardian.stop();  // What is stopped can be ended.
  wait_for(guardian, Kind::stopped);
  guardian.end(base::boot_time() + 1h);
  if (wait_for(guardian, Kind::exited).left) wait_for(guardian, Kind::gone);
  EXPECT_TRUE(find_marked(mark).empty());
}

TEST(Guardian, TheEndOfItsObjectEndsEverything) {
  const std::string mark = new_mark();
  {
    Guardian guardian = Guardian::start();
    guardian.launch(marked_shell(std::string{leaves_three_kinds} + "exec sleep 1000", mark));
    ASSERT_TRUE(wait_for_sleepers(mark, 5));
    // A process that the owner forked has a copy of the socket.
    const pid_t copy = ::fork();
    if (copy == 0) {
      ::pause();
      ::_exit(0);
    }
    Guardian moved = std::move(guardian);
    guardian = Guardian::start();
    moved = std::move(guardian);  // Ends what it had.
    EXPECT_TRUE(find_marked(mark).empty());
    EXPECT_EQ(run(moved, {.words = {"true"}}), 0);
    ::kill(copy, SIGKILL);
    ::waitpid(copy, nullptr, 0);
  }
}

// The order is in the socket when the owner dies. A start would make the file for the output.
TEST(Guardian, StartsNothingAfterTheDeathOfItsOwner) {
  const kit::TemporaryDirectory directory;
  kit::Process owner{[&](const kit::Line& line) {
    Guardian guardian = Guardian::start();
    ::kill(guardian.pid(), SIGSTOP);
    wait_until([&] { return state_of(guardian.pid()) == 'T'; });
    Command command{.words = {"true"}};
    command.output = Target::file(directory / "started");
    guardian.launch(command);
    line.say(std::to_string(guardian.pid()));
    (void)line.hear();
  }};
  const pid_t guardian = std::stoi(owner.hear());
  owner.kill();
  ::kill(guardian, SIGCONT);
  EXPECT_TRUE(wait_until([&] { return is_dead(guardian); }));
  EXPECT_FALSE(std::filesystem::exists(directory / "started"));
}

TEST(Guardian, LeavesWhatItsCommandLeft) {
  adopt_orphans();
  const std::string mark = new_mark();
  {
    Guardian guardian = Guardian::start();
    guardian.launch(marked_shell("sleep 1000 & exit", mark));
    ASSERT_TRUE(wait_for(guardian, Kind::exited).left);
    guardian.leave();
  }
  EXPECT_EQ(find_marked(mark).size(), 1);
  end_orphans({});
  EXPECT_TRUE(find_marked(mark).empty());
}

// A program that cleans up when it is asked to end has the time for that, and no more.
TEST(Guardian, AGraceLetsACommandCleanUpAfterTheDeathOfItsOwner) {
  const kit::TemporaryDirectory directory;
  const std::string lock = directory / "lock";
  const std::string mark = new_mark();
  kit::Process owner{[&](const kit::Line& line) {
    adopt_orphans();
    Guardian guardian = Guardian::start({.grace = std::chrono::seconds{60}});
    guardian.launch(marked_shell(
        "trap 'rm " + lock + "; exit' TERM; touch " + lock + "; while :; do sleep 0.01; done",
        mark));
    (void)wait_until([&] { return std::filesystem::exists(lock); });
    line.say("runs");
    (void)line.hear();
  }};
  EXPECT_EQ(owner.hear(), "runs");
  owner.kill();
  EXPECT_TRUE(wait_until([&] { return find_marked(mark).empty(); }));
  EXPECT_FALSE(std::filesystem::exists(lock));
}

// One that ends with its input is not disturbed: the trap would leave a file.
TEST(Guardian, LingersForACommandThatEndsByItself) {
  const kit::TemporaryDirectory directory;
  const std::string disturbed = directory / "disturbed";
  const std::string mark = new_mark();
  kit::Process owner{[&](const kit::Line& line) {
    adopt_orphans();
    Guardian guardian =
        Guardian::start({.grace = std::chrono::seconds{60}, .linger = std::chrono::seconds{60}});
    const Pipe input;
    Command command =
        marked_shell("trap 'touch " + disturbed + "; exit' TERM; read line; sleep 0.1", mark);
    command.input = Target::of(input.read.get());
    guardian.launch(command);
    line.say("runs");
    (void)line.hear();
  }};
  EXPECT_EQ(owner.hear(), "runs");
  (void)wait_until([&] { return !find_marked(mark).empty(); });
  owner.kill();
  EXPECT_TRUE(wait_until([&] { return find_marked(mark).empty(); }));
  EXPECT_FALSE(std::filesystem::exists(disturbed));
}

TEST(Guardian, EventsWaitForAnOwnerThatDoesNotRead) {
  Guardian guardian = Guardian::start();
  guardian.launch(Command::shell("exec sleep 1000"));
  const pid_t command = wait_for(guardian, Kind::started).value;
  // Far more than the socket takes.
  constexpr int rounds = 400;
  ASSERT_TRUE(wait_until([&] { return state_of(guardian.pid()) == 'S'; }));
  // The guardian has been awake, and sleeps again, when it has seen the change.
  const auto change = [&](int signal, bool stopped) {
    const long before = sleeps_of(guardian.pid());
    ::kill(command, signal);
    return wait_until([&] {
      return (state_of(command) == 'T') == stopped && sleeps_of(guardian.pid()) > before &&
             state_of(guardian.pid()) == 'S';
    });
  };
  for (int i = 0; i < rounds; ++i) {
    ASSERT_TRUE(change(SIGSTOP, true));
    ASSERT_TRUE(change(SIGCONT, false));
  }
  // It has to say so while there is no room.
  const long before = sleeps_of(guardian.pid());
  ::kill(command, SIGTERM);
  ASSERT_TRUE(wait_until([&] {
    return state_of(command) == 'X' && sleeps_of(guardian.pid()) > before &&
           state_of(guardian.pid()) == 'S';
  }));
  EXPECT_TRUE(WIFSIGNALED(wait_for(guardian, Kind::exited).value));
}

}  // namespace
}  // namespace tenure::process
