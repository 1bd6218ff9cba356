// What a release costs waiters that it does not concern, and what it leaves behind.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/museum/stored.hpp"

namespace tenure::museum {
namespace {

const Path book = Path::of("book");

// Queues `count` requests behind those that hold the claim, grants one at a time, and counts the
// calls to the store. The waiters are threads of one space, so that no call is hidden in another
// process.
void hand_over(MemoryStore& store, const Space& space,
               const std::function<Claim(std::size_t)>& claim, std::size_t count,
               std::vector<Hold> holding, std::size_t most_applies) {
  std::atomic<std::size_t> granted = 0;
  std::atomic<std::size_t> may_go = 0;
  std::atomic<std::size_t> gone = 0;
  std::vector<std::jthread> waiters;
  for (std::size_t i = 0; i < count; ++i) {
    waiters.emplace_back([&, i] {
      Hold hold = space.lock(claim(i));
      const std::size_t turn = ++granted;
      until([&] { return may_go >= turn; });
      hold.release();
      ++gone;
    });
    until_waiting(space, i + 1);
  }
  store.settle();
  std::atomic<std::size_t> applies = 0;
  store.before_apply([&](const Txn&) { ++applies; });
  const auto hand = [&](std::size_t turn, auto release) {
    applies = 0;
    release();
    until([&] { return granted == turn; });
    store.settle();
    EXPECT_LE(applies, most_applies) << "release " << turn;
  };
  std::size_t turn = 0;
  for (Hold& hold : holding) hand(++turn, [&] { hold.release(); });
  while (turn < count) {
    hand(turn + 1, [&] {
      ++may_go;
      until([&] { return gone == may_go; });
    });
    ++turn;
  }
  store.before_apply({});
  may_go = count;
}

// The release itself, and the look of the next waiter: however long the line is.
TEST_F(StoredMuseum, M16_AReleaseIsLookedAtByTheNextOneOnly) {
  std::vector<Hold> holding;
  holding.push_back(space.lock(book));
  hand_over(*store, space, [](std::size_t) { return book; }, 60, std::move(holding), 3);
}

// With a limit, several waiters may be next, but not all.
TEST_F(StoredMuseum, M16_APermitIsLookedAtByAsManyAsTheLimit) {
  const Claim permit = book.permits(3);
  std::vector<Hold> holding;
  for (int i = 0; i < 3; ++i) holding.push_back(space.lock(permit));
  hand_over(*store, space, [&](std::size_t) { return permit; }, 60, std::move(holding), 1 + 2 * 3);
}

// Groups that exclude each other form a chain as well: two that alternate, also between exclusive
// tickets, and groups that each occur once.
TEST_F(StoredMuseum, M16_AReleaseIsLookedAtByTheNextGroupOnly) {
  const std::vector<std::function<Claim(std::size_t)>> queues = {
      [](std::size_t i) { return book.group(i % 2 == 0 ? "pull" : "push"); },
      [](std::size_t i) {
        return i % 3 == 0 ? book.exclusive() : book.group(i % 3 == 1 ? "a" : "b");
      },
      [](std::size_t i) { return book.group("run-" + std::to_string(i)); }};
  for (const auto& queue : queues) {
    std::vector<Hold> holding;
    holding.push_back(space.lock(book));
    hand_over(*store, space, queue, 40, std::move(holding), 3);
  }
}

// A key for each path that was ever locked would be a leak, and a counter per path would not order
// tickets.
TEST_F(StoredMuseum, M19_TokensOnlyGoUpAndPathsLeaveNothing) {
  const std::size_t before = entries();
  Token last;
  for (int i = 0; i < 3'000; ++i) {
    Hold hold = space.lock(i % 3 == 0 ? Path::of("p", i) : Path::of("q", std::to_string(i), "r"));
    ASSERT_GT(hold.token(), last);
    last = hold.token();
    if (i % 2 == 0) hold.release();
  }
  store->settle();
  EXPECT_EQ(entries(), before);
}

}  // namespace
}  // namespace tenure::museum
