// Guards and writes of the caller in the transactions of requests, releases and downgrades.
#include <gtest/gtest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "tenure/asio.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

namespace asio = boost::asio;

const Path book = Path::of("book");
const std::string log = "log/1";

TxnPart writing(std::string value) {
  return {.guards = {}, .writes = {Write::put(log, std::move(value))}};
}
TxnPart writing_if_absent(std::string key) {
  return {.guards = {Guard::absent(std::move(key))}, .writes = {Write::put(log, "written")}};
}

class TxnParts : public AnySpace {
 protected:
  void SetUp() override { store = tenure::store(new_url()); }
  [[nodiscard]] std::optional<std::string> value(const std::string& key = log) const {
    Txn txn;
    txn.reads = {Range::key(key)};
    const Outcome outcome = store->apply(txn);
    if (outcome.reads.front().empty()) return std::nullopt;
    return outcome.reads.front().front().value;
  }
  void put(const std::string& key) const {
    Txn txn;
    txn.writes = {Write::put(key, "there")};
    store->apply(txn);
  }

  std::shared_ptr<Store> store;
};

TEST_P(TxnParts, ARequestWritesWithItsTicket) {
  const Space space = open(store);
  const Hold hold = space.with_txn(writing("taken")).lock(book);
  EXPECT_EQ(value(), "taken");
  EXPECT_EQ(space.inspect().size(), 1U);
}

TEST_P(TxnParts, ARequestWhoseGuardFailsLeavesNothing) {
  const Space space = open(store);
  put("closed");
  const Locker locker = space.with_txn(writing_if_absent("closed"));
  EXPECT_THROW(static_cast<void>(locker.lock(book)), GuardFailed);
  EXPECT_THROW(static_cast<void>(locker.try_lock(book)), GuardFailed);
  EXPECT_THROW(static_cast<void>(locker.try_lock_for(book, 1h)), GuardFailed);
  EXPECT_EQ(value(), std::nullopt);
  EXPECT_TRUE(space.inspect().empty());
}

TEST_P(TxnParts, ATryWritesOnlyIfItTakesTheLock) {
  const Space space = open(store);
  Hold first = space.lock(book);
  const Locker locker = space.with_txn(writing("taken"));
  EXPECT_FALSE(locker.try_lock(book).has_value());
  EXPECT_EQ(value(), std::nullopt);
  first.release();
  EXPECT_TRUE(locker.try_lock(book).has_value());
  EXPECT_EQ(value(), "taken");
}

TEST_P(TxnParts, ARequestThatWaitsHasWrittenAlready) {
  const Space space = open(store);
  const Hold first = space.lock(book);
  std::stop_source stop;
  const std::jthread waiting{
      [&] { static_cast<void>(space.with_txn(writing("asked")).lock(book, stop.get_token())); }};
  await_waiters(space, 1);
  EXPECT_EQ(value(), "asked");
  stop.request_stop();
}

TEST_P(TxnParts, ARepeatedRequestWritesNothingAgain) {
  put("orders/7");
  const Space space = open(store);
  const Locker locker = space.anchored("orders/7").request_id(1);
  static_cast<void>(locker.with_txn(writing("first")).lock(book).detach());
  Hold again = locker.with_txn(writing("second")).lock(book);
  EXPECT_EQ(value(), "first");
  EXPECT_TRUE(again.release());
}

TEST_P(TxnParts, AReleaseWritesInOneStep) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  EXPECT_TRUE(hold.release(writing("done")));
  EXPECT_FALSE(hold);
  EXPECT_EQ(value(), "done");
  EXPECT_TRUE(space.inspect().empty());
  EXPECT_FALSE(hold.release(writing("again"))) << "an empty hold writes nothing";
  EXPECT_EQ(value(), "done");
}

TEST_P(TxnParts, AReleaseWhoseGuardFailsKeepsTheHold) {
  const Space space = open(store);
  Hold hold = space.max_hold(1h).lock(book);
  const std::stop_token lost = hold.lost();
  put("closed");
  EXPECT_THROW(hold.release(writing_if_absent("closed")), GuardFailed);
  EXPECT_TRUE(hold);
  EXPECT_EQ(value(), std::nullopt);
  EXPECT_FALSE(space.try_lock(book).has_value());
  EXPECT_TRUE(hold.renew());
  EXPECT_TRUE(hold.release(writing_if_absent("open")));
  EXPECT_EQ(value(), "written");
  EXPECT_FALSE(lost.stop_requested()) << "a release is no loss";
}

