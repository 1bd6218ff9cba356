// A hold that gives a part of its claims back, in every space.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/tenure.hpp"

namespace tenure {
namespace {

using AnyDowngrade = AnySpace;
TENURE_IN_ALL_SPACES(AnyDowngrade);

const Path book = Path::of("book");
const Path film = Path::of("film");

TEST_P(AnyDowngrade, LetsOthersInAndKeepsTheNumber) {
  const Space space = open_new();
  Hold hold = space.lock(book);
  const Token token = hold.token();
  std::jthread reader{[&] { EXPECT_TRUE(space.lock(book.shared())); }};
  await_waiters(space, 1);
  hold.downgrade(book.shared());
  reader.join();
  EXPECT_EQ(hold.token(), token);
  EXPECT_THROW(hold.downgrade(book), BadRequest);
  EXPECT_THROW(hold.downgrade(film.shared()), BadRequest);
  hold.downgrade(Path::of("book", 1).shared());
  EXPECT_TRUE(space.try_lock(Path::of("book", 2)));
  EXPECT_FALSE(space.try_lock(Path::of("book", 1)));
  EXPECT_EQ(told(space), "1 holds book/1:shared");
  Hold empty;
  EXPECT_THROW(empty.downgrade(book), BadRequest);
}

TEST_P(AnyDowngrade, WhoeverComesAfterADowngradedTicketHasALargerNumber) {
  const Space space = open_new();
  for (int id = 0; id < 20; ++id) {
    Hold hold = space.lock(book);
    const Token token = hold.token();
    const Path part = Path::of("book", id);  // Somewhere that the ticket was not before.
    hold.downgrade(part.exclusive());
    hold.release();
    EXPECT_LT(token, space.lock(part).token());
  }
}

// The one in between came before the downgrade, and knew nothing of where that leads to.
TEST_P(AnyDowngrade, WhoeverComesAfterAWaiterThatADowngradePassedHasALargerNumber) {
  const Space space = open_new();
  for (int id = 0; id < 5; ++id) {
    Hold hold = space.lock(book);
    Token between;
    std::jthread waiter{[&] { between = space.lock(book).token(); }};
    await_waiters(space, 1);
    const Path part = Path::of("book", id);
    hold.downgrade(part.exclusive());
    hold.release();
    waiter.join();
    EXPECT_LT(between, space.lock(part).token());
  }
}

TEST_P(AnyDowngrade, DropsClaims) {
  const Space space = open_new();
  Hold hold = space.lock({book, film.permits(2)});
  hold.downgrade({film.permits(2)});
  EXPECT_TRUE(space.try_lock(book));
  EXPECT_TRUE(space.try_lock(film.permits(2)));
  hold.release();
  EXPECT_EQ(told(space), "");
}

// The limit that a ticket itself gives back is in nobody's way, and does not stay.
TEST_P(AnyDowngrade, MayChangeALimitThatNobodyElseHas) {
  const Path part = Path::of("book", 1);
  const auto members = [&part](std::uint32_t limit) {
    return Claim{part, limit == 0 ? Mode::group("crew") : Mode::group("crew", limit)};
  };
  for (const auto& [from, to] : {std::pair{0U, 2U}, {2U, 0U}, {2U, 1U}, {1U, 2U}}) {
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    const Space space = open_new();
    Hold hold = space.lock({book, members(from)});
    hold.downgrade({members(to)});
    EXPECT_THROW(static_cast<void>(space.try_lock(members(from))), LimitMismatch);
    std::vector<Hold> others;
    while (others.size() < 3) {
      std::optional<Hold> other = space.try_lock(members(to));
      if (!other.has_value()) break;
      others.push_back(std::move(*other));
    }
    EXPECT_EQ(others.size(), to == 0 ? 3U : to - 1);
    others.clear();
    EXPECT_TRUE(hold.release());
    EXPECT_TRUE(space.try_lock(members(from)));
  }
}

TEST_P(AnyDowngrade, ToALimitThatAWaiterDisagreesWithIsRefused) {
  const Path part = Path::of("book", 1);
  const Space space = open_new();
  Hold hold = space.lock({book, part.permits(2)});
  std::jthread waiter{[&] { EXPECT_TRUE(space.lock(part.permits(2))); }};
  await_waiters(space, 1);
  EXPECT_THROW(hold.downgrade(part.permits(1)), LimitMismatch);
  EXPECT_FALSE(space.try_lock(book));
  hold.downgrade(part.permits(2));
  waiter.join();
  EXPECT_TRUE(hold.release());
}

}  // namespace
}  // namespace tenure
