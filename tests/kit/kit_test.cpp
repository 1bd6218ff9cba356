// The kit itself: what it says when children and servers fail, and that it leaves none behind.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tenure/tenure.hpp"
#include "tests/kit/etcd.hpp"
#include "tests/kit/lock_client.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/pgbouncer.hpp"
#include "tests/kit/postgres.hpp"
#include "tests/kit/process.hpp"
#include "tests/kit/redis.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure::kit {
namespace {

// Gone, or a zombie whose new parent has not waited for it.
bool ended(pid_t pid) {
  std::ifstream stat{"/proc/" + std::to_string(pid) + "/stat"};
  const std::string text{std::istreambuf_iterator<char>{stat}, {}};
  return text.empty() || contains(text, ") Z ") || contains(text, ") X ");
}

TEST(KitProcess, ReportsHowItEnded) {
  Process good{[](const Line&) {}};
  Process throwing{[](const Line&) { throw Error("expected by kit_test"); }};
  Process killed{[](const Line&) { ::raise(SIGTERM); }};
  Process missing{Program{.words = {"/nowhere"}}};
  EXPECT_EQ(good.exit_status(), 0);
  EXPECT_EQ(throwing.exit_status(), 99);
  EXPECT_EQ(killed.exit_status(), 128 + SIGTERM);
  EXPECT_EQ(missing.exit_status(), 127);
  EXPECT_TRUE(contains(message_of<Error>([] { Process{Program{.words = {"no-such-program"}}}; }),
                       "'no-such-program' is not installed"));
}

TEST(KitProcess, ADeadOneDoesNotAnswer) {
  Process process{[](const Line& line) { std::ignore = line.hear(); }};
  process.tell("end");
  EXPECT_TRUE(contains(message_of<Error>([&] { std::ignore = process.hear(); }),
                       "ended before it answered"));
  EXPECT_EQ(process.exit_status(), 0);
  EXPECT_FALSE(process.runs());
}

TEST(KitProcess, MessagesKeepTheirBounds) {
  const Process echo{[](const Line& line) {
    while (const auto text = line.hear()) line.say(*text);
  }};
  const std::string large(100'000, 'x');
  echo.tell("a");
  echo.tell(large);
  EXPECT_EQ(echo.hear(), "a");
  EXPECT_EQ(echo.hear(), large);
  echo.line().send({});
  echo.line().send({1.5, -2});
  EXPECT_EQ(echo.line().next(), Numbers{});
  EXPECT_EQ(echo.line().next(), (Numbers{1.5, -2}));
}

TEST(KitProcess, AMovedOneIsKilledOnce) {
  Process first{[](const Line&) { ::pause(); }};
  const pid_t pid = first.pid();
  {
    const Process second{std::move(first)};
    EXPECT_TRUE(second.runs());
  }
  EXPECT_TRUE(ended(pid));
}

TEST(KitProcess, IsStoppedAndGoesOn) {
  const Shared<std::atomic<bool>> enough;
  Process process{[&](const Line&) {
    while (!*enough) ::usleep(1000);
  }};
  process.stop();
  EXPECT_TRUE(process.runs());
  *enough = true;
  process.go_on();
  EXPECT_EQ(process.exit_status(), 0);
}

// A child, a program and a server of a test that is killed end with it.
TEST(KitProcess, EndsWithItsParent) {
  Process parent{[](const Line& line) {
    const Process child{[](const Line&) { ::pause(); }};
    const Process program{Program{.words = {"sleep", "600"}}};
    const Redis server;
    line.say(std::to_string(child.pid()));
    line.say(std::to_string(program.pid()));
    line.say(std::to_string(server.pid()));
    ::pause();
  }};
  std::vector<pid_t> pids;
  for (int i = 0; i < 3; ++i) pids.push_back(std::stoi(parent.hear()));
  for (const pid_t pid : pids) EXPECT_FALSE(ended(pid)) << pid;
  parent.kill();
  for (const pid_t pid : pids) until([pid] { return ended(pid); });
}

TEST(KitProcess, ProgramsReportTheirOutput) {
  EXPECT_EQ(run({"echo", "hello"}), "hello\n");
  EXPECT_TRUE(contains(message_of<Error>([] { run({"sh", "-c", "echo broken; exit 3"}); }),
                       "failed with status 3: broken"));
}

TEST(KitScratch, IsRemovedByItsOwnerOnly) {
  std::filesystem::path path;
  {
    const Scratch scratch{"tenure-kit-"};
    path = scratch.path();
    Process child{[&](const Line&) { scratch.~Scratch(); }};
    EXPECT_EQ(child.exit_status(), 0);
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(KitScratch, OfADeadOwnerIsRemovedByTheNextOne) {
  std::string left;
  {
    Process owner{[](const Line& line) {
      const Scratch scratch{"tenure-kit-"};
      line.say(scratch.path().string());
      ::pause();
    }};
    left = owner.hear();
  }
  EXPECT_TRUE(std::filesystem::exists(left));
  const Scratch next{"tenure-kit-"};
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST(KitServer, OneThatDoesNotStartIsReportedWithItsLog) {
  const std::string error = message_of<Error>([] { Etcd({.words = {"--no-such-flag"}}); });
  EXPECT_TRUE(contains(error, "etcd ended with status")) << error;
  EXPECT_TRUE(contains(error, "no-such-flag")) << error;
}

TEST(KitServer, IsKilledAndRestarted) {
  Etcd server;
  server.etcdctl({"put", "key", "value"});
  server.kill();
  EXPECT_FALSE(server.runs());
  EXPECT_FALSE(server.ready());
  server.restart();
  EXPECT_TRUE(contains(server.etcdctl({"get", "key"}), "value"));
}

TEST(KitServer, PostgresAndItsPooler) {
  const Schema schema;
  const PgBouncer pooler;
  const Process client{lock_client()};
  EXPECT_EQ(client.ask("open " + schema.url_at(pooler.port()) + " 30000"), "ok");
  EXPECT_EQ(client.ask("lock book"), "holds");
  EXPECT_EQ(Postgres::instance().sql("SELECT count(*) FROM " + schema.name() + ".holders"), "1");
}

TEST(KitLockClient, SaysWhatIsWrong) {
  const Process client{lock_client("sqlite:/nowhere/app.db")};
  EXPECT_TRUE(client.ask("lock book").starts_with("error: "));
  const Process without{lock_client()};
  EXPECT_EQ(without.ask("try book"), "error: no space is open: tell the client to open one");
  const Process other{lock_client("memory:")};
  EXPECT_EQ(other.ask("sing"), "error: no such command: sing");
  EXPECT_EQ(other.ask("count"), "0");
}

}  // namespace
}  // namespace tenure::kit
