// Pauses, wrong clocks, whose time counts, and in which order things end: on servers.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "tenure/tenure.hpp"
#include "tests/kit/clock.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/network.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;

// ---- Two who believe that they hold ----

// Deposits an amount: reads under the lock, waits for the test, and writes the sum.
Process::Body payer(bool guarded) {
  return [guarded](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    const Space space = open(used, {.label = {}, .ttl = 3s});
    const int amount = std::stoi(line.hear().value());
    const Hold hold = space.lock(Path::of("account"));
    Txn txn;
    txn.reads.push_back(Range::key("balance"));
    const auto found = used->apply(txn).reads.front();
    const int sum = amount + (found.empty() ? 0 : std::stoi(found.front().value));
    line.say(std::to_string(hold.token().value));
    static_cast<void>(line.hear());
    if (guarded) txn.guards = hold.guard();
    txn.writes.push_back(Write::put("balance", std::to_string(sum)));
    line.say(used->apply(txn).committed ? "written" : "refused");
    static_cast<void>(line.hear());
  };
}

// The slow process is paused between its read and its write until its lease has expired and the
// quick one, which waited for that, has read and written.
class NetworkPause : public NetworkMuseum {
 protected:
  void pay_in(bool guarded) {
    const Process slow{payer(guarded)};
    const Process quick{payer(guarded)};
    slow.tell(url());
    const std::size_t old_token = number_of(slow.ask("1"));
    slow.stop();
    quick.tell(url());
    const std::size_t new_token = number_of(quick.ask("10"));
    EXPECT_GT(new_token, old_token) << "whoever remembers the last token refuses the old one";
    EXPECT_EQ(quick.ask("write"), "written");
    slow.go_on();
    EXPECT_EQ(slow.ask("write"), guarded ? "refused" : "written");
    const Process looking{lock_client(url())};
    balance = looking.ask("read balance");
  }
  std::string balance;
};

TEST_P(NetworkPause, M02_WithTheGuardNoUpdateIsLost) {
  pay_in(true);
  EXPECT_EQ(balance, "10") << "the slow one was told that it paid nothing in";
}

// Both were told that they had deposited, and 10 are missing: this can happen, and the guard
// prevents it.
TEST_P(NetworkPause, M02_WithoutItTheLateWriteGoesThrough) {
  pay_in(false);
  EXPECT_EQ(balance, "1");
}

// The same for a table of the user, in a transaction of the user.
TEST_F(PostgresMuseum, M02_TheFenceRefusesAHolderThatWasGivenUp) {
  const Process slow{lock_client()};
  const Process quick{lock_client()};
  ASSERT_EQ(slow.ask("open " + schema.url() + " 3000"), "ok");
  ASSERT_EQ(quick.ask("open " + schema.url() + " 60000"), "ok");
  ASSERT_EQ(slow.ask("lock account"), "holds");
  const std::string slow_key = slow.ask("key");
  sql("CREATE TABLE @.balance AS SELECT 0 AS sum");
  const auto pay = [&](const std::string& key, int amount) {
    sql("BEGIN; SELECT @.fence('\\x" + key + "'); UPDATE @.balance SET sum = sum + " +
        std::to_string(amount) + "; COMMIT");
  };
  pay(slow_key, 1);
  slow.stop();
  ASSERT_EQ(quick.ask("lock account"), "holds");
  pay(quick.ask("key"), 10);
  EXPECT_THROW(pay(slow_key, 100), std::runtime_error);
  EXPECT_EQ(sql("SELECT sum FROM @.balance"), "11");
  sql("UPDATE @.balance SET sum = sum + 100");  // A write without a fence.
  EXPECT_EQ(sql("SELECT sum FROM @.balance"), "111");
  slow.go_on();
  EXPECT_EQ(slow.ask("until lost"), "lost");
}

// ---- Wall clocks ----

Process::Body with_wall_clock(std::chrono::nanoseconds by) {
  return [by](const Line& line) {
    kit::move_wall_clock(by);
    lock_client()(line);
  };
}

