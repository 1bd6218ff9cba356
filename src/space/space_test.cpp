#include "tenure/space.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <latch>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/latest_tokens.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

using AnyAs = AnySpace;
using AnyHold = AnySpace;
TENURE_IN_ALL_SPACES(AnySpace);
TENURE_IN_ALL_SPACES(AnyAs);
TENURE_IN_ALL_SPACES(AnyHold);

const Path book = Path::of("book");
const Path film = Path::of("film");

TEST(Open, RefusesWhatItDoesNotKnow) {
  for (const char* url : {"", "local", "locals:x", "redis://h"}) {
    try {
      static_cast<void>(open(url));
      FAIL() << url;
    } catch (const Error& error) {
      EXPECT_NE(std::string{error.what()}.find(url), std::string::npos);
      EXPECT_NE(std::string{error.what()}.find("local:"), std::string::npos);
    }
  }
}

TEST_P(AnySpace, GivesTheLockBackWhenTheHoldGoes) {
  const Space space = open_new();
  {
    const Hold hold = space.lock(book);
    EXPECT_TRUE(hold);
    EXPECT_FALSE(space.try_lock(book));
  }
  EXPECT_TRUE(space.try_lock(book));
  EXPECT_EQ(told(space), "");
}

// Each with all that ever conflicted with it: above it, below it, at it, and behind readers.
TEST_P(AnySpace, TokensOfConflictingRequestsIncrease) {
  const Space space = open_new();
  const std::array<Path, 8> paths = {Path{},
                                     book,
                                     book / Path::of(1),
                                     book / Path::of(1, "page"),
                                     film,
                                     book / Path::of(2),
                                     Path::of("play", 1),
                                     Path::of("play", 2)};
  LatestTokens<std::monostate> past;
  std::minstd_rand random{1};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time.
  int conflicts = 0;
  for (int i = 0; i < rounds(4000); ++i) {
    std::vector<Claim> claims = {Claim{paths.at(random() % paths.size())}};
    if (random() % 3 == 0) claims = {claims.front().path.shared()};
    if (random() % 5 == 0) claims.push_back(Path::of("other", i));
    const Hold hold = space.lock(std::span<const Claim>{claims});
    if (const auto* const earlier = past.conflicting(claims)) {
      ++conflicts;
      ASSERT_GT(hold.token(), earlier->token) << i;
    }
    past.add(claims, {.token = hold.token(), .of = {}});
  }
  EXPECT_GT(conflicts, rounds(4000) / 2);
}

