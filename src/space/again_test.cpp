// Several handles of one ticket: explicit reentrancy, in every space.
#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using namespace std::chrono_literals;

using AnyAgain = AnySpace;
TENURE_IN_ALL_SPACES(AnyAgain);

const Path book = Path::of("book");
const Path film = Path::of("film");

TEST_P(AnyAgain, TheLastHandleGivesTheTicketBack) {
  const Space space = open_new();
  Hold first = space.lock(book);
  Hold second = first.again(book);
  Hold third = second.again("book/3");
  EXPECT_EQ(second.token(), first.token());
  EXPECT_EQ(third.claims(), std::vector{book.exclusive()});
  EXPECT_EQ(told(space), "1 holds book") << "one ticket, however many handles";
  EXPECT_TRUE(first.release());
  EXPECT_FALSE(first.release()) << "it is empty";
  EXPECT_FALSE(space.try_lock(book));
  third = {};
  EXPECT_FALSE(space.try_lock(book));
  const Hold moved = std::move(second);
  EXPECT_FALSE(space.try_lock(book));
  EXPECT_TRUE(moved.again(book.shared()).release());
  EXPECT_EQ(told(space), "1 holds book");
}

TEST_P(AnyAgain, NothingIsLeftWhenAllHandlesAreGone) {
  const Space space = open_new();
  for (const bool last_first : {false, true}) {
    Hold first = space.lock({book, film.permits(3).take(2)});
    Hold second = first.again({book.shared(), film.permits(3)});
    Hold& last = last_first ? first : second;
    EXPECT_TRUE((last_first ? second : first).release());
    EXPECT_EQ(space.inspect().size(), 1U);
    EXPECT_TRUE(last.release());
    EXPECT_TRUE(space.inspect().empty());
  }
}

TEST_P(AnyAgain, OnlyWhatIsHeldIsCovered) {
  const Space space = open_new();
  const Hold reader = space.lock(book.shared());
  EXPECT_TRUE(reader.again(book.shared()));
  EXPECT_TRUE(reader.again(Path::of("book", 3).shared()));
  try {
    static_cast<void>(reader.again(book));
    FAIL();
  } catch (const BadRequest& error) {
    EXPECT_STREQ(error.what(),
                 "cannot hold again book: it claims more than is held (book:shared); again() "
                 "covers what is held, a deeper path, or sharing what is held exclusively; for "
                 "anything else, lock it with a request of its own");
  }
  EXPECT_THROW(static_cast<void>(reader.again(film.shared())), BadRequest);
  EXPECT_THROW(static_cast<void>(reader.again(Path{}.shared())), BadRequest);
  EXPECT_THROW(static_cast<void>(reader.again(book.group("pull"))), BadRequest);
  const Hold permits = space.lock(film.permits(3).take(2));
  EXPECT_TRUE(permits.again(film.permits(3)));
  EXPECT_THROW(static_cast<void>(permits.again(film.permits(3).take(3))), BadRequest);
  EXPECT_THROW(static_cast<void>(Hold{}.again(book)), BadRequest);
  EXPECT_EQ(space.inspect().size(), 2U);
}

TEST_P(AnyAgain, WhatWouldChangeTheOtherHandlesIsRefused) {
  const Space space = open_new();
  Hold first = space.lock(book);
  Hold second = first.again(book);
  EXPECT_THROW(first.downgrade(book.shared()), BadRequest);
  EXPECT_THROW(second.downgrade(book.shared()), BadRequest);
  if (!is_local()) {
    EXPECT_THROW(first.release(TxnPart{}), BadRequest);
  }
  EXPECT_TRUE(first && second);
  second.release();
  first.downgrade(book.shared());
  EXPECT_EQ(told(space), "1 holds book:shared");
}

TEST_P(AnyAgain, EveryHandleLearnsThatTheTicketIsLost) {
  const Space space = open_new();
  Hold first = space.max_hold(1h).lock(book);
  Hold second = first.again(book);
  const std::optional<Instant> before = second.deadline();
  ASSERT_TRUE(before.has_value());
  EXPECT_TRUE(second.renew(3h));
  EXPECT_GT(first.deadline(), *before + 1h);
  const std::stop_token lost = second.lost();
  EXPECT_TRUE(space.evict_now(first.token()));
  kit::until([&] { return lost.stop_requested() && first.lost().stop_requested(); });
  EXPECT_FALSE(second.renew());
  EXPECT_TRUE(space.try_lock(book));
  static_cast<void>(first.release());
  EXPECT_FALSE(second.release()) << "the last one tells that it was lost";
}

TEST_P(AnyAgain, HandlesMayEndOnSeveralThreadsAtOnce) {
  const Space space = open_new();
  for (int round = 0; round < rounds(100); ++round) {
    std::vector<Hold> handles(4);
    handles[0] = space.lock(book);
    for (std::size_t i = 1; i < handles.size(); ++i) handles[i] = handles[0].again(book);
    std::latch start{4};
    std::vector<std::jthread> threads;
    for (Hold& handle : handles) {
      threads.emplace_back([&start, mine = std::move(handle)]() mutable {
        start.arrive_and_wait();
        mine = {};
      });
    }
    threads.clear();
    EXPECT_TRUE(space.lock(book).release());
  }
  await_tickets(space, 0);
}

}  // namespace
}  // namespace tenure
