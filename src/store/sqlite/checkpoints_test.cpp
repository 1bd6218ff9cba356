#include "store/sqlite/checkpoints.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <semaphore>
#include <source_location>

#include "tests/kit/patience.hpp"

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

  Log() { commit_often(); }
  ~Log() { may_move.release(100); }

  // From the beginning of the log on.
  void commit_often() {
    for (int pages = 1; pages <= Checkpoints::few_commits; ++pages) {
      EXPECT_FALSE(checkpoints.due(pages));
    }
  }

  // Polls: the thread does not report when it has done its part.
  void await_due(int pages, std::source_location where = std::source_location::current()) {
    kit::until([&] { return checkpoints.due(pages); }, where);
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
  EXPECT_FALSE(log.checkpoints.due(full));  // Left to the thread.
  EXPECT_FALSE(log.checkpoints.due(full + 200));
  log.moved = full;
  log.may_move.release();
  log.await_due(full + 300);
  EXPECT_EQ(log.moves, 1);
  log.commit_often();  // The log has restarted.
  EXPECT_FALSE(log.checkpoints.due(full));
  log.may_move.release();
  log.await_due(full);
  EXPECT_EQ(log.moves, 2);
}

TEST(SqliteCheckpoints, ComeLaterInALogOfFewCommits) {
  constexpr int full_of_batches = Checkpoints::long_log_of_batches;
  Log log;
  log.may_move.release(100);
  for (int pages = 40; pages < full_of_batches; pages += 40) {
    EXPECT_FALSE(log.checkpoints.due(pages));
  }
  EXPECT_EQ(log.moves, 0);
  log.moved = full_of_batches;
  log.await_due(full_of_batches);
  EXPECT_EQ(log.moves, 1);
}

TEST(SqliteCheckpoints, AreTriedAgainOnlyWhenALogThatCantBeMovedHasGrown) {
  Log log;
  log.may_move.release(100);
  for (int pages = full; pages < 2 * full; ++pages) {
    EXPECT_FALSE(log.checkpoints.due(pages));  // Nothing was moved, so the rest is not short.
  }
  kit::until([&] { return log.moves != 0; });
  EXPECT_LE(log.moves, 10);
}

TEST(SqliteCheckpoints, AreTriedAgainSoonWhenTheLogGoesOn) {
  Log log;
  log.may_move.release(100);
  log.moved = full;
  int pages = full;
  for (const int gap : {1, 2, 4, 8, 16}) {
    log.await_due(pages);  // But somebody reads, and the log does not restart.
    const int moves = log.moves;
    for (int i = 1; i < gap; ++i) EXPECT_FALSE(log.checkpoints.due(pages + i));
    EXPECT_EQ(log.moves, moves);
    pages += gap;
  }
}

TEST(SqliteCheckpoints, AreTheWritersOwnWhenTheLogOutgrowsTheThread) {
  Log log;  // Its pages can't be moved.
  EXPECT_FALSE(log.checkpoints.due(full));
  log.may_move.release();
  kit::until([&] { return log.moves != 0; });
  log.await_due(2 * full);
  EXPECT_FALSE(log.checkpoints.due(2 * full));
  EXPECT_TRUE(log.checkpoints.due(2 * full + 1));
  EXPECT_FALSE(log.checkpoints.due(2 * full + 2));
  EXPECT_TRUE(log.checkpoints.due(2 * full + 3));
}

TEST(SqliteCheckpoints, NothingIsDueAfterTheEnd) {
  Log log;
  log.may_move.release(100);
  log.checkpoints.stop();
  EXPECT_FALSE(log.checkpoints.due(20 * full));
}

}  // namespace
}  // namespace tenure::sqlite
