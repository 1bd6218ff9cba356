// Locks on files, beside flock(1).
#include "tenure/file_lock.hpp"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "tenure/error.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/scratch.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

class FileLockTest : public ::testing::TestWithParam<FileLock::Kind> {
 public:
  [[nodiscard]] FileLock open() const { return FileLock{file(), GetParam()}; }
  [[nodiscard]] std::filesystem::path file() const { return directory_ / "lock"; }

 private:
  kit::TemporaryDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Of, FileLockTest,
                         ::testing::Values(FileLock::Kind::flock, FileLock::Kind::fcntl),
                         [](const auto& kind) {
                           return kind.param == FileLock::Kind::flock ? "flock" : "fcntl";
                         });

TEST_P(FileLockTest, ExcludesAndShares) {
  FileLock one = open();
  FileLock two = open();
  {
    const std::scoped_lock lock{one};
    EXPECT_FALSE(two.try_lock());
    EXPECT_FALSE(two.try_lock_shared());
    EXPECT_FALSE(two.try_lock_for(1ms));
  }
  const std::shared_lock reader{one};
  EXPECT_TRUE(two.try_lock_shared());
  EXPECT_FALSE(two.try_lock_for(0s));  // A conversion that fails may lose the lock.
  two.unlock_shared();
}

TEST_P(FileLockTest, WaitsUntilTheOtherHasGone) {
  FileLock one = open();
  FileLock two = open();
  one.lock();
  std::atomic<bool> has_it = false;
  std::jthread waiter{[&] {
    two.lock();
    has_it = true;
  }};
  EXPECT_FALSE(has_it);
  one.unlock();
  waiter.join();
  EXPECT_FALSE(one.try_lock());
  std::jthread other{[&] { EXPECT_TRUE(one.try_lock_for(1h)); }};
  {
    const FileLock gone = std::move(two);
  }  // The lock ends with the object.
  other.join();
}

TEST_P(FileLockTest, AWaitIsStopped) {
  FileLock one = open();
  FileLock two = open();
  one.lock();
  std::stop_source stop;
  std::jthread stopper{[&] { stop.request_stop(); }};
  EXPECT_FALSE(two.try_lock_for(1h, stop.get_token()));
}

TEST_P(FileLockTest, SaysWhichFileCannotBeOpened) {
  EXPECT_TRUE(kit::contains(
      kit::message_of<Error>([&] { const FileLock lock{"/no/such/directory/x", GetParam()}; }),
      "cannot open the file to lock '/no/such/directory/x'"));
}

TEST(FileLock, ADirectoryCanBeLocked) {
  const kit::TemporaryDirectory directory;
  FileLock one{directory / "."};
  FileLock two{directory / "."};
  one.lock();
  EXPECT_FALSE(two.try_lock());
}

}  // namespace
}  // namespace tenure
