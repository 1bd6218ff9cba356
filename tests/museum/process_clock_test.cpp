// Wrong clocks, and processes that do not run for a while.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/kit/clock.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/witness.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");

constexpr auto one_hour = "limit 3600000000000";

Process::Body client_with_wall_clock(const std::string& url, std::chrono::nanoseconds by) {
  return [body = lock_client(url), by](const Line& line) {
    kit::move_wall_clock(by);
    body(line);
  };
}

// A process whose wall clock is wrong, or is set while it holds, neither loses what it holds nor
// gets what others hold.
TEST(Museum, M21_AWallClockThatIsWrongDecidesNothing) {
  constexpr auto years = 24h * 365 * 10;
  const File file;
  const Process ahead{client_with_wall_clock(file.url(), years)};
  const Process behind{client_with_wall_clock(file.url(), -years)};
  for (const Process* const holder : {&ahead, &behind}) {
    const Process& other = holder == &ahead ? behind : ahead;
    ASSERT_EQ(holder->ask(one_hour), "ok");
    EXPECT_EQ(holder->ask("lock book"), "holds");
    EXPECT_EQ(other.ask("try book"), "taken");
    EXPECT_EQ(holder->ask("is lost"), "no");
    EXPECT_EQ(holder->ask("renew"), "yes");
    EXPECT_EQ(other.ask("try book"), "taken");
    EXPECT_EQ(holder->ask("release"), "yes");
  }
  const std::shared_ptr<Store> files = store(file.url());
  Space space = open(files);
  ASSERT_EQ(ahead.ask("lock book"), "holds");
  for (const auto by : {years, -2 * years, years}) {
    kit::move_wall_clock(by);
    const std::optional<Instant> deadline = space.inspect().at(0).deadline;
    EXPECT_GT(*deadline, files->now());
    EXPECT_LE(*deadline, files->now() + 1h);
    EXPECT_FALSE(space.try_lock(book).has_value());
  }
}

// Two processes open a new store at moments years apart by their own clocks: the clock of the first
// one counts.
TEST(Museum, M21_TheStoreHasOneClockForAll) {
  const File file;
  const Process ahead{client_with_wall_clock(file.url(), 24h * 365)};
  ASSERT_EQ(ahead.ask("try film"), "holds");
  const std::shared_ptr<Store> files = store(file.url());
  const Instant now = files->now();
  const Instant since = *open(files).inspect().at(0).since;
  EXPECT_LE(since, now);
  EXPECT_LE(now, since + 24h);
  EXPECT_GT(now, std::chrono::system_clock::now() + 24h * 364) << "the first one's wall time";
}

// ---- Stopped ----

// Stopped for a day, a process still holds what it held: there is no lease to expire.
TEST(Museum, M37_AStoppedHolderKeepsItsLock) {
  kit::share_boot_clock();
  const File file;
  const Process holder{lock_client(file.url())};
  const Process next{lock_client(file.url())};
  Space space = open(file.url());
  EXPECT_EQ(holder.ask("lock book"), "holds");
  next.tell("lock book");
  until_waiting(space, 1);
  holder.stop();
  kit::move_boot_clock(24h);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(space.try_lock(book).has_value());
  EXPECT_EQ(space.inspect().front().pid, holder.pid());
  EXPECT_EQ(waiting(space), 1U);
  holder.go_on();
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(holder.ask("release"), "yes");
  EXPECT_EQ(next.hear(), "holds");
}

// With a max_hold the lock passes on, and the stopped process learns it before it can do harm: its
// hold is lost, and the store refuses its guard.
TEST(Museum, M37_AStoppedHolderThatIsOverdueIsToldWhenItWakes) {
  kit::share_boot_clock();
  const File file;
  const Process holder{lock_client(file.url())};
  const Process next{lock_client(file.url())};
  ASSERT_EQ(holder.ask(one_hour), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  Space space = open(file.url());
  next.tell("lock book");
  until_waiting(space, 1);
  holder.stop();
  kit::move_boot_clock(59min);
  EXPECT_FALSE(space.try_lock(book).has_value());
  kit::move_boot_clock(2min);
  EXPECT_EQ(next.hear(), "holds");
  holder.go_on();
  EXPECT_EQ(holder.ask("until lost"), "lost");
  EXPECT_EQ(holder.ask("renew"), "no");
  EXPECT_EQ(holder.ask("release"), "no");
  EXPECT_EQ(space.inspect().front().pid, next.pid());
  EXPECT_EQ(next.ask("is lost"), "no");
}

// The process runs slowly, and the machine slept: it is notified a margin before the next grant.
TEST(Museum, M03_AHolderIsToldBeforeTheNextOneGetsIn) {
  kit::share_boot_clock();
  const File file;
  const Process holder{lock_client(file.url())};
  const Process next{lock_client(file.url())};
  ASSERT_EQ(holder.ask(one_hour), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  Space space = open(file.url());
  next.tell("lock book");
  until_waiting(space, 1);
  kit::move_boot_clock(1h - 900ms);  // The margin is one second.
  EXPECT_EQ(holder.ask("until lost"), "lost");
  EXPECT_EQ(next.hear(), "holds");
  EXPECT_LT(std::stoll(holder.ask("lost at")), std::stoll(next.ask("granted at")));
}

// ---- What a late writer can do ----

// One process deposits 1 and is stopped after it has read the balance. An operator takes it for
// dead. Another deposits 10. The first wakes, and writes the sum that it had computed.
std::string paid_in(bool guarded) {
  const File file;
  const auto pay = [&](const Line& line) {
    const int amount = std::stoi(line.hear().value());
    const std::shared_ptr<Store> files = store(file.url());
    Space space = open(files);
    const Hold hold = space.lock(book);
    Txn txn;
    txn.reads.push_back(Range::key("account"));
    const auto found = files->apply(txn).reads.front();
    const int sum = amount + (found.empty() ? 0 : std::stoi(found.front().value));
    line.say(std::to_string(hold.token().value));
    static_cast<void>(line.hear());
    if (guarded) txn.guards = hold.guard();
    txn.writes.push_back(Write::put("account", std::to_string(sum)));
    line.say(files->apply(txn).committed ? "written" : "refused");
  };
  const Process slow{pay};
  const Process quick{pay};
  const Token token{std::stoull(slow.ask("1"))};
  slow.stop();
  quick.tell("10");
  const std::shared_ptr<Store> files = store(file.url());
  Space space = open(files);
  until_waiting(space, 1);
  EXPECT_TRUE(space.evict_now(token));
  static_cast<void>(quick.hear());
  EXPECT_EQ(quick.ask("write"), "written");
  slow.go_on();
  EXPECT_EQ(slow.ask("write"), guarded ? "refused" : "written");
  Txn read;
  read.reads.push_back(Range::key("account"));
  return files->apply(read).reads.front().at(0).value;
}

TEST(Museum, M41_WithTheGuardALateWriteIsRefused) { EXPECT_EQ(paid_in(true), "10"); }

// Both were told that they had deposited, and 10 are missing: this is what the guard prevents.
TEST(Museum, M41_WithoutItAnUpdateIsLost) { EXPECT_EQ(paid_in(false), "1"); }

}  // namespace
}  // namespace tenure::museum