TEST_P(TxnParts, ALostHoldWritesNothing) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  space.evict_now(hold.token());
  EXPECT_FALSE(hold.release(writing("done")));
  EXPECT_FALSE(hold);
  EXPECT_EQ(value(), std::nullopt);
}

// The operator gives a holder a second: the row says so, and still stands.
TEST_P(TxnParts, AHoldThatIsBeingEvictedWritesNothing) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  space.evict(hold.token());
  EXPECT_FALSE(hold.release(writing("done")));
  EXPECT_EQ(value(), std::nullopt);
  EXPECT_TRUE(space.try_lock(book).has_value());
}

// How an asynchronous release with this part ends: "yes", "no" or what was thrown.
std::string released(Hold& hold, TxnPart part) {
  asio::io_context io;
  std::future<bool> held =
      hold.async_release(std::move(part), asio::bind_executor(io, asio::use_future));
  EXPECT_FALSE(hold);
  io.run();
  try {
    return held.get() ? "yes" : "no";
  } catch (const GuardFailed&) {
    return "GuardFailed";
  } catch (const BadRequest&) {
    return "BadRequest";
  } catch (const StoreError&) {
    return "StoreError";
  }
}

TEST_P(TxnParts, AnAsynchronousReleaseWritesInOneStep) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  EXPECT_EQ(released(hold, writing("done")), "yes");
  EXPECT_FALSE(hold);
  EXPECT_EQ(value(), "done");
  EXPECT_TRUE(space.inspect().empty());
  EXPECT_EQ(released(hold, writing("again")), "no") << "an empty hold writes nothing";
  EXPECT_EQ(value(), "done");
}

TEST_P(TxnParts, AnAsynchronousReleaseWhoseGuardFailsBringsTheHoldBack) {
  const Space space = open(store);
  Hold hold = space.max_hold(1h).lock(book);
  const Token token = hold.token();
  const std::stop_token lost = hold.lost();
  put("closed");
  EXPECT_EQ(released(hold, writing_if_absent("closed")), "GuardFailed");
  EXPECT_EQ(hold.token(), token);
  EXPECT_EQ(value(), std::nullopt);
  EXPECT_FALSE(space.try_lock(book).has_value());
  EXPECT_TRUE(hold.renew());
  const TxnPart theirs{.guards = {}, .writes = {Write::remove(std::string{"\x01"} + "book")}};
  EXPECT_EQ(released(hold, theirs), "BadRequest");
  EXPECT_EQ(hold.token(), token);
  EXPECT_EQ(released(hold, writing_if_absent("open")), "yes");
  EXPECT_EQ(value(), "written");
  EXPECT_FALSE(lost.stop_requested()) << "a release is no loss";
}

TEST_P(TxnParts, AnAsynchronousReleaseOfALostHoldWritesNothing) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  space.evict_now(hold.token());
  EXPECT_EQ(released(hold, writing("done")), "no");
  EXPECT_FALSE(hold);
  EXPECT_EQ(value(), std::nullopt);
}

TEST_P(TxnParts, AnAsynchronousReleaseWorksInACoroutineAndAfterClose) {
  Space space = open(store);
  Hold hold = space.lock(book);
  space.close();
  asio::io_context io;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        const bool held = co_await hold.async_release(writing("done"), asio::use_awaitable);
        EXPECT_TRUE(held);
      },
      asio::detached);
  io.run();
  EXPECT_EQ(value(), "done");
}

// Nobody hears of the guard that failed, and the hold has no object to come back to.
TEST_P(TxnParts, AnAsynchronousReleaseThatNobodyAwaitsGivesTheHoldBack) {
  const Space space = open(store);
  put("closed");
  {
    asio::io_context io;
    Hold hold = space.lock(book);
    hold.async_release(writing_if_absent("closed"),
                       asio::bind_executor(io, [](const std::exception_ptr&, bool) { FAIL(); }));
  }
  await_tickets(space, 0);
  EXPECT_EQ(value(), std::nullopt);
}

