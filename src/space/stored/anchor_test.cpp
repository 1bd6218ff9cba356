// Tickets that hang on a key of the store: they outlive their process, keep their place, are found
// again, and end with the key. Every kind of stored space.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/message.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using kit::contains;
using kit::until;

const Path book = Path::of("book");
const Path film = Path::of("film");
const std::string order = "orders/7";

std::vector<std::string_view> stored_spaces() {
  std::vector<std::string_view> kinds = all_spaces();
  std::erase(kinds, "local");
  return kinds;
}

class Anchored : public AnySpace {
 protected:
  void SetUp() override {
    store = tenure::store(new_url());
    put(order, "open");
  }
  void put(const std::string& key, const std::string& value) const {
    Txn txn;
    txn.writes.push_back(Write::put(key, value));
    store->apply(txn);
  }
  void remove(const std::string& key) const {
    Txn txn;
    txn.writes.push_back(Write::remove(key));
    store->apply(txn);
  }
  // Another process, as far as the store can tell.
  [[nodiscard]] Space other() const { return open(store); }
  // Every entry of tickets and of request ids.
  [[nodiscard]] std::size_t entries() const {
    Txn txn;
    txn.reads = {Range::prefix("\x01"), Range::prefix("\x02"), Range::prefix("\x05")};
    const Outcome outcome = store->apply(txn);
    return outcome.reads[0].size() + outcome.reads[1].size() + outcome.reads[2].size();
  }
  [[nodiscard]] static std::jthread lock_on_thread(const Locker& space, const Path& path,
                                                   std::atomic<int>& grants) {
    return std::jthread{[&space, path, &grants] {
      const Hold hold = space.lock(path);
      ++grants;
    }};
  }

  std::shared_ptr<Store> store;
};

TEST_P(Anchored, ATicketOutlivesItsSpaceAndIsFoundAgain) {
  Token token;
  {
    const Space first = other();
    token = first.anchored(order).lock(book).detach();
  }
  const Space second = other();
  EXPECT_FALSE(second.try_lock(book).has_value());
  const std::vector<TicketInfo> infos = second.inspect();
  ASSERT_EQ(infos.size(), 1U);
  EXPECT_EQ(infos.front().anchor, order);
  EXPECT_TRUE(infos.front().granted);
  std::optional<Hold> hold = second.find(token);
  ASSERT_TRUE(hold.has_value());
  EXPECT_EQ(hold->token(), token);
  EXPECT_TRUE(hold->release());
  EXPECT_TRUE(second.try_lock(book).has_value());
  EXPECT_FALSE(second.find(token).has_value());
  EXPECT_EQ(entries(), 0U);
}