// Years ahead or behind, before and while it holds: the process neither loses what it holds nor
// gets what others hold, and the queue is in order of arrival.
TEST_P(NetworkMuseum, M21_AClientsWallClockDecidesNothing) {
  constexpr auto years = 24h * 365 * 5;
  const Process ahead{with_wall_clock(years)};
  const Process behind{with_wall_clock(-years)};
  const Process right{lock_client()};
  const Process looking{lock_client(url())};
  for (const Process* const one : {&right, &behind, &ahead}) {
    ASSERT_EQ(one->ask(opening(20s)), "ok");
  }
  std::size_t last = 0;
  for (const Process* const holder : {&behind, &ahead, &right, &behind}) {
    ASSERT_EQ(holder->ask("lock book"), "holds");
    const std::size_t token = number_of(holder->ask("token"));
    EXPECT_GT(token, last);
    last = token;
    std::size_t lined_up = 0;
    for (const Process* const other : {&ahead, &right, &behind}) {
      if (other == holder) continue;
      EXPECT_EQ(other->ask("try book"), "taken");
      other->tell("lock book");
      until_waiting(looking, ++lined_up);
    }
    EXPECT_EQ(holder->ask("is lost"), "no");
    EXPECT_EQ(holder->ask("release"), "yes");
    for (const Process* const other : {&ahead, &right, &behind}) {
      if (other == holder) continue;
      EXPECT_EQ(other->hear(), "holds");
      last = number_of(other->ask("token"));
      EXPECT_EQ(other->ask("release"), "yes");
    }
  }
}

// If the wall clock is set during a call, the call becomes neither longer nor shorter.
TEST(EtcdMuseum, M21_AWallClockThatIsSetBackDelaysNoAnswer) {
  kit::Etcd server;
  const Process asking{[](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    used->apply({});
    line.say("open");
    static_cast<void>(line.hear());
    const std::jthread setting{[] {
      // The call is under way by then, or begins later; either is fine.
      std::this_thread::sleep_for(500ms);
      kit::move_wall_clock(-24h);
    }};
    try {
      used->apply({});
      line.say("answered");
    } catch (const StoreError&) {
      line.say("told");
    }
  }};
  ASSERT_EQ(asking.ask(server.url("museum") + "?timeout=3s"), "open");
  server.kill();
  EXPECT_EQ(asking.ask("go"), "told") << "and not in a day";
}