TEST_P(TxnParts, ADowngradeWritesInOneStep) {
  const Space space = open(store);
  Hold hold = space.lock(book);
  put("closed");
  EXPECT_THROW(hold.downgrade(book.shared(), writing_if_absent("closed")), GuardFailed);
  EXPECT_FALSE(space.try_lock(book.shared()).has_value());
  hold.downgrade(book.shared(), writing("shared"));
  EXPECT_EQ(value(), "shared");
  EXPECT_TRUE(space.try_lock(book.shared()).has_value());
  EXPECT_TRUE(hold.release());
}

TEST_P(TxnParts, PartsThatAreTooLargeOrWriteTenuresKeysAreRefused) {
  const Space space = open(store);
  TxnPart large;
  large.guards.assign(TxnPart::max_part + 1, Guard::absent("none"));
  EXPECT_THROW(static_cast<void>(space.with_txn(large)), BadRequest);
  const TxnPart theirs{.guards = {}, .writes = {Write::remove(std::string{"\x01"} + "book")}};
  EXPECT_THROW(static_cast<void>(space.with_txn(theirs)), BadRequest);
  Hold hold = space.lock(book);
  EXPECT_THROW(hold.release(theirs), BadRequest);
  EXPECT_THROW(hold.downgrade(book.shared(), large), BadRequest);
  EXPECT_TRUE(hold.release());
  // The largest part fits, beside the claims of a request.
  TxnPart most;
  for (std::size_t i = 0; i < TxnPart::max_part; ++i) {
    most.guards.push_back(Guard::absent("none/" + std::to_string(i)));
    most.writes.push_back(Write::put("some/" + std::to_string(i), "value"));
  }
  const Path deep = Path::of("a", "b", "c", "d", "e", "f");
  EXPECT_TRUE(space.with_txn(most).try_lock({deep.permits(2), book.group("readers")}).has_value());
  EXPECT_TRUE(space.with_txn(most).lock({deep.permits(2), book.group("readers")}).release(most));
  EXPECT_EQ(value("some/31"), "value");
}

TEST_P(TxnParts, AnAnchorMayBeginWithAnyCharacter) {
  put("\xc3\xa9tude/7");
  const Space space = open(store);
  EXPECT_TRUE(space.anchored("\xc3\xa9tude/7").try_lock(book).has_value());
}

TEST(LocalTxnPart, IsRefused) {
  const Space space = open("local:");
  EXPECT_THROW(static_cast<void>(space.with_txn(writing("x"))), BadRequest);
  Hold hold = space.lock(book);
  EXPECT_THROW(hold.release(writing("x")), BadRequest);
  EXPECT_EQ(released(hold, writing("x")), "BadRequest");
  EXPECT_THROW(hold.downgrade(book.shared(), writing("x")), BadRequest);
  EXPECT_TRUE(hold.release());
}

// The answer of the release gets lost: the hold stays, and the next call finds out.
class LostTxnPart : public ::testing::TestWithParam<bool> {};

TEST_P(LostTxnPart, IsMadeWithTheReleaseOrNotAtAll) {
  const bool asynchronous = GetParam();
  for (const bool made : {true, false}) {
    const auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
    const Space space = open(store);
    Hold hold = space.lock(book);
    bool armed = true;
    store->before_apply([&](const Txn& txn) {
      if (txn.writes.empty() || !std::exchange(armed, false)) return;
      if (made) static_cast<void>(store->apply(txn));
      throw StoreError("lost", true);
    });
    if (asynchronous) {
      EXPECT_EQ(released(hold, writing("done")), "StoreError");
    } else {
      EXPECT_THROW(hold.release(writing("done")), StoreError);
    }
    store->before_apply(nullptr);
    ASSERT_TRUE(hold);
    EXPECT_EQ(hold.release(writing("again")), !made);
    Txn read;
    read.reads = {Range::key(log)};
    EXPECT_EQ(store->apply(read).reads.front().front().value, made ? "done" : "again");
    EXPECT_TRUE(space.inspect().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(In, LostTxnPart, ::testing::Bool(), [](const auto& kind) {
  return std::string{kind.param ? "asynchronous" : "waiting"};
});

std::vector<std::string_view> stored_spaces() {
  std::vector<std::string_view> kinds = all_spaces();
  std::erase(kinds, "local");
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(In, TxnParts, ::testing::ValuesIn(stored_spaces()),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace tenure::stored
