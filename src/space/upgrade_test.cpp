// From shared to exclusive without letting go, in every space.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;
using AnyUpgrade = AnySpace;
TENURE_IN_ALL_SPACES(AnyUpgrade);

const Path book = Path::of("book");

TEST_P(AnyUpgrade, OfTheOnlyReaderIsGrantedAtOnce) {
  const Space space = open_new();
  Hold hold = space.lock(book.shared());
  const Token first = hold.token();
  hold.upgrade(book);
  EXPECT_GT(hold.token(), first);
  EXPECT_EQ(hold.claims(), std::vector{book.exclusive()});
  await_tickets(space, 1);
  EXPECT_EQ(told(space), "1 holds book");
  EXPECT_FALSE(space.try_lock(book.shared()));
  hold.downgrade(book.shared());
  EXPECT_TRUE(hold.try_upgrade(book));
  EXPECT_TRUE(hold.release());
  await_tickets(space, 0);
  EXPECT_TRUE(space.try_lock(book));
}

TEST_P(AnyUpgrade, WaitsForTheOtherReaders) {
  const Space space = open_new();
  std::optional<Hold> other = space.lock(book.shared());
  Hold hold = space.lock(book.shared());
  std::optional<Hold> later = space.lock(book.shared());
  const Token latest = later->token();
  EXPECT_FALSE(hold.try_upgrade(book));
  std::atomic<bool> in = false;
  std::jthread upgrader{[&] {
    hold.upgrade(book);
    in = true;
  }};
  await_waiters(space, 1);
  EXPECT_EQ(told(space),
            "1 holds book:shared, 2 holds book:shared, 3 holds book:shared, "
            "4 waits for book at 1 behind 1 3");
  EXPECT_FALSE(space.try_lock(book.shared())) << "new readers queue behind it";
  other.reset();
  await_tickets(space, 3);
  EXPECT_FALSE(in);
  later.reset();
  upgrader.join();
  EXPECT_GT(hold.token(), latest);
  await_tickets(space, 1);
}

TEST_P(AnyUpgrade, OfTwoReadersTheSecondIsTold) {
  const Space space = open_new();
  Hold first = space.lock(book.shared());
  Hold second = space.lock(book.shared());
  const Token token = second.token();
  std::jthread upgrader{[&] { first.upgrade(book); }};
  await_waiters(space, 1);
  const std::string refused = kit::message_of<Deadlock>([&] { second.upgrade(book); });
  EXPECT_TRUE(refused.starts_with("deadlock: ")) << refused;
  EXPECT_EQ(second.token(), token);
  EXPECT_FALSE(second.try_upgrade(book));
  EXPECT_TRUE(second.release());
  upgrader.join();
  await_tickets(space, 1);
  EXPECT_TRUE(first.release());
}

TEST_P(AnyUpgrade, BeforeAWaitingWriterIsADeadlock) {
  const Space space = open_new();
  Hold hold = space.lock(book.shared());
  std::jthread writer{[&] { static_cast<void>(space.lock(book)); }};
  await_waiters(space, 1);
  EXPECT_THROW(hold.upgrade(book), Deadlock);
  EXPECT_TRUE(hold.release());
}

TEST_P(AnyUpgrade, ThatIsGivenUpLeavesTheHold) {
  const Space space = open_new();
  std::optional<Hold> other = space.lock(book.shared());
  Hold hold = space.lock(book.shared());
  const Token token = hold.token();
  EXPECT_FALSE(hold.try_upgrade_for(book, 1ms));
  std::stop_source stop;
  std::jthread stopper{[&] {
    await_waiters(space, 1);
    stop.request_stop();
  }};
  EXPECT_FALSE(hold.upgrade(book, stop.get_token()));
  stopper.join();
  await_tickets(space, 2);
  EXPECT_EQ(hold.token(), token);
  EXPECT_TRUE(space.try_lock(book.shared()));
  EXPECT_FALSE(space.try_lock(book));
  other.reset();
  EXPECT_TRUE(hold.try_upgrade_for(book, 60s));
}

