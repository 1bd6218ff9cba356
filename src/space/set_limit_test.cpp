// Limits that are changed while permits are out, in every space.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
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

using AnyLimit = AnySpace;
TENURE_IN_ALL_SPACES(AnyLimit);

const Path ram = Path::of("ram");
const Path disk = Path::of("disk");

// A thread that waits for a claim, and then holds it until it is told to leave.
class Visitor {
 public:
  Visitor(const Space& space, const Claim& claim)
      : thread_([&space, claim, this](const std::stop_token& leave) {
          const std::optional<Hold> hold = space.lock(claim, leave);
          in_ = hold.has_value();
          kit::until([&leave] { return leave.stop_requested(); });
        }) {}
  [[nodiscard]] bool in() const { return in_; }
  void leave() {
    thread_.request_stop();
    thread_.join();
  }

 private:
  std::atomic<bool> in_ = false;
  std::jthread thread_;
};

TEST_P(AnyLimit, RaisingItLetsWaitersInInTheirOrder) {
  const Space space = open_new();
  const Hold hold = space.lock(ram.permits(1));
  Visitor first{space, ram.permits(1)};
  await_waiters(space, 1);
  const Visitor second{space, ram.permits(1)};
  await_waiters(space, 2);
  EXPECT_EQ(space.set_limit(ram.permits(2)), 3U);
  kit::until([&] { return first.in(); });
  EXPECT_EQ(told(space),
            "1 holds ram:permits(2), 2 holds ram:permits(2), "
            "3 waits for ram:permits(2) at 1 behind 1 2");
  EXPECT_FALSE(second.in());
  first.leave();
  kit::until([&] { return second.in(); });
}

TEST_P(AnyLimit, RaisingItForALargeRequestLetsThoseBehindItIn) {
  const Space space = open_new();
  const Hold hold = space.lock(ram.permits(3).take(2));
  const Visitor large{space, ram.permits(3).take(3)};
  await_waiters(space, 1);
  const Visitor small{space, ram.permits(3)};
  await_waiters(space, 2);
  EXPECT_EQ(space.set_limit(ram.permits(6)), 3U);
  kit::until([&] { return large.in() && small.in(); });
}

TEST_P(AnyLimit, LoweringItTakesNothingAway) {
  const Space space = open_new();
  std::vector<Hold> holds;
  for (int i = 0; i < 3; ++i) holds.push_back(space.lock(ram.permits(3)));
  const Visitor waiter{space, ram.permits(3)};
  await_waiters(space, 1);
  EXPECT_EQ(space.set_limit(ram.permits(1)), 4U);
  EXPECT_EQ(told(space),
            "1 holds ram:permits(1), 2 holds ram:permits(1), 3 holds ram:permits(1), "
            "4 waits for ram:permits(1) at 1 behind 1 2 3");
  for (Hold& hold : holds) {
    EXPECT_TRUE(hold.renew());
    EXPECT_FALSE(hold.lost().stop_requested());
  }
  EXPECT_TRUE(holds[0].release());
  EXPECT_FALSE(space.try_lock(ram.permits(1)));
  EXPECT_TRUE(holds[2].release());
  EXPECT_EQ(told(space), "1 holds ram:permits(1), 2 waits for ram:permits(1) at 1 behind 1");
  EXPECT_FALSE(waiter.in());
  EXPECT_TRUE(holds[1].release());
  kit::until([&] { return waiter.in(); });
}

// Behind an exclusive hold nobody has a permit yet.
TEST_P(AnyLimit, LoweringItHoldsForThoseThatWaitForSomethingElse) {
  const Space space = open_new();
  std::optional<Hold> whole = space.lock(ram);
  std::atomic<int> in = 0;
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      const Hold hold = space.lock(ram.permits(3));
      EXPECT_LE(++in, 1);
      --in;
    });
    await_waiters(space, 1 + i);
  }
  EXPECT_EQ(space.set_limit(ram.permits(1)), 3U);
  whole.reset();
}

TEST_P(AnyLimit, ItCanBeChangedAgainAndAgain) {
  const Space space = open_new();
  std::vector<Hold> holds;
  for (int i = 0; i < 4; ++i) holds.push_back(space.lock(ram.permits(4)));
  for (const std::uint32_t limit : {1U, 3U, 2U, 7U, 1U, 4U}) {
    EXPECT_EQ(space.set_limit(ram.permits(limit)), 4U);
    EXPECT_EQ(std::ranges::count(space.inspect(), true, &TicketInfo::granted), 4);
    EXPECT_EQ(space.available(ram.permits(limit)), limit > 4);
  }
  holds.pop_back();
  EXPECT_TRUE(space.try_lock(ram.permits(4)));
}

