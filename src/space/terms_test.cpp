// max_hold, labels, and other durations than the first, in every kind of space.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");

class AnyTerms : public AnySpace {};
TENURE_IN_ALL_SPACES(AnyTerms);

TEST_P(AnyTerms, AHoldPastItsMaxHoldIsLostAndTheNextIsGranted) {
  const Space space = open_new();
  Hold hold = space.max_hold(20ms).lock(book);
  const std::stop_token lost = hold.lost();
  const Hold next = space.lock(book);  // Waits until the first one is over.
  EXPECT_GT(next.token(), hold.token());
  kit::until([&] { return lost.stop_requested(); });
  EXPECT_FALSE(hold.renew());
  EXPECT_FALSE(hold.release());
}

TEST_P(AnyTerms, ATicketThatWaitedIsLimitedFromItsGrantOn) {
  const Space space = open_new();
  Hold first = space.lock(book);
  std::optional<Hold> second;
  std::jthread waiter{[&] { second = space.max_hold(1ms).lock(book); }};
  await_waiters(space, 1);
  first.release();
  waiter.join();
  const Hold third = space.lock(book);
  EXPECT_FALSE(second->renew());
}

TEST_P(AnyTerms, AShareOfALimitIsGivenBackByTime) {
  const Space space = open_new();
  const Hold one = space.max_hold(10ms).lock(book.permits(1));
  const Hold two = space.lock(book.permits(1));
  EXPECT_EQ(space.inspect().size(), 1U);
}

TEST_P(AnyTerms, RenewKeepsAHoldForItsTimeOrForAnother) {
  const Space space = open_new();
  Hold hold = space.max_hold(1h).lock(book);
  const Instant first = hold.deadline().value();
  EXPECT_TRUE(hold.renew());
  EXPECT_GE(hold.deadline().value(), first - 1s);
  EXPECT_TRUE(hold.renew(100h));
  EXPECT_GT(hold.deadline().value(), first + 50h);
  EXPECT_TRUE(hold.renew());  // The same time again: a hundred hours.
  EXPECT_GT(hold.deadline().value(), first + 50h);
  (void)hold.renew(5ms);  // False where the answer takes longer; the next one gets in either way.
  const std::stop_token lost = hold.lost();
  const Hold next = space.lock(book);
  kit::until([&] { return lost.stop_requested(); });
  EXPECT_FALSE(hold.renew(1h));
  EXPECT_THROW((void)hold.renew(0s), BadRequest);
}

TEST_P(AnyTerms, RenewLimitsAHoldThatHadNoLimit) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  EXPECT_FALSE(hold.deadline().has_value());
  EXPECT_TRUE(hold.renew());
  EXPECT_FALSE(hold.deadline().has_value());
  EXPECT_TRUE(hold.renew(1h));
  EXPECT_TRUE(hold.deadline().has_value());
  (void)hold.renew(10ms);  // False where the answer takes longer than that.
  const Hold next = space.lock(book);
  EXPECT_FALSE(hold.renew());
}

TEST_P(AnyTerms, ADowngradedHoldKeepsItsDeadline) {
  const Space space = open_new();
  Hold hold = space.max_hold(1h).lock({book, "film"});
  const std::stop_token lost = hold.lost();
  const Instant until = hold.deadline().value();
  hold.downgrade(book.shared());
  EXPECT_LT(std::chrono::abs(hold.deadline().value() - until), 10min);
  (void)hold.renew(10ms);
  const Hold next = space.lock(book);
  kit::until([&] { return lost.stop_requested(); });
}

TEST_P(AnyTerms, AnOwnerOnTermsIsTheSameOwner) {
  const Space space = open_new();
  const Locker job = space.as("job-7");
  const Hold held = job.label("first").lock(book);
  EXPECT_THROW((void)job.max_hold(1h).lock(book), Deadlock);
  EXPECT_THROW((void)job.lock(book), Deadlock);
  EXPECT_FALSE(space.max_hold(1h).try_lock_for(book, 1ms));  // Nobody is in no deadlock.
}

TEST_P(AnyTerms, PeopleSeeTheLabelAndTheDeadline) {
  const Space space = open_new();
  const Hold hold = space.as("job-7").label("deploy").max_hold(1h).lock(book);
  const TicketInfo info = space.inspect().at(0);
  EXPECT_EQ(info.label, "deploy");
  EXPECT_EQ(info.ticket.owner, Owner{"job-7"});
  EXPECT_TRUE(info.deadline.has_value());
}

TEST_P(AnyTerms, AHoldWithADeadlineOutlivesItsSpace) {
  std::optional<Space> space = open_new();
  Hold hold = space->max_hold(10ms).lock(book);
  const std::stop_token lost = hold.lost();
  space.reset();
  kit::until([&] { return lost.stop_requested(); });
  hold = {};
}

TEST_P(AnyTerms, DeadlinesEndInAnyOrderWithReleases) {
  const Space space = open_new();
  for (int i = 0; i < rounds(200); ++i) {
    Hold hold = space.max_hold(std::chrono::microseconds{i % 7 * 50 + 1}).lock(book);
    if (i % 2 == 0) (void)hold.lost();
    if (i % 3 == 0) (void)hold.renew(std::chrono::microseconds{100});
    (void)hold.release();
  }
  kit::until([&] { return space.inspect().empty(); });
  EXPECT_TRUE(space.available(book));
}

}  // namespace
}  // namespace tenure
