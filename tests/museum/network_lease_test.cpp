// The lease of a session: when it expires, who is notified, and what renews it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/boot_clock.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/clock.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/network.hpp"

namespace tenure::museum {
namespace {

using namespace std::chrono_literals;

using base::boot_time;

// ---- Waiters whose lease ran out ----

// The waiter's machine sleeps for longer than its lease. When it wakes, its turn has come before
// any of its threads has read the clock.
TEST_P(NetworkMuseum, M01_AWaiterThatSleptPastItsLeaseIsNotGranted) {
  const Process holder{lock_client()};
  const Process waiter{lock_client()};
  const Process looking{lock_client(url())};
  ASSERT_EQ(holder.ask(opening(1h)), "ok");
  ASSERT_EQ(waiter.ask(opening(60s)), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  waiter.tell("lock book");
  until_waiting(looking, 1);
  kit::move_boot_clock(50s);
  EXPECT_EQ(holder.ask("release"), "yes");
  const std::string said = waiter.hear();
  EXPECT_NE(said.find("session"), std::string::npos) << said;
  EXPECT_EQ(holder.ask("lock film"), "holds") << "whose lease is longer";
  EXPECT_TRUE(waiter.ask("lock film").starts_with("error"));
}

// Stopped until the server has ended its session. Nobody waits for the dead client, and it never
// gets the lock.
TEST_P(NetworkMuseum, M01_AWaiterThatWasGivenUpIsPassedOver) {
  const Process holder{lock_client()};
  const Process waiter{lock_client()};
  const Process next{lock_client()};
  const Process looking{lock_client(url())};
  ASSERT_EQ(holder.ask(opening(1h)), "ok");
  ASSERT_EQ(waiter.ask(opening(3s)), "ok");
  ASSERT_EQ(next.ask(opening(1h)), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  waiter.tell("lock book");
  until_waiting(looking, 1);
  waiter.stop();
  next.tell("lock book");
  until_waiting(looking, 2);
  EXPECT_EQ(holder.ask("release"), "yes");
  EXPECT_EQ(next.hear(), "holds") << "when the lease of the one before has run out";
  waiter.go_on();
  const std::string said = waiter.hear();
  EXPECT_NE(said.find("session"), std::string::npos) << said;
  EXPECT_EQ(next.ask("is lost"), "no");
  EXPECT_EQ(looking.ask("count"), "1");
}

// ---- Holders that are told ----

struct Told {
  std::atomic<std::int64_t> at{0};
};

// Counted from before the renewal was sent, with a third of the lease as margin: the server can't
// have ended the lease by then, wherever the network failed.
TEST_P(NetworkMuseum, M03_LostFiresBeforeTheServerEndsTheLease) {
  constexpr auto ttl = 90s;
  const Shared<Told> told;
  const Process holder{[&](const Line& line) {
    const Space space = open(store(line.hear().value()), {.label = {}, .ttl = ttl});
    const Hold hold = space.lock(Path::of("book"));
    const std::stop_callback callback{hold.lost(), [&] { told->at = boot_time().count(); }};
    line.say("holds");
    static_cast<void>(line.hear());
  }};
  kit::Proxy network{port()};
  ASSERT_EQ(holder.ask(url_at(network.port())), "holds");
  network.door(kit::Proxy::Door::shut);
  network.cut();
  const Left left = sessions();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(told->at, 0) << "cut off, but not for long";
  const std::chrono::nanoseconds end = boot_time() + left.begin()->second;
  kit::move_boot_clock(left.begin()->second - ttl / 3);
  until([&] { return told->at != 0; });
  EXPECT_LT(std::chrono::nanoseconds{told->at}, end);
}

// ---- Renewal ----

// All threads of the program are busy and all connections are in use, but the hold stays: renewals
// have a thread and a connection of their own.
TEST_P(NetworkMuseum, M04_ABusyProgramRenewsInTime) {
  constexpr auto ttl = 9s;
  const Process busy{[&](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    const Space space = open(used, {.label = {}, .ttl = ttl});
    Hold hold = space.lock(Path::of("book"));
    const std::stop_token lost = hold.lost();
    std::atomic<bool> done = false;
    std::atomic<int> made = 0;
    {
      std::vector<std::jthread> threads;
      threads.reserve(26);
      for (int i = 0; i < 24; ++i) {
        threads.emplace_back([&, i] {
          while (!done) {
            space.with(Path::of("film", i), [&] { ++made; });
            used->post({.guards = {},
                        .writes = {Write::put("k" + std::to_string(i), "")},
                        .reads = {},
                        .durability = Durability::relaxed},
                       {});
          }
        });
      }
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
          while (!done) made += 0;
        });
      }
      for (const Instant start = used->now(); used->now() < start + 2 * ttl;) {
        std::this_thread::sleep_for(50ms);
      }
      done = true;
    }
    line.say(lost.stop_requested() ? "lost" : "kept");
    line.say(hold.release() && made > 100 ? "yes" : "no");
  }};
  busy.tell(url());
  EXPECT_EQ(busy.hear(), "kept");
  EXPECT_EQ(busy.hear(), "yes");
}

// A program that exits ends its lease, an hour before it would expire, and nothing brings it back.
TEST_P(NetworkMuseum, M04_NothingIsRenewedAfterTheSpaceIsClosed) {
  const Process leaving{lock_client()};
  ASSERT_EQ(leaving.ask(opening(1h)), "ok");
  ASSERT_EQ(leaving.ask("lock book"), "holds");
  ASSERT_EQ(sessions().size(), 1U);
  ASSERT_EQ(leaving.ask("close"), "ok");
  until([&] { return sessions().empty(); });
  kit::move_boot_clock(1h);  // Everything that is still due is due now.
  ASSERT_EQ(leaving.ask(opening(1h)), "ok");
  EXPECT_EQ(sessions().size(), 1U);
}

// A ticket has no time limit of its own: it lives as long as the session, and the session as long
// as the process.
TEST_P(NetworkMuseum, M05_AHoldAndAWaitOutlastTheLeaseManyTimes) {
  constexpr auto ttl = 8s;
  const Process holder{lock_client()};
  const Process waiter{lock_client()};
  const Process looking{lock_client(url())};
  ASSERT_EQ(holder.ask(opening(ttl)), "ok");
  ASSERT_EQ(waiter.ask(opening(ttl)), "ok");
  ASSERT_EQ(holder.ask("lock book"), "holds");
  waiter.tell("lock book");
  until_waiting(looking, 1);
  const auto now = [&] { return Instant{std::chrono::nanoseconds{number_of(looking.ask("now"))}}; };
  for (const Instant start = now(); now() < start + 3 * ttl;) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(holder.ask("is lost"), "no");
  EXPECT_EQ(looking.ask("waiting"), "1");
  EXPECT_EQ(holder.ask("release"), "yes");
  EXPECT_EQ(waiter.hear(), "holds");
}

// ---- How many, and when ----

TEST_P(NetworkMuseum, M31_AProcessHasOneLeaseHoweverManyTickets) {
  const Process crowd{[](const Line& line) {
    const Space space = open(line.hear().value());
    std::vector<Hold> holds;
    holds.reserve(100);
    for (int i = 0; i < 100; ++i) holds.push_back(space.lock(Path::of("book", i)));
    line.say("holds");
    static_cast<void>(line.hear());
  }};
  ASSERT_EQ(crowd.ask(url()), "holds");
  EXPECT_EQ(sessions().size(), 1U);
}

// Sessions that began together are not renewed together: in the middle of the renewal window, some
// have been renewed and some have not.
TEST_P(NetworkMuseum, M31_SessionsThatBeganTogetherAreNotRenewedTogether) {
  constexpr std::size_t count = 24;
  constexpr auto ttl = 600s;
  const auto middle = GetParam() == Kind::postgres ? ttl * 0.275 : ttl * 0.2;
  const Process many{[&](const Line& line) {
    const std::shared_ptr<Store> used = store(line.hear().value());
    std::vector<std::unique_ptr<Session>> all;
    all.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back(used->open_session({.label = {}, .ttl = ttl}));
    }
    line.say("open");
    static_cast<void>(line.hear());
  }};
  ASSERT_EQ(many.ask(url()), "open");
  // Old enough to be distinguished from a renewed one at a resolution of whole seconds.
  const auto renewed = [&] {
    const Left left = sessions();
    return std::ranges::count_if(left, [&](const auto& one) { return one.second >= ttl - 2s; });
  };
  until([&] { return renewed() == 0; });
  kit::move_boot_clock(std::chrono::duration_cast<std::chrono::nanoseconds>(middle) - 3s);
  until([&] { return renewed() > 0; });
  EXPECT_LT(renewed(), static_cast<std::ptrdiff_t>(count));
}

INSTANTIATE_TEST_SUITE_P(Network, NetworkMuseum, ::testing::Values(Kind::postgres, Kind::etcd),
                         name_of);

}  // namespace
}  // namespace tenure::museum