TEST_P(Anchored, AHoldThatIsNotDetachedIsReleased) {
  {
    const Space first = other();
    const Hold hold = first.anchored(order).lock(book);
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_P(Anchored, FindWaitsForATicketThatWaits) {
  const Space first = other();
  Hold before = first.lock(book);
  const Space asking = other();
  std::stop_source give_up;
  // A wait that is given up takes its ticket along; one that was found leaves it.
  std::atomic<int> grants = 0;
  const std::jthread waiter{[&] {
    const std::optional<Hold> hold = asking.anchored(order).request_id(1).lock(book);
    ++grants;
  }};
  await_waiters(first, 1);
  const Token waiting = first.inspect().back().ticket.number;
  const Space second = other();
  std::atomic<int> ended = 0;
  {
    const std::jthread finder{[&] {
      EXPECT_FALSE(second.find(waiting, {}, give_up.get_token()).has_value());
      ++ended;
    }};
    give_up.request_stop();
  }
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(first.inspect().size(), 2U) << "the ticket stays";
  before.release();
  until([&] { return grants == 1; });
}

TEST_P(Anchored, ARemovedAnchorLetsTheNextOneIn) {
  const Space first = other();
  const Token token = first.anchored(order).lock(book).detach();
  const Space second = other();
  std::atomic<int> grants = 0;
  const std::jthread waiter = lock_on_thread(second, book, grants);
  await_waiters(first, 1);
  put(order, "still open");  // A change is not the end.
  EXPECT_EQ(first.inspect().size(), 2U);
  remove(order);
  until([&] { return grants == 1; });
  EXPECT_FALSE(first.find(token).has_value());
}

TEST_P(Anchored, InspectionClearsWhatARemovedAnchorLeft) {
  const Space space = other();
  space.anchored(order).request_id(1).lock({book, film.shared()}).detach();
  remove(order);
  EXPECT_TRUE(space.inspect().empty());
  EXPECT_EQ(entries(), 0U);
}

TEST_P(Anchored, ARequestNeedsItsAnchor) {
  const Space space = other();
  EXPECT_THROW(static_cast<void>(space.anchored("none").lock(book)), AnchorLost);
  EXPECT_THROW(static_cast<void>(space.anchored("none").try_lock(book)), AnchorLost);
  EXPECT_EQ(entries(), 0U);
  EXPECT_THROW(static_cast<void>(space.anchored("")), BadRequest);
  EXPECT_THROW(static_cast<void>(space.anchored(std::string(max_anchor + 1, 'a'))), BadRequest);
  EXPECT_THROW(static_cast<void>(space.anchored("\x03session")), BadRequest);
  EXPECT_THROW(static_cast<void>(space.request_id(1)), BadRequest);
}

TEST_P(Anchored, AWaitEndsWithItsAnchor) {
  const Space space = other();
  const Hold before = space.lock(book);
  const Space second = other();
  std::atomic<int> lost = 0;
  const std::jthread waiter{[&] {
    try {
      const Hold hold = second.anchored(order).lock(book);
    } catch (const AnchorLost&) {
      ++lost;
    }
  }};
  await_waiters(space, 1);
  remove(order);
  until([&] { return lost == 1; });
}

TEST_P(Anchored, AHoldIsLostWithItsAnchor) {
  const Space space = other();
  Hold hold = space.anchored(order).lock(book);
  const std::stop_token lost = hold.lost();
  EXPECT_FALSE(lost.stop_requested());
  put(order, "still open");
  EXPECT_TRUE(hold.renew());
  remove(order);
  until([&] { return lost.stop_requested(); });
}

TEST_P(Anchored, ARepeatedRequestIsTheSameRequest) {
  Token token;
  {
    const Space first = other();
    token = first.anchored(order).request_id(1).lock({book, film.shared()}).detach();
  }
  const Space second = other();
  const Locker locker = second.anchored(order).request_id(1);
  Hold again = locker.lock({book, film.shared()});
  EXPECT_EQ(again.token(), token);
  EXPECT_THROW(static_cast<void>(locker.lock(film)), BadRequest);
  EXPECT_FALSE(second.anchored(order).request_id(2).try_lock(book).has_value());
  again.downgrade(film.shared());
  again.detach();
  std::optional<Hold> tried = locker.try_lock({book, film.shared()});
  ASSERT_TRUE(tried.has_value()) << "it was narrowed, and is the same";
  EXPECT_EQ(tried->token(), token);
  EXPECT_TRUE(tried->release());
  EXPECT_EQ(entries(), 0U);
  Hold fresh = locker.lock({book, film.shared()});
  EXPECT_GT(fresh.token(), token);
}

TEST_P(Anchored, ARepeatedRequestThatWaitsKeepsItsPlace) {
  const Space first = other();
  Hold before = first.lock(book);
  std::atomic<int> ended = 0;
  auto dying = std::make_unique<Space>(other());
  std::jthread waiter{[&, locker = dying->anchored(order).request_id(1)] {
    try {
      static_cast<void>(locker.lock(book).detach());
    } catch (const Closed&) {
      ++ended;
    }
  }};
  await_waiters(first, 1);
  const Space second = other();
  const Locker again = second.anchored(order).request_id(1);
  EXPECT_FALSE(again.try_lock(book).has_value());
  EXPECT_EQ(first.inspect().size(), 2U) << "a repeated try neither adds nor removes a ticket";
  before.release();
  until([&] { return first.inspect().size() == 1 && first.inspect().front().granted; });
  waiter.join();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(again.lock(book).token(), first.inspect().front().ticket.number);
}

TEST_P(Anchored, OneCallWaitsForATicketInASpace) {
  const Space first = other();
  Hold before = first.lock(book);
  const Space second = other();
  const Locker locker = second.anchored(order).request_id(1);
  std::atomic<int> grants = 0;
  std::atomic<int> refusals = 0;
  const auto lock = [&] {
    try {
      const Hold hold = locker.lock(book);
      ++grants;
    } catch (const BadRequest&) {
      ++refusals;
    }
  };
  const std::jthread one{lock};
  const std::jthread two{lock};
  until([&] { return refusals == 1; });  // Either: the ticket is there before its maker waits.
  EXPECT_THROW(static_cast<void>(locker.try_lock_for(book, 1h)), BadRequest);
  EXPECT_EQ(grants, 0);
  before.release();
  until([&] { return grants == 1; });
  EXPECT_EQ(refusals, 1);
}

TEST_P(Anchored, TicketsOfSessionsAreNotForOthers) {
  const Space space = other();
  Hold hold = space.lock(book);
  EXPECT_THROW(static_cast<void>(space.find(hold.token())), BadRequest);
  EXPECT_THROW(hold.detach(), BadRequest);
  EXPECT_TRUE(hold.release());
}

TEST_P(Anchored, AnEvictionEndsItAsAnyOther) {
  const Space space = other();
  const Token token = space.anchored(order).lock(book).detach();
  EXPECT_TRUE(space.evict_now(token));
  EXPECT_TRUE(space.try_lock(book).has_value());
}

TEST_P(Anchored, OwnersDeadlockThroughAnchoredTickets) {
  const Space space = other();
  static_cast<void>(space.as("a").anchored(order).lock(book).detach());
  const Hold b = space.as("b").lock(film);
  const Space second = other();
  // One is refused, which of them the tickets' numbers say: the other goes on waiting.
  std::atomic<int> refusals = 0;
  std::stop_source give_up;
  const auto expect_refusal = [&](const Locker& locker, const Path& path) {
    try {
      EXPECT_FALSE(locker.lock(path, give_up.get_token()).has_value());
    } catch (const Deadlock& error) {
      EXPECT_TRUE(contains(error.what(), "book")) << error.what();
      ++refusals;
    }
  };
  const std::jthread one{[&] { expect_refusal(second.as("b"), book); }};
  await_waiters(space, 1);
  const std::jthread two{[&] { expect_refusal(space.as("a").anchored(order), film); }};
  until([&] { return refusals == 1; });
  give_up.request_stop();
}

TEST_P(Anchored, ACrowdLosesAMemberWithItsAnchor) {
  constexpr std::uint32_t limit = 70;  // Too many to watch one by one.
  put("orders/8", "open");
  const Space space = other();
  for (std::uint32_t i = 0; i < limit; ++i) {
    static_cast<void>(
        space.anchored(i == 0 ? "orders/8" : order).lock(book.permits(limit)).detach());
  }
  const Space second = other();
  std::atomic<int> grants = 0;
  const std::jthread waiter{[&] {
    const Hold hold = second.lock(book.permits(limit));
    ++grants;
  }};
  await_waiters(space, 1);
  remove("orders/8");
  until([&] { return grants == 1; });
}

// ---- Rows of a later version

class NewerRow : public Anchored {
 protected:
  [[nodiscard]] std::string plant(const std::string& value) const {
    Txn txn;
    txn.writes.push_back(Write::append(line_of(book.exclusive()), value));
    const Outcome outcome = store->apply(txn);
    return line_of(book.exclusive()) + stamp(outcome.revision);
  }
  void expect_left_alone(const std::string& value) const {
    const std::string key = plant(value);
    const Space space = other();
    const Token token = number_in(key);
    for (const std::function<void()>& meet :
         std::vector<std::function<void()>>{[&] { static_cast<void>(space.lock(book)); },
                                            [&] { static_cast<void>(space.try_lock(book)); },
                                            [&] { static_cast<void>(space.find(token)); },
                                            [&] { static_cast<void>(space.evict(token)); },
                                            [&] { static_cast<void>(space.evict_now(token)); }}) {
      try {
        meet();
        ADD_FAILURE() << "it was not refused";
      } catch (const StoreError& error) {
        EXPECT_TRUE(contains(error.what(), "newer version of Tenure")) << error.what();
        EXPECT_TRUE(contains(error.what(), "update this program")) << error.what();
      }
    }
    const std::vector<TicketInfo> infos = space.inspect();
    ASSERT_EQ(infos.size(), 1U);
    EXPECT_FALSE(infos.front().fault.empty());
    EXPECT_TRUE(space.try_lock(film).has_value()) << "other paths are not affected";
    Txn read;
    read.reads.push_back(Range::key(key));
    const Outcome outcome = store->apply(read);
    ASSERT_EQ(outcome.reads.front().size(), 1U);
    EXPECT_EQ(outcome.reads.front().front().value, value);
  }
};

TEST_P(NewerRow, ALaterFormatIsLeftAlone) {
  expect_left_alone(R"({"format":)" + std::to_string(stored::newest_format + 1) +
                    R"(,"session":"0123456789abcdef","request":1,"claims":[["book"]],"since":1})");
}

TEST_P(NewerRow, AnAnchorOfAnUnknownKindIsLeftAlone) {
  expect_left_alone(R"({"format":2,"anchor":["moon","full"],"by":"0123456789abcdef","request":1,)"
                    R"("claims":[["book"]],"since":1})");
}

#define TENURE_IN_STORED_SPACES(suite)                                      \
  INSTANTIATE_TEST_SUITE_P(In, suite, ::testing::ValuesIn(stored_spaces()), \
                           [](const auto& kind) { return std::string{kind.param}; })
TENURE_IN_STORED_SPACES(Anchored);
TENURE_IN_STORED_SPACES(NewerRow);

}  // namespace
}  // namespace tenure::stored