TEST_P(AnyLimit, RequestsMustNameTheNewOne) {
  const Space space = open_new();
  std::optional<Hold> hold = space.lock(ram.permits(2));
  EXPECT_EQ(space.set_limit(ram.permits(5)), 1U);
  const std::string refused =
      kit::message_of<LimitMismatch>([&] { static_cast<void>(space.lock(ram.permits(2))); });
  EXPECT_TRUE(refused.contains("asks for limit 2")) << refused;
  EXPECT_TRUE(refused.contains("has limit 5")) << refused;
  EXPECT_TRUE(refused.contains("set_limit()")) << refused;
  EXPECT_TRUE(refused.contains("'tenure limit'")) << refused;
  EXPECT_TRUE(space.try_lock(ram.permits(5).take(4)));
  EXPECT_EQ(space.set_limit(ram.permits(5)), 1U) << "it has that limit already";
  hold.reset();
  EXPECT_TRUE(space.try_lock(ram.permits(2))) << "the next request decides";
}

TEST_P(AnyLimit, OfAnEmptyGroupThereIsNothingToChange) {
  const Space space = open_new();
  EXPECT_EQ(space.set_limit(ram.permits(5)), 0U);
  const Hold other = space.lock(Path::of("ram", "below").permits(3));
  const Hold group = space.lock(disk.group("g", 3));
  EXPECT_EQ(space.set_limit(ram.permits(5)), 0U);
  EXPECT_EQ(space.set_limit(disk.permits(5)), 0U);
  EXPECT_EQ(told(space), "1 holds ram/below:permits(3), 2 holds disk:g(3)");
  EXPECT_EQ(space.set_limit(disk.group("g", 1)), 1U);
  EXPECT_EQ(told(space), "1 holds ram/below:permits(3), 2 holds disk:g(1)");
}

TEST_P(AnyLimit, ATicketThatTakesMoreIsNamed) {
  const Space space = open_new();
  std::optional<Hold> hold = space.lock(ram.permits(4).take(3));
  const std::string token = std::to_string(hold->token().value);
  const auto refused = [&] {
    return kit::message_of<LimitMismatch>([&] { space.set_limit(ram.permits(2)); });
  };
  EXPECT_EQ(refused(), "cannot lower the limit of 'ram' to 2: ticket " + token +
                           " of nobody (ram:permits(4) take=3) takes 3; wait until it ends, evict "
                           "it, or choose a larger limit");
  const Visitor waiter{space, ram.permits(4).take(4)};
  await_waiters(space, 1);
  EXPECT_THROW(space.set_limit(ram.permits(3)), LimitMismatch) << "the other would wait for ever";
  EXPECT_TRUE(space.inspect().front().ticket.claims.front() == ram.permits(4).take(3));
  hold.reset();
  kit::until([&] { return waiter.in(); });
}

TEST_P(AnyLimit, AGroupWithoutALimitStaysSo) {
  const Space space = open_new();
  const Hold hold = space.lock(ram.group("permits"));
  EXPECT_THROW(space.set_limit(ram.permits(2)), LimitMismatch);
  EXPECT_THROW(space.set_limit(ram.group("permits")), BadRequest);
  EXPECT_THROW(space.set_limit(ram), BadRequest);
  EXPECT_THROW(space.set_limit(ram.permits(3).take(2)), BadRequest);
  EXPECT_EQ(told(space), "1 holds ram:permits");
}

TEST_P(AnyLimit, AHoldGoesOnUnderTheNewOne) {
  const Space space = open_new();
  Hold hold = space.lock(ram.permits(4).take(3));
  const Hold other = space.lock(ram.permits(4));
  EXPECT_EQ(space.set_limit(ram.permits(3)), 2U);
  EXPECT_EQ(hold.claims(), std::vector{ram.permits(3).take(3)});
  EXPECT_THROW(static_cast<void>(hold.again(ram.permits(4))), BadRequest);
  EXPECT_TRUE(hold.again(ram.permits(3)));
  EXPECT_THROW(hold.downgrade(ram.permits(4).take(2)), BadRequest);
  hold.downgrade(ram.permits(3).take(2));
  EXPECT_EQ(told(space), "1 holds ram:permits(3) take=2, 2 holds ram:permits(3)");
  EXPECT_EQ(space.set_limit(ram.permits(4)), 2U);
  EXPECT_TRUE(space.try_lock(ram.permits(4)));
  EXPECT_TRUE(hold.release());
}

