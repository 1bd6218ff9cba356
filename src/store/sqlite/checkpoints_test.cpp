#include "store/sqlite/checkpoints.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <thread>

namespace tenure::sqlite {
namespace {

// A log whose pages the test moves.
struct Log {
  std::atomic<int> moved = 0;
  std::atomic<int> moves = 0;
  std::counting_semaphore<> may_move{0};
  Checkpoints checkpoints{[this] {
    may_move.acquire();
    ++moves;
    return moved.load();
  }};

  ~Log() { may_move.release(100); }

  // Asked again until it is so: the thread tells nobody when it has done its part.
  void await_due(int pages) {
    while (!checkpoints.due(pages)) std::this_thread::yield();
  }
};

constexpr int full = Checkpoints::long_log;

TEST(SqliteCheckpoints, AreNotDueWhileTheLogIsShort) {
  Log log;
  for (int pages = 0; pages < full; ++pages) EXPECT_FALSE(log.checkpoints.due(pages));
  log.may_move.release();
  EXPECT_EQ(log.moves, 0);
}

TEST(SqliteCheckpoints, LeaveTheWriterTheRestOnly) {
  Log log;
  EXPECT_FALSE(log.checkpoints.due(full));  // The thread's.
  EXPECT_FALSE(log.checkpoints.due(full + 200));
  log.moved = full;
  log.may_move.release();
  log.await_due(full + 300);
  EXPECT_EQ(log.moves, 1);
  EXPECT_FALSE(log.checkpoints.due(1));  // It has begun anew.
  EXPECT_FALSE(log.checkpoints.due(full));
  log.may_move.release();
  log.await_due(full);
  EXPECT_EQ(log.moves, 2);
}

TEST(SqliteCheckpoints, AreTriedAgainOnlyWhenALogThatCantBeMovedHasGrown) {
  Log log;
  log.may_move.release(100);
  int writers = 0;
  for (int pages = full; pages < 3 * full; ++pages) {
    if (log.checkpoints.due(pages)) ++writers;
    std::this_thread::yield();
  }
  EXPECT_EQ(writers, 0);  // Nothing was moved: the rest is not short.
  EXPECT_GE(log.moves, 1);
  EXPECT_LE(log.moves, 4);
}

TEST(SqliteCheckpoints, AreTheWritersOwnWhenTheLogOutgrowsTheThread) {
  Log log;
  log.may_move.release(100);
  int writers = 0;
  for (int pages = full; pages < 12 * full; ++pages) {
    if (log.checkpoints.due(pages)) ++writers;
    std::this_thread::yield();
  }
  EXPECT_GE(writers, 1);
  EXPECT_LE(writers, 9);
}

TEST(SqliteCheckpoints, NothingIsDueAfterTheEnd) {
  Log log;
  log.may_move.release(100);
  log.checkpoints.stop();
  EXPECT_FALSE(log.checkpoints.due(20 * full));
}

}  // namespace
}  // namespace tenure::sqlite