// So many other paths that a local space forgets the first ones meanwhile.
TEST_P(AnySpace, TokensIncreaseAfterANameWasForgotten) {
  const Space space = open_new();
  Token last;
  for (int i = 0; i < (is_local() ? 1000 : 10); ++i) {
    for (const char* child : {"1", "2", "3"}) {
      const Hold hold = space.lock(book / Path::of(child));
      last = std::max(last, hold.token());
    }
  }
  // Names alone: children of one would carry the counters of all shards to each other.
  for (int i = 0; i < (is_local() ? 10'000 : 100); ++i) static_cast<void>(space.lock(Path::of(i)));
  const Hold whole = space.lock(book);
  EXPECT_GT(whole.token(), last);
}

TEST_P(AnySpace, TakesPathsClaimsAndSeveralAtOnce) {
  const Space space = open_new();
  const Claim reader = book.shared();
  const Hold one = space.lock(reader);
  const Hold both = space.lock({book.shared(), film});
  EXPECT_FALSE(space.try_lock(film));
  EXPECT_FALSE(space.try_lock(Path{}));
  EXPECT_EQ(told(space), "1 holds book:shared, 2 holds book:shared film");
  EXPECT_THROW(static_cast<void>(space.lock({film, film.shared()})), BadRequest);
  EXPECT_THROW(static_cast<void>(space.lock(std::span<const Claim>{})), BadRequest);
  EXPECT_THROW(static_cast<void>(space.try_lock(std::span<const Claim>{})), BadRequest);
}

TEST_P(AnySpace, WithReleasesOnReturnAndOnThrow) {
  const Space space = open_new();
  EXPECT_EQ(space.with(book, [](const Hold& hold) { return hold.token().value > 0; }), true);
  EXPECT_EQ(space.with(book, [] { return 7; }), 7);
  EXPECT_THROW(space.with(book, [] { throw std::string{"no"}; }), std::string);
  EXPECT_EQ(told(space), "");
}

TEST_P(AnySpace, TimesOutAndLeavesNothing) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  EXPECT_FALSE(space.try_lock_for(book, 1ms));
  EXPECT_FALSE(space.try_lock_for(book, 0ms));
  EXPECT_FALSE(space.try_lock_for(book, -1h));
  EXPECT_FALSE(space.try_lock_until(book, std::chrono::steady_clock::now() + 1ms));
  EXPECT_FALSE(space.try_lock_until(book, std::chrono::system_clock::now() - 24h));
  EXPECT_FALSE(space.try_lock_for(book, std::chrono::hours::min()));
  EXPECT_FALSE(space.try_lock_until(book, std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(space.try_lock_until(book, std::chrono::sys_days::min()));
  expect_only_the_holder(space);
  // A free lock is had however little time there is, and however much.
  EXPECT_TRUE(space.try_lock_for(film, -1h));
  EXPECT_TRUE(space.try_lock_for(film, std::chrono::hours::max()));
  EXPECT_TRUE(space.try_lock_for(film, std::chrono::duration<double>::max()));
  EXPECT_TRUE(space.try_lock_until(film, std::chrono::system_clock::time_point::max()));
}

TEST_P(AnySpace, WaitsLongerThanClocksCanTell) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  std::jthread waiter{[&] { EXPECT_TRUE(space.try_lock_for(book, std::chrono::hours::max())); }};
  std::jthread second{[&] {
    EXPECT_TRUE(space.try_lock_until(book, std::chrono::steady_clock::time_point::max()));
  }};
  await_waiters(space, 2);
  hold.release();
}

TEST_P(AnySpace, StopTokenEndsAWait) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  std::stop_source stop;
  std::jthread waiter{[&] { EXPECT_FALSE(space.lock(book, stop.get_token())); }};
  await_waiters(space, 1);
  stop.request_stop();
  waiter.join();
  EXPECT_FALSE(space.lock(film, stop.get_token())) << "already stopped";
  EXPECT_FALSE(space.try_lock_for(film, 1h, stop.get_token()));
  expect_only_the_holder(space);
}

TEST_P(AnySpace, ServesInOrderAndReadersTogether) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  std::latch readers_in{2};
  std::atomic<int> served = 0;
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    const Hold reader = space.lock(book.shared());
    readers_in.arrive_and_wait();  // Only if both are in at once.
    served.fetch_add(1);
  });
  await_waiters(space, 1);
  threads.emplace_back([&] {
    const Hold reader = space.lock((book / Path::of(1)).shared());
    readers_in.arrive_and_wait();
    served.fetch_add(1);
  });
  await_waiters(space, 2);
  threads.emplace_back([&] {
    const Hold writer = space.lock(book / Path::of(1));
    EXPECT_EQ(served.load(), 2);
  });
  await_waiters(space, 3);
  EXPECT_EQ(told(space),
            "1 holds book, 2 waits for book:shared at 1 behind 1, "
            "3 waits for book/1:shared at 1 behind 1, 4 waits for book/1 at 3 behind 1 2 3");
  hold.release();
}

TEST_P(AnySpace, PermitsAdmitSoManyAtATime) {
  const Space space = open_new();
  const Claim permit = book.permits(2);
  std::optional<Hold> one = space.try_lock(permit);
  const std::optional<Hold> two = space.try_lock(permit);
  EXPECT_TRUE(one && two);
  EXPECT_FALSE(space.try_lock(permit));
  std::jthread third{[&] { EXPECT_TRUE(space.lock(permit)); }};
  await_waiters(space, 1);
  EXPECT_FALSE(space.try_lock(permit)) << "the one that waits was first";
  one.reset();
}