// PostgreSQL uses the server's wall clock: if it is set forward, sessions end early. The effect is
// that of a pause: the holder is notified, and its late write is refused.
TEST_F(PostgresMuseum, M21_AServersClockThatIsPutForwardPassesLocksOnAndTheGuardStands) {
  const Process holder{lock_client()};
  const Process next{lock_client()};
  ASSERT_EQ(holder.ask("open " + schema.url() + " 60000"), "ok");
  ASSERT_EQ(next.ask("open " + schema.url() + " 3600000"), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  ASSERT_EQ(next.ask("try book"), "taken");
  sql("UPDATE @.session SET deadline = deadline - interval '90 seconds'");
  EXPECT_EQ(next.ask("lock book"), "holds");
  EXPECT_EQ(holder.ask("write account late"), "no");
  EXPECT_EQ(next.ask("write account mine"), "yes");
  EXPECT_EQ(holder.ask("release"), "no");
}

// ---- What was true before a pause ----

// Stopped past the end of its own max_hold, not of its lease.
TEST_P(NetworkMuseum, M22_AHolderThatWasPausedPastItsDeadlineRenewsAndWritesNothing) {
  const Process holder{lock_client()};
  const Process next{lock_client()};
  ASSERT_EQ(holder.ask(opening(1h)), "ok");
  ASSERT_EQ(next.ask(opening(1h)), "ok");
  ASSERT_EQ(holder.ask("limit 2000000000"), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  holder.stop();
  EXPECT_EQ(next.ask("lock book"), "holds");
  holder.go_on();
  EXPECT_EQ(holder.ask("renew"), "no");
  EXPECT_EQ(holder.ask("write account late"), "no");
  EXPECT_EQ(next.ask("write account mine"), "yes");
  EXPECT_EQ(holder.ask("until lost"), "lost");
  EXPECT_EQ(holder.ask("release"), "no");
}

// The renewal itself is late: it was sent before the deadline, and arrives after it.
TEST_P(NetworkMuseum, M22_ARenewalThatArrivesBehindTheDeadlineIsNone) {
  const Process holder{lock_client()};
  const Process next{lock_client()};
  kit::Proxy network{port()};
  ASSERT_EQ(holder.ask(opening(1h, network.port())), "ok");
  ASSERT_EQ(next.ask(opening(1h)), "ok");
  ASSERT_EQ(holder.ask("limit 2000000000"), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  next.tell("lock book");
  network.delay(3s);
  holder.tell("renew");
  EXPECT_EQ(next.hear(), "holds");
  network.delay(0s);
  EXPECT_EQ(holder.hear(), "no");
  EXPECT_EQ(next.ask("is lost"), "no");
  EXPECT_LT(number_of(holder.ask("lost at")), number_of(next.ask("granted at")));
}

// ---- Whose time counts ----

// A contender with a lease of seconds does not apply it to the holder.
TEST_P(NetworkMuseum, M23_AHolderIsJudgedByItsOwnLease) {
  const Process holder{lock_client()};
  const Process hasty{lock_client()};
  const Process looking{lock_client(url())};
  ASSERT_EQ(holder.ask(opening(1h)), "ok");
  ASSERT_EQ(hasty.ask(opening(4s)), "ok");
  ASSERT_EQ(hasty.ask("limit 1000000000"), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  holder.stop();
  const auto now = [&] { return Instant{std::chrono::nanoseconds{number_of(looking.ask("now"))}}; };
  for (const Instant start = now(); now() < start + 9s;) {
    ASSERT_EQ(hasty.ask("try book"), "taken");
  }
  hasty.tell("lock book");
  until_waiting(looking, 1);
  holder.go_on();
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(holder.ask("release"), "yes");
  EXPECT_EQ(hasty.hear(), "holds");
}

// The opposite: a contender with a lease of an hour need not wait an hour for a dead holder with a
// lease of seconds.
TEST_P(NetworkMuseum, M23_APatientContenderWaitsForTheHoldersLeaseOnly) {
  Process holder{lock_client()};
  const Process patient{lock_client()};
  ASSERT_EQ(holder.ask(opening(2s)), "ok");
  ASSERT_EQ(patient.ask(opening(24h)), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  holder.kill();
  EXPECT_EQ(patient.ask("lock book"), "holds");
}

// ---- In which order things end ----

// The space is closed while the work goes on: the hold keeps the session, which is renewed until
// the hold is released.
TEST_P(NetworkMuseum, M24_AtShutdownTheHoldOutlivesTheSpaceAndTheSessionTheHold) {
  constexpr auto ttl = 6s;
  const Process leaving{[&](const Line& line) {
    Hold hold;
    {
      const Space space = open(store(line.hear().value()), {.label = {}, .ttl = ttl});
      hold = space.lock(Path::of("book"));
      line.say("holds");
      static_cast<void>(line.hear());
    }
    line.say("closed");
    static_cast<void>(line.hear());
    line.say(hold.release() ? "yes" : "no");
    static_cast<void>(line.hear());
  }};
  const Process next{lock_client()};
  const Process looking{lock_client(url())};
  ASSERT_EQ(leaving.ask(url()), "holds");
  ASSERT_EQ(next.ask(opening(1h)), "ok");
  ASSERT_EQ(looking.ask("count"), "1");
  ASSERT_EQ(sessions().size(), 3U);
  ASSERT_EQ(leaving.ask("close"), "closed");
  const auto now = [&] { return Instant{std::chrono::nanoseconds{number_of(looking.ask("now"))}}; };
  for (const Instant start = now(); now() < start + 2 * ttl;) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(next.ask("try book"), "taken");
  next.tell("lock book");
  until_waiting(looking, 1);
  EXPECT_EQ(leaving.ask("release"), "yes");
  EXPECT_EQ(next.hear(), "holds");
  until([&] { return sessions().size() == 2; });  // The last to go.
}

INSTANTIATE_TEST_SUITE_P(Pause, NetworkPause, ::testing::Values(Kind::postgres, Kind::etcd),
                         name_of);

}  // namespace
}  // namespace tenure::museum
