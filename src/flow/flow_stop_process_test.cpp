// An engine that is stopped while it syncs a commit, so inside its write transaction. On SQLite it
// is alive: everybody who writes waits for it, until it goes on or is killed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>

#include "tenure/flow.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/scratch.hpp"

namespace {
constinit std::atomic<bool> stop_at_sync = false;
}  // namespace

// The program's definition takes precedence over that of the C library, for SQLite too.
extern "C" int fdatasync(int file) {
  if (stop_at_sync.exchange(false)) ::kill(::getpid(), SIGSTOP);
  return static_cast<int>(::syscall(SYS_fdatasync, file));
}

namespace tenure {
namespace {

int next(int value) { return value + 1; }
Flow<int> two_steps(Context& ctx, int value) {
  value = co_await ctx.run("first", next, value);
  co_return co_await ctx.run("second", next, value);
}

// Obeys "stop" (starts a workflow, and stops in the sync of its start), "start" and "wait": of the
// workflows w0 to w9.
void serve(const std::string& where, const kit::Line& line) {
  Engine engine{store(where), {.partitions = 8}};
  engine.define("two-steps", two_steps);
  engine.recover_all();
  line.say("ready");
  for (std::optional<std::string> heard = line.hear(); heard; heard = line.hear()) {
    int wrong = 0;
    if (heard == "stop") {
      stop_at_sync = true;
      wrong += engine.start({.id = "own"}, "two-steps", 40).result<int>() == 42 ? 0 : 1;
    }
    for (int i = 0; i < 10 && heard != "stop"; ++i) {
      const std::string id = "w" + std::to_string(i);
      if (heard == "start") {
        engine.start({.id = id}, "two-steps", i);
      } else {
        wrong += engine.run(id).result<int>() == i + 2 ? 0 : 1;
      }
    }
    line.say(std::to_string(wrong) + " wrong");
  }
}

class FlowStopped : public ::testing::Test {
 protected:
  [[nodiscard]] kit::Process engine() const {
    kit::Process process{[where = "sqlite:" + (directory_ / "a.db").string()](
                             const kit::Line& line) { serve(where, line); }};
    EXPECT_EQ(process.hear(), "ready");
    return process;
  }
  static void stop_inside_a_write(const kit::Process& process) {
    process.tell("stop");
    int status = 0;
    ASSERT_EQ(::waitpid(process.pid(), &status, WUNTRACED), process.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  static bool is_silent(const kit::Process& process) {
    pollfd answer{.fd = process.line().socket(), .events = POLLIN, .revents = 0};
    return ::poll(&answer, 1, 300) == 0;
  }

  kit::TemporaryDirectory directory_;
};

TEST_F(FlowStopped, InsideAWriteDelaysTheOthersUntilItGoesOn) {
  const kit::Process stopped = engine();
  const kit::Process other = engine();
  stop_inside_a_write(stopped);
  other.tell("start");
  EXPECT_TRUE(is_silent(other));
  stopped.go_on();
  EXPECT_EQ(other.hear(), "0 wrong");
  EXPECT_EQ(stopped.hear(), "0 wrong");
  EXPECT_EQ(other.ask("wait"), "0 wrong");
  EXPECT_EQ(stopped.ask("wait"), "0 wrong");
}

TEST_F(FlowStopped, InsideAWriteDelaysTheOthersUntilItIsKilled) {
  kit::Process stopped = engine();
  const kit::Process other = engine();
  stop_inside_a_write(stopped);
  other.tell("start");
  EXPECT_TRUE(is_silent(other));
  stopped.kill();
  EXPECT_EQ(other.hear(), "0 wrong");
  EXPECT_EQ(other.ask("wait"), "0 wrong");
}

}  // namespace
}  // namespace tenure