TEST_P(AnySpace, ContendersThatDisagreeOnALimitAreTold) {
  const Space space = open_new();
  const Hold hold = space.as("alice").lock(book.permits(2));
  for (const Claim& other : {book.permits(3), book.group("permits")}) {
    try {
      static_cast<void>(space.as("bob").lock(other));
      FAIL();
    } catch (const LimitMismatch& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("limit 2"), std::string::npos) << text;
      EXPECT_NE(text.find(other.mode.limit() == 3 ? "limit 3" : "no limit"), std::string::npos);
      EXPECT_NE(text.find("alice"), std::string::npos) << text;
      EXPECT_NE(text.find("bob"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(told(space), "1 holds book:permits(2)");
  EXPECT_FALSE(space.try_lock(book)) << "another mode only waits";
}

TEST_P(AnySpace, InspectTellsOfAPathWhatIsAboveAndBelowIt) {
  const Space space = open_new();
  const Hold above = space.lock(book.shared());
  const Hold below = space.lock(Path::of("book", 1, "page").shared());
  const Hold beside = space.lock(Path::of("book", 2).shared());
  EXPECT_EQ(space.inspect(Path::of("book", 1)).size(), 2U);
  EXPECT_EQ(space.inspect(Path::of("book", 2)).size(), 2U);
  EXPECT_EQ(space.inspect(film).size(), 0U);
  EXPECT_EQ(space.inspect().size(), 3U);
}

TEST_P(AnySpace, InspectTellsSinceWhen) {
  const auto before = std::chrono::system_clock::now() - 1s;  // The clock is coarse.
  const Space space = open_new();
  Hold hold = space.lock(book);
  if (is_local()) {
    EXPECT_EQ(space.inspect().front().since, std::nullopt) << "nobody asked so far";
  }
  std::jthread waiter{[&] { EXPECT_TRUE(space.lock(book)); }};
  await_waiters(space, 1);
  for (const TicketInfo& info : space.inspect()) {
    ASSERT_TRUE(info.since);
    EXPECT_GE(*info.since, before);
    EXPECT_LE(*info.since, std::chrono::system_clock::now());
  }
  hold.release();
}

// ---- Deadlocks ----

TEST_P(AnyAs, AnOwnerThatAsksForWhatItHoldsIsTold) {
  const Space space = open_new();
  const Locker alice = space.as("alice");
  const Hold hold = alice.lock(book);
  EXPECT_THROW(static_cast<void>(alice.lock(book)), Deadlock);
  EXPECT_THROW(static_cast<void>(alice.lock(Path::of("book", 1))), Deadlock);
  EXPECT_THROW(static_cast<void>(alice.lock(Path{})), Deadlock);
  EXPECT_THROW(static_cast<void>(space.as(Owner{"alice"}.child("step")).lock(book)), Deadlock);
  EXPECT_FALSE(alice.try_lock(book)) << "a try never waits, so it can't deadlock";
  EXPECT_TRUE(alice.lock(film));
  EXPECT_EQ(told(space), "1 holds book");
}

// Each looks after its ticket can be seen, so of two at once either may be the first to look.
TEST_P(AnyAs, ACircleOfOwnersIsToldToOneOfThem) {
  const Space space = open_new();
  const Locker alice = space.as("alice");
  const Locker bob = space.as("bob");
  Hold a = alice.lock(book);
  Hold b = bob.lock(film);
  std::atomic<int> told = 0;
  const auto lock_or_give_up = [&told](const Locker& locker, const Path& path, Hold& held) {
    try {
      EXPECT_TRUE(locker.lock(path));
    } catch (const Deadlock& error) {
      const std::string text = error.what();
      for (const auto* const name : {"alice", "bob", "book", "film"}) {
        EXPECT_NE(text.find(name), std::string::npos) << text;
      }
      ++told;
    }
    held.release();
  };
  {
    const std::jthread other{[&] { lock_or_give_up(bob, book, b); }};
    lock_or_give_up(alice, film, a);
  }
  EXPECT_EQ(told, 1);
}

TEST_P(AnyAs, StrangersOnlyWait) {
  const Space space = open_new();
  Hold hold = space.as("alice").lock(book);
  std::jthread waiter{[&] { EXPECT_TRUE(space.as("bob").lock(book)); }};
  std::jthread nobody{[&] { EXPECT_TRUE(space.lock(book)); }};
  await_waiters(space, 2);
  hold.release();
}

// Two threads close a circle over and over; one is told each time, and the other gets in.
TEST_P(AnyAs, CirclesAreFoundUnderLoad) {
  const Space space = open_new();
  std::atomic<int> deadlocks = 0;
  std::atomic<int> grants = 0;
  std::barrier both_hold{2};
  const auto cross = [&](const char* name, const Path& first, const Path& second) {
    const Locker me = space.as(name);
    for (int i = 0; i < rounds(500); ++i) {
      const Hold outer = me.lock(first);
      both_hold.arrive_and_wait();
      try {
        const Hold inner = me.lock(second);
        ++grants;
      } catch (const Deadlock&) {
        ++deadlocks;
      }
    }
  };
  std::jthread one{cross, "one", book, film};
  std::jthread two{cross, "two", film, book};
  one.join();
  two.join();
  EXPECT_EQ(told(space), "");
  EXPECT_EQ(deadlocks, rounds(500));
  EXPECT_EQ(grants, rounds(500));
}

// ---- Holds ----

static_assert(std::is_nothrow_move_constructible_v<Hold>);
static_assert(std::is_nothrow_move_assignable_v<Hold>);
static_assert(!std::is_copy_constructible_v<Hold>);

TEST_P(AnyHold, AMaxHoldMustBeGreaterThanZero) {
  const Space space = open_new();
  for (const std::chrono::nanoseconds time : {0ns, -1ns, std::chrono::nanoseconds::min()}) {
    try {
      static_cast<void>(space.as("somebody").max_hold(time));
      ADD_FAILURE() << time.count();
    } catch (const BadRequest& error) {
      EXPECT_NE(std::string{error.what()}.find("greater than zero"), std::string::npos);
    }
  }
  EXPECT_TRUE(space.max_hold(1s).lock(book).deadline().has_value());
}

TEST_P(AnyHold, MovingLeavesAnEmptyOne) {
  const Space space = open_new();
  Hold first = space.lock(book);
  const Token token = first.token();
  Hold second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question.
  EXPECT_EQ(first.token(), Token{});
  EXPECT_FALSE(first.release());
  EXPECT_EQ(second.token(), token);
  EXPECT_TRUE(second.release());
  EXPECT_FALSE(second.release());
}

TEST_P(AnyHold, MovedOntoGivesBackWhatItHad) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  hold = space.lock(film);
  EXPECT_TRUE(space.try_lock(book));
  EXPECT_FALSE(space.try_lock(film));
  Hold& same = hold;
  hold = std::move(same);  // Onto itself: nothing changes.
  EXPECT_FALSE(space.try_lock(film));
  hold = Hold{};
  EXPECT_EQ(told(space), "");
}

TEST_P(AnyHold, OutlivesItsSpace) {
  std::optional<Hold> thin;
  std::optional<Hold> thick;
  {
    const Space space = open_new();
    thin = space.lock(book);
    thick = space.lock({film, film / Path::of(1)});
  }
  EXPECT_TRUE(thin->release());
  EXPECT_TRUE(thick->release());
}

TEST_P(AnyHold, EvictionTellsTheHolderBeforeTheNextGetsIn) {
  const Space space = open_new();
  for (const bool several : {false, true}) {
    Hold hold = several ? space.lock({book, film}) : space.lock(book);
    std::atomic<bool> was_told = false;
    // It holds until the callback has looked, so that a callback that is late finds it.
    std::jthread next{[&] {
      const Hold after = space.lock(book);
      kit::until([&] { return was_told.load(); });
    }};
    await_waiters(space, 1);
    const std::stop_callback on_lost{hold.lost(), [&] {
                                       for (const TicketInfo& info : space.inspect(book)) {
                                         EXPECT_EQ(info.granted,
                                                   info.ticket.number == hold.token());
                                       }
                                       was_told = true;
                                     }};
    EXPECT_TRUE(space.evict(hold.token()));
    EXPECT_FALSE(space.evict(hold.token()));
    next.join();
    EXPECT_TRUE(hold.lost().stop_requested());
    EXPECT_FALSE(hold.renew()) << "what was lost does not come back";
    EXPECT_THROW(hold.downgrade(book.shared()), Evicted);
    EXPECT_FALSE(hold.release());
  }
  EXPECT_FALSE(space.evict(Token{12345}));
  EXPECT_EQ(told(space), "");
}

// However the evicted hold goes: it must not give back what the next one has.
TEST_P(AnyHold, AnEvictedHoldLeavesTheNextHolderAlone) {
  const Space space = open_new();
  for (const bool drop : {false, true}) {
    for (const Path& path : {book, book / Path::of(1)}) {
      Hold evicted = space.lock(path);
      EXPECT_TRUE(space.evict_now(evicted.token()));
      Hold next = space.lock(path);
      if (drop) {
        evicted = Hold{};
      } else {
        EXPECT_FALSE(evicted.release());
      }
      EXPECT_FALSE(space.try_lock(path));
      EXPECT_TRUE(next.renew());
      EXPECT_TRUE(next.release());
    }
  }
  EXPECT_EQ(told(space), "");
}

TEST_P(AnyHold, AnEvictedWaiterIsTold) {
  const Space space = open_new();
  const Hold hold = space.lock(book);
  std::jthread waiter{[&] { EXPECT_THROW(static_cast<void>(space.lock(book)), Evicted); }};
  await_waiters(space, 1);
  EXPECT_TRUE(space.evict(space.inspect().back().ticket.number));
}

TEST(Hold, LostOfAnEmptyOneNeverStops) { EXPECT_FALSE(Hold{}.lost().stop_possible()); }

// ---- The end of a space ----

TEST_P(AnySpace, DestroyingItEndsAllWaits) {
  std::optional<Space> space = open_new();
  const Hold hold = space->lock(book);
  const Locker anyone = space->as(Owner{});
  std::vector<std::jthread> waiters;
  for (const Path& path : {book, Path::of("book", 1), Path{}}) {
    waiters.emplace_back(
        [&anyone, path] { EXPECT_THROW(static_cast<void>(anyone.lock(path)), Closed); });
  }
  await_waiters(*space, waiters.size());
  space.reset();
  waiters.clear();
  EXPECT_THROW(static_cast<void>(anyone.lock(film)), Closed);
  EXPECT_THROW(static_cast<void>(anyone.try_lock({film, book})), Closed);
}

// Granted, and then the Space goes before the thread that waited has looked.
TEST_P(AnySpace, MayGoRightAfterAGrant) {
  for (int round = 0; round < rounds(300); ++round) {
    std::optional<Space> space = open_new();
    Hold hold = space->lock(book);
    std::jthread waiter{[&in = *space] {
      try {
        const Hold mine = in.lock(book);
      } catch (const Closed&) {
      }
    }};
    await_waiters(*space, 1);
    hold.release();
    space.reset();
  }
}

TEST_P(AnySpace, MovesAndReplaces) {
  Space space = open_new();
  const Hold hold = space.lock(book);
  Space moved = std::move(space);
  EXPECT_FALSE(moved.try_lock(book));
  std::jthread waiter{[&] { EXPECT_THROW(static_cast<void>(moved.as("a").lock(book)), Closed); }};
  await_waiters(moved, 1);
  const Locker old = moved.as("b");
  moved = open_new();
  EXPECT_TRUE(moved.try_lock(book)) << "a new space";
  EXPECT_THROW(static_cast<void>(old.lock(film)), Closed);
}

}  // namespace
}  // namespace tenure
