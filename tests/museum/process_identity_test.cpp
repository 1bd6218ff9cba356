// The identity of a holder: not its memory, which a fork copies, and not its process id, which
// other namespaces reuse.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "tests/museum/museum.hpp"
#include "tests/museum/witness.hpp"

namespace tenure::museum {
namespace {

const Path book = Path::of("book");
const Path film = Path::of("film");

// ---- fork ----

// The child has a copy that owns nothing: it may release, drop or query it, and may end in any way.
TEST(Museum, M11_AForkedChildCannotGiveBackWhatItsParentHolds) {
  const File file;
  const Process other{lock_client(file.url())};
  Space space = open(file.url());
  Hold hold = space.lock(book);
  const std::stop_token lost = hold.lost();
  const auto in_child = [&](const std::function<int()>& work) {
    Process child{[&](const Line&) { ::_exit(work()); }};
    EXPECT_EQ(child.exit_status(), 0);
    EXPECT_EQ(other.ask("try book"), "taken");
    EXPECT_FALSE(lost.stop_requested());
  };
  in_child([&] { return hold.release() ? 1 : 0; });
  in_child([&] {
    hold = Hold{};
    return 0;
  });
  in_child([&] {
    {
      const Space gone = std::move(space);
    }
    return 0;
  });
  in_child([&]() -> int { std::exit(0); });  // NOLINT(concurrency-mt-unsafe)
  in_child([&] {
    try {
      static_cast<void>(space.try_lock(film));
      return 1;
    } catch (const Error&) {
      return 0;  // The error tells it to open the space again.
    }
  });
  in_child([&] { return open(file.url()).try_lock(book).has_value() ? 1 : 0; });
  in_child([&] { return open(file.url()).try_lock(film).has_value() ? 0 : 1; });
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release());
  EXPECT_EQ(other.ask("try book"), "holds");
}

// A child that lives on does not keep what its parent held.
TEST(Museum, M11_AChildThatOutlivesItsParentKeepsNothing) {
  const File file;
  Process parent{[&](const Line& line) {
    Space space = open(file.url());
    const Hold hold = space.lock(book);
    const pid_t child = ::fork();  // A bare fork: a Process would end with its parent.
    if (child == 0) ::pause();
    line.say(std::to_string(child));
    ::pause();
  }};
  const pid_t child = std::stoi(parent.hear());
  Space space = open(file.url());
  EXPECT_FALSE(space.try_lock(book).has_value());
  parent.kill();
  EXPECT_TRUE(space.lock(book));
  EXPECT_EQ(::kill(child, 0), 0) << "the child is alive";
  ::kill(child, SIGKILL);
}

// ---- Process numbers ----

// Enters a new PID namespace, as a container has; false if that is not allowed.
bool enter_own_numbers() {
  const uid_t user = ::getuid();
  if (::unshare(CLONE_NEWPID) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) return false;
  std::ofstream{"/proc/self/uid_map"} << user << ' ' << user << " 1";
  return true;
}

// Runs the body as process 1 of such a namespace. Says "not allowed" if there is none.
Process::Body contained(const Process::Body& body) {
  return [body](const Line& line) {
    if (!enter_own_numbers()) return line.say("not allowed");
    // A bare fork: the first process of a namespace can't see its parent, which a Process needs.
    const pid_t first = ::fork();
    if (first == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(line);
      ::_exit(0);
    }
    ::waitpid(first, nullptr, 0);
  };
}

void hold_until_killed(const std::string& url, const Path& path, const Line& line) {
  Space space = open(url);
  const Hold hold = space.lock(path);
  line.say(std::to_string(::getpid()));
  ::pause();
}

TEST(Museum, M12_HoldersWithTheSameNumberAreStillTwo) {
  const File file;
  Process one{contained([&](const Line& line) { hold_until_killed(file.url(), book, line); })};
  Process two{contained([&](const Line& line) { hold_until_killed(file.url(), film, line); })};
  const std::string number = one.hear();
  if (number == "not allowed") GTEST_SKIP() << "no namespaces here";
  ASSERT_EQ(number, "1");
  ASSERT_EQ(two.hear(), "1");
  Space space = open(file.url());
  EXPECT_FALSE(space.try_lock(book).has_value()) << "process 1 of here is not theirs";
  EXPECT_FALSE(space.try_lock(film).has_value());
  one.kill();
  EXPECT_TRUE(space.lock(book));
  EXPECT_FALSE(space.try_lock(film).has_value()) << "the other process 1 lives";
  two.kill();
  EXPECT_TRUE(space.lock(film));
}

// As fork(), but the child gets this process id. The child must not do much: the C library does not
// know of it.
pid_t fork_as(pid_t number) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  args.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

TEST(Museum, M12_ANumberThatIsUsedAgainDoesNotRaiseTheDead) {
  const File file;
  const Process family{contained([&](const Line& line) {
    Process holding{[&](const Line&) { hold_until_killed(file.url(), book, line); }};
    static_cast<void>(line.hear());
    const pid_t holder = holding.pid();
    holding.kill();
    const pid_t again = fork_as(holder);
    if (again == 0) {
      for (;;) ::pause();
    }
    line.say(again == holder ? "the number lives again" : "not allowed");
    ::pause();
  })};
  if (family.hear() == "not allowed") GTEST_SKIP() << "no namespaces here";
  const std::string said = family.ask("go");
  if (said == "not allowed") GTEST_SKIP() << "process numbers can't be chosen here";
  ASSERT_EQ(said, "the number lives again");
  const Space space = open(file.url());
  EXPECT_TRUE(space.try_lock(book).has_value());
}

}  // namespace
}  // namespace tenure::museum
