#include "tenure/mutex.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <thread>

#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

const Path book = Path::of("book");
const Path film = Path::of("film");

TEST(Mutex, WorksWithTheStandardsLocks) {
  const Space space = open("local:");
  Mutex mutex = space.mutex(book);
  Mutex other = space.mutex(film);
  {
    std::unique_lock lock{mutex, std::defer_lock};
    EXPECT_TRUE(lock.try_lock_for(1ms));
    EXPECT_GT(mutex.token(), Token{});
    EXPECT_FALSE(space.mutex(book).try_lock());
    EXPECT_FALSE(space.mutex(book).try_lock_shared_for(1ms));
  }
  {
    const std::scoped_lock lock{mutex, other};
    EXPECT_FALSE(space.try_lock(book));
    EXPECT_FALSE(space.try_lock(film));
  }
  {
    const std::shared_lock one{mutex};
    const std::shared_lock two{mutex, 1ms};
    EXPECT_TRUE(two.owns_lock());
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() + 1ms));
    EXPECT_TRUE(space.try_lock(book.shared()));
  }
  EXPECT_EQ(mutex.token(), Token{});
  EXPECT_TRUE(space.inspect().empty());
}

TEST(Mutex, ManyThreadsCountToTheRightNumber) {
  const Space space = open("local:");
  Mutex mutex = space.mutex(book);
  int count = 0;
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const std::scoped_lock lock{mutex};
      ++count;
    }
  };
  std::jthread one{work};
  std::jthread two{work};
  one.join();
  two.join();
  EXPECT_EQ(count, 4000);
}

TEST(Mutex, UnlockingWhatIsNotLockedIsAnError) {
  const Space space = open("local:");
  const Hold another = space.lock(book);
  Mutex mutex = space.mutex(book);
  EXPECT_THROW(mutex.unlock(), std::system_error);
  EXPECT_THROW(mutex.unlock_shared(), std::system_error);
  EXPECT_FALSE(space.try_lock(book)) << "the other's hold is untouched";
}

TEST(Mutex, OfAGroupAdmitsItsMembers) {
  const Space space = open("local:");
  Mutex mutex = space.mutex(book.permits(2));
  mutex.lock();
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  mutex.unlock();
  EXPECT_TRUE(space.inspect().empty());
}

}  // namespace
}  // namespace tenure