// The later one is kept, and what it gives up is not its place.
TEST_P(AnyLimit, AKeptHoldCanBeDowngraded) {
  const Space space = open_new();
  std::optional<Hold> first = space.lock(ram.permits(4).take(2));
  Hold kept = space.lock(ram.permits(4).take(2));
  EXPECT_EQ(space.set_limit(ram.permits(2)), 2U);
  kept.downgrade(ram.permits(2));
  EXPECT_EQ(told(space), "1 holds ram:permits(2) take=2, 2 holds ram:permits(2)");
  first.reset();
  const std::optional<Hold> next = space.try_lock(ram.permits(2));
  EXPECT_TRUE(next);
  EXPECT_FALSE(space.try_lock(ram.permits(2)));
  EXPECT_TRUE(kept.release());
  EXPECT_TRUE(space.try_lock(ram.permits(2)));
}

TEST_P(AnyLimit, CountsInEveryClaimOfARequest) {
  const Space space = open_new();
  const Hold both = space.lock({disk, ram.permits(4).take(2)});
  std::optional<Hold> also = space.lock({Path::of("x").permits(2), ram.permits(4).take(2)});
  EXPECT_EQ(space.set_limit(ram.permits(3)), 2U);
  EXPECT_EQ(told(space),
            "1 holds disk ram:permits(3) take=2, 2 holds x:permits(2) ram:permits(3) take=2");
  EXPECT_THROW(static_cast<void>(space.try_lock(ram.permits(4))), LimitMismatch);
  EXPECT_FALSE(space.try_lock(ram.permits(3)));
  also.reset();
  EXPECT_TRUE(space.try_lock(ram.permits(3)));
}

TEST_P(AnyLimit, OwnersThatWouldWaitForEachOtherAreNamed) {
  const Space space = open_new();
  std::optional<Hold> a = space.as("a").lock(ram.permits(2));
  std::optional<Hold> c = space.as("c").lock(ram.permits(2));
  std::optional<Hold> b = space.as("b").lock(disk);
  std::jthread b_waits{[&] {
    EXPECT_TRUE(space.as("b").lock(ram.permits(2)));
    b.reset();
  }};
  await_waiters(space, 1);
  std::jthread a_waits{[&] {
    EXPECT_TRUE(space.as("a").lock(disk));
    a.reset();
  }};
  await_waiters(space, 2);
  const std::string refused = kit::message_of<Deadlock>([&] { space.set_limit(ram.permits(1)); });
  EXPECT_TRUE(refused.contains("waits for a (ram:permits(1)")) << refused;
  EXPECT_TRUE(space.inspect(ram).front().ticket.claims.front() == ram.permits(2));
  EXPECT_EQ(space.set_limit(ram.permits(2)), 3U);
  c.reset();
}

bool holds_alone(std::atomic<std::uint32_t>& in, std::uint32_t most) {
  const std::uint32_t now = ++in;
  --in;
  return now <= most;
}

// Requests name whichever limit is in use; between a change and the next, no more than the larger
// limit are in.
TEST_P(AnyLimit, ChangesBesideRequestsAreAtomic) {
  const Space space = open_new();
  constexpr std::array<std::uint32_t, 2> limits{2, 4};
  std::atomic<std::uint32_t> in = 0;
  std::atomic<bool> done = false;
  std::atomic<int> grants = 0;
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < 6; ++i) {
      workers.emplace_back([&] {
        for (std::size_t turn = 0; !done; ++turn) {
          try {
            const Hold hold = space.lock(ram.permits(limits[turn % 2]));
            EXPECT_TRUE(holds_alone(in, 4));
            ++grants;
          } catch (const LimitMismatch&) {  // NOLINT(bugprone-empty-catch): the other one then.
          }
        }
      });
    }
    for (int i = 0; i < rounds(400); ++i) space.set_limit(ram.permits(i % 2 == 0 ? 2 : 4));
    kit::until([&] { return grants > 20; });
    done = true;
  }
  await_tickets(space, 0);
}

}  // namespace
}  // namespace tenure