TEST_P(AnyUpgrade, WakesThoseBehindItInOrder) {
  const Space space = open_new();
  std::optional<Hold> other = space.lock(book.shared());
  Hold hold = space.lock(book.shared());
  std::jthread upgrader{[&] { hold.upgrade(book); }};
  await_waiters(space, 1);
  Token writer{};
  std::jthread behind{[&] { writer = space.lock(book).token(); }};
  await_waiters(space, 2);
  other.reset();
  upgrader.join();
  const Token upgraded = hold.token();
  hold.downgrade(book.shared());
  EXPECT_TRUE(hold.release());
  behind.join();
  EXPECT_GT(writer, upgraded);
}

TEST_P(AnyUpgrade, OfSeveralClaimsAndOfAGroup) {
  const Space space = open_new();
  Hold hold = space.lock({Path::of("a", 1).shared(), Path::of("a", 2).shared()});
  hold.upgrade(Path::of("a"));
  await_tickets(space, 1);
  EXPECT_EQ(told(space), "1 holds a");
  Hold pull = space.lock(book.group("pull"));
  std::optional<Hold> second = space.lock(book.group("pull"));
  EXPECT_FALSE(pull.try_upgrade(book));
  second.reset();
  pull.upgrade({book, Path::of("other")});
  await_tickets(space, 2);
  EXPECT_EQ(told(space), "1 holds a, 2 holds book other");
}

TEST_P(AnyUpgrade, MustCoverWhatIsHeld) {
  const Space space = open_new();
  Hold hold = space.lock(book.shared());
  EXPECT_THROW(hold.upgrade(Path::of("other")), BadRequest);
  EXPECT_THROW(hold.upgrade(book / Path::of(1)), BadRequest);
  Hold permit = space.lock(Path::of("ram").permits(2));
  EXPECT_THROW(permit.upgrade(Path::of("ram")), BadRequest);
  const Hold handle = hold.again(book.shared());
  EXPECT_THROW(hold.upgrade(book), BadRequest);
  EXPECT_THROW(Hold{}.upgrade(book), BadRequest);
}

TEST_P(AnyUpgrade, OfALostHoldIsRefused) {
  const Space space = open_new();
  Hold hold = space.lock(book.shared());
  EXPECT_TRUE(space.evict_now(hold.token()));
  EXPECT_THROW(hold.upgrade(book), Evicted);
  EXPECT_FALSE(hold.release());
}

TEST_P(AnyUpgrade, KeepsItsOwnerAndItsTerms) {
  const Space space = open_new();
  Hold hold = space.as("job").label("night").max_hold(1h).lock(book.shared());
  hold.upgrade(book);
  await_tickets(space, 1);
  const TicketInfo info = space.inspect().front();
  EXPECT_EQ(info.ticket.owner, Owner{"job"});
  EXPECT_EQ(info.label, "night");
  EXPECT_TRUE(hold.deadline().has_value());
  EXPECT_TRUE(hold.renew());
}

// Readers that upgrade, and those who get a Deadlock start anew: a counter loses no update.
TEST_P(AnyUpgrade, BesideEachOtherLosesNoUpdate) {
  const Space space = open_new();
  int counter = 0;
  std::atomic<int> updates = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 4; ++i) {
      workers.emplace_back([&] {
        for (int done = 0; done < rounds(200);) {
          Hold hold = space.lock(book.shared());
          const int seen = counter;
          try {
            hold.upgrade(book);
          } catch (const Deadlock&) {
            continue;
          }
          EXPECT_EQ(counter, seen) << "somebody wrote between the read and the upgrade";
          counter = seen + 1;
          ++updates;
          ++done;
        }
      });
    }
  }
  EXPECT_EQ(counter, updates);
  await_tickets(space, 0);
}

}  // namespace
}  // namespace tenure
