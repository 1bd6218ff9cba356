// What a hold releases, and what it can't.
#include <gtest/gtest.h>

#include <system_error>
#include <utility>

#include "tests/museum/museum.hpp"

namespace tenure::museum {
namespace {

const Name item{"museum-item"};

TEST(Museum, M35_MovingOntoAHoldGivesBackWhatItHeld) {
  Space space = open("local:");
  Arrivals arrivals;
  Hold hold = space.lock(item(1));
  arrive(space.as("next"), item(1), 0, &arrivals);
  hold = space.lock(item(2));
  ASSERT_EQ(arrivals.due.size(), 1U) << "item 1 was passed on";
  arrivals.due.run_one();
  EXPECT_FALSE(space.try_lock(item(2)).has_value()) << "item 2 is held";

  Hold& itself = hold;
  hold = std::move(itself);
  EXPECT_FALSE(space.try_lock(item(2)).has_value()) << "moved onto itself, it is still held";
  hold = Hold{};
  EXPECT_TRUE(space.try_lock(item(2)).has_value());
}

TEST(Museum, S15_ASecondReleaseIsNotSomebodyElses) {
  Space space = open("local:");
  Hold first = space.lock(item(1));
  const Token old = first.token();
  EXPECT_TRUE(first.release());
  const Hold second = space.lock(item(1));

  EXPECT_FALSE(first.release());
  EXPECT_EQ(first.token(), Token{});
  first = Hold{};
  EXPECT_FALSE(space.evict(old)) << "the number is not used again";
  EXPECT_FALSE(space.evict(Token{}));
  EXPECT_FALSE(space.try_lock(item(1)).has_value()) << "the second still holds";
  EXPECT_FALSE(second.lost().stop_requested());
}

TEST(Museum, S15_ReleasingAfterAnEvictionLeavesTheNextHolderAlone) {
  Space space = open("local:");
  Hold evicted = space.lock(item(1));
  EXPECT_TRUE(space.evict(evicted.token()));
  EXPECT_FALSE(space.evict(evicted.token())) << "once";
  const Hold next = space.lock(item(1));
  EXPECT_FALSE(evicted.release());
  EXPECT_FALSE(space.try_lock(item(1)).has_value());
}

TEST(Museum, S15_AMovedHoldIsGivenBackOnce) {
  Space space = open("local:");
  Hold from = space.lock(item(1));
  Hold to = std::move(from);
  EXPECT_FALSE(from.release());  // NOLINT(bugprone-use-after-move): that it is empty is the point.
  EXPECT_FALSE(space.try_lock(item(1)).has_value());
  EXPECT_TRUE(to.release());
}

TEST(Museum, S15_UnlockingAMutexThatIsNotLockedIsAnError) {
  Space space = open("local:");
  Mutex mine = space.mutex(item(1));
  Mutex yours = space.mutex(item(1));
  yours.lock();
  EXPECT_THROW(mine.unlock(), std::system_error);
  EXPECT_THROW(yours.unlock_shared(), std::system_error);
  EXPECT_FALSE(mine.try_lock()) << "yours is still locked";
  yours.unlock();
  EXPECT_THROW(yours.unlock(), std::system_error);
}

}  // namespace
}  // namespace tenure::museum
