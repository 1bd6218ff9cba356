// Locks of workflows: tickets of the space, in one queue with those of ordinary processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "space/stored/keys.hpp"
#include "tenure/detail/reserved_keys.hpp"
#include "tenure/flow_test.hpp"
#include "tenure/space.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

std::map<std::string, int>& calls() {
  static std::map<std::string, int> all;
  return all;
}
int count(const std::string& name) { return calls()[name]; }
int call(std::string name, int value) {
  ++calls()[name];
  return value;
}

class FlowLocks : public ::testing::Test {
 protected:
  FlowLocks() { calls().clear(); }
  test::Engine engine;
};

Flow<std::uint64_t> locks(Context& ctx, std::string account) {
  const FlowHold hold = co_await ctx.lock(Path::of("account", account));
  co_await ctx.run("inside", call, "inside", 1);
  co_await ctx.sleep(1h);
  co_await ctx.release(hold);
  co_await ctx.sleep(1h);
  co_return hold.token().value;
}

std::string holders(test::Engine& engine) {
  const Space space = open(std::shared_ptr<Store>{std::shared_ptr<void>{}, &engine.store()});
  std::string text;
  for (const TicketInfo& info : space.inspect(Path::of("account"))) {
    text += info.ticket.owner.text() + (info.granted ? " holds " : " waits for ") +
            info.ticket.claims.at(0).text() + "\n";
  }
  return text;
}

TEST_F(FlowLocks, LocksInTurnAndAcrossCrashes) {
  engine.define("locks", locks);
  const test::Run first = engine.start({.id = "one"}, "locks", "7");
  const test::Run second = engine.start({.id = "two"}, "locks", "7");
  const test::Run third = engine.start({.id = "three"}, "locks", "8");
  EXPECT_EQ(count("inside"), 2);
  EXPECT_EQ(holders(engine),
            "one holds account/7\ntwo waits for account/7\nthree holds account/8\n");
  engine.crash();
  EXPECT_EQ(holders(engine),
            "one holds account/7\ntwo waits for account/7\nthree holds account/8\n");
  engine.recover();
  engine.advance(1h - 1ns);
  EXPECT_EQ(count("inside"), 2);
  engine.advance(1ns);
  EXPECT_EQ(count("inside"), 3);
  EXPECT_EQ(holders(engine), "two holds account/7\n");
  engine.advance(3h);
  EXPECT_LT(first.result<std::uint64_t>(), second.result<std::uint64_t>());
  EXPECT_EQ(holders(engine), "");
}

TEST_F(FlowLocks, ReleasesLocksWithTheEndAndWithCancellation) {
  engine.define("locks", locks);
  engine.start({.id = "one"}, "locks", "7");
  engine.start({.id = "two"}, "locks", "7");
  engine.start({.id = "three"}, "locks", "7");
  engine.cancel("two");  // While it waits.
  EXPECT_EQ(holders(engine), "one holds account/7\nthree waits for account/7\n");
  engine.terminate("one");
  EXPECT_EQ(holders(engine), "three holds account/7\n");
  engine.cancel("three");
  EXPECT_EQ(holders(engine), "");
}

// How many rows the tickets of workflows have, of the claims, the owners and the request ids.
std::size_t ticket_rows(test::Engine& engine) {
  Txn read;
  read.reads.push_back(Range::prefix(stored::below(stored::exclusive_region, Path::of("account"))));
  read.reads.push_back(Range::prefix(std::string{reserved::owner_tickets}));
  read.reads.push_back(Range::prefix(std::string{reserved::request_ids}));
  std::size_t rows = 0;
  for (const auto& found : engine.store().apply(read).reads) rows += found.size();
  return rows;
}

// The next in line then finds nothing to clear away.
TEST_F(FlowLocks, AReleaseRemovesTheTicketInItsOwnTransaction) {
  engine.define("locks", locks);
  const std::size_t before = ticket_rows(engine);
  engine.start({.id = "one"}, "locks", "7");
  EXPECT_EQ(ticket_rows(engine), before + 3);
  engine.advance(1h);
  EXPECT_EQ(ticket_rows(engine), before);
  engine.start({.id = "two"}, "locks", "7");
  EXPECT_EQ(ticket_rows(engine), before + 3);
  engine.terminate("two");
  EXPECT_EQ(ticket_rows(engine), before);
}

TEST_F(FlowLocks, AnEndWithManyLocksGivesAllOfThemBack) {
  engine.define("many", [](Context& ctx) -> Flow<int> {
    for (int i = 0; i < 40; ++i) co_await ctx.lock(Path::of("account", std::to_string(i)));
    co_await ctx.sleep(1h);
    co_return 40;
  });
  const test::Run run = engine.start({.id = "one"}, "many");
  EXPECT_EQ(std::ranges::count(holders(engine), '\n'), 40);
  engine.advance(1h);
  EXPECT_EQ(run.result<int>(), 40);
  EXPECT_EQ(holders(engine), "");
}

TEST_F(FlowLocks, WaitsForTheLockOfAnOrdinaryProcess) {
  engine.define("locks", locks);
  const Space space = open(std::shared_ptr<Store>{std::shared_ptr<void>{}, &engine.store()});
  Hold hold = space.lock(Path::of("account", "7"));
  engine.start({.id = "one"}, "locks", "7");
  EXPECT_EQ(count("inside"), 0);
  EXPECT_FALSE(space.try_lock(Path::of("account", "7")).has_value());
  hold.release();
  engine.settle();
  EXPECT_EQ(count("inside"), 1);
}

TEST_F(FlowLocks, ReleasesALockHoweverItsBodyEnds) {
  engine.define("scoped", [](Context& ctx, bool fails) -> Flow<std::string> {
    std::string text;
    try {
      text = co_await ctx.with_lock(
          Claim{Path::of("account", "7"), Mode::permits(2)},
          [fails](Context& c, FlowHold hold) -> Flow<std::string> {
            const int inside = co_await c.run("inside", call, "inside", 5);
            if (fails) throw std::runtime_error("no");
            co_return std::to_string(inside) + (hold.token().value > 0 ? "!" : "?");
          });
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    co_await ctx.sleep(1h);
    co_return text;
  });
  const test::Run good = engine.start("scoped", false);
  const test::Run bad = engine.start("scoped", true);
  EXPECT_EQ(holders(engine), "");
  engine.advance(1h);
  EXPECT_EQ(good.result<std::string>(), "5!");
  EXPECT_EQ(bad.result<std::string>(), "no");
}

TEST_F(FlowLocks, TellsAWorkflowThatItWouldWaitForItself) {
  engine.define("twice", [](Context& ctx) -> Flow<std::string> {
    co_await ctx.lock(Path::of("account", "7"));
    try {
      co_await ctx.lock(Path::of("account", "7"));
      co_return "twice";
    } catch (const Deadlock&) {
      co_return "deadlock";
    }
  });
  EXPECT_EQ(engine.start("twice").result<std::string>(), "deadlock");
}

}  // namespace
}  // namespace tenure
