// Tickets in the caller's own transactions, and notices of their grants, as src/flow uses them.
#include "space/stored/tickets.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/stored/grant_wait.hpp"
#include "space/stored/keys.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using detail::WaitOutcome;
using kit::until;

const Path book = Path::of("book");
const Path film = Path::of("film");
const std::string run = "run/7";
const std::string log = "log/7";

class OwnTransaction : public AnySpace {
 protected:
  void SetUp() override {
    store = tenure::store(new_url());
    space.emplace(open(store));
    Txn txn;
    txn.writes.push_back(Write::put(run, "running"));
    store->apply(txn);
  }
  [[nodiscard]] StoredSpace& inside() { return stored_space(*space); }
  [[nodiscard]] Row new_row(std::vector<Claim> claims) {
    Row row = inside().new_row();
    row.anchor = run;
    row.claims = std::move(claims);
    row.since = store->now();
    return row;
  }
  // Appends the ticket and writes the log in one step. Null: the step was refused.
  std::optional<Tickets::Appended> append(const Row& row, std::vector<Guard> also = {}) {
    Txn txn;
    txn.guards = std::move(also);
    txn.writes.push_back(Write::put(log, "asked"));
    txn.reads.push_back(Range::key(run));
    EXPECT_TRUE(inside().tickets().agree_on_limits(row, txn));
    Tickets::Append append{row, inside().tickets().hints()};
    append.add_to(txn);
    const Outcome outcome = apply_then(txn);
    EXPECT_EQ(outcome.reads.front().size(), 1U) << "the caller's own reads stay the first";
    if (!outcome.committed) return std::nullopt;
    return append.judge(outcome);
  }
  Outcome apply_then(const Txn& txn) {
    Outcome result;
    store->apply_then(txn, [&](const Outcome& outcome, const std::exception_ptr& error) {
      EXPECT_EQ(error, nullptr);
      result = outcome;
    });
    store->flush();
    return result;
  }
  [[nodiscard]] std::string read(const std::string& key) const {
    Txn txn;
    txn.reads.push_back(Range::key(key));
    const Outcome outcome = store->apply(txn);
    return outcome.reads.front().empty() ? "none" : outcome.reads.front().front().value;
  }
  void release(const Row& row, Token number) {
    Txn txn;
    txn.writes.push_back(Write::put(log, "released"));
    Tickets::add_removal(row, number, txn);
    apply_then(txn);
  }

  std::shared_ptr<Store> store;
  std::optional<Space> space;
};

struct Noted {
  std::atomic<int> count = 0;
  std::atomic<WaitOutcome> outcome = WaitOutcome::failed;
  [[nodiscard]] GrantWait::Done done() {
    return [this](const GrantWait::End& end) {
      outcome = end.outcome;
      ++count;
    };
  }
};

TEST_P(OwnTransaction, TakesALockAndRecordsItInOneStep) {
  const Row row = new_row({book.exclusive(), film.shared()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  EXPECT_TRUE(ticket->found.free());
  EXPECT_EQ(read(log), "asked");
  EXPECT_FALSE(space->try_lock(book).has_value());
  std::optional<Hold> hold = space->find(ticket->number);
  ASSERT_TRUE(hold.has_value());
  hold->detach();
  release(row, ticket->number);
  EXPECT_EQ(read(log), "released");
  EXPECT_TRUE(space->try_lock({book, film}).has_value());
}

TEST_P(OwnTransaction, TakesNothingWhenAGuardOfTheCallerFails) {
  const Row row = new_row({book.exclusive()});
  EXPECT_FALSE(append(row, {Guard::absent(run)}).has_value());
  EXPECT_EQ(read(log), "none");
  EXPECT_TRUE(space->inspect().empty());
  EXPECT_NO_THROW(inside().tickets().explain_refusal(row)) << "nothing is wrong with the ticket";
}

TEST_P(OwnTransaction, NamesWhatIsInTheWay) {
  const Hold before = space->lock(book / film);
  const auto ticket = append(new_row({book.exclusive()}));
  ASSERT_TRUE(ticket.has_value());
  ASSERT_TRUE(ticket->found.blocked());
  ASSERT_EQ(ticket->found.blockers.size(), 1U);
  EXPECT_EQ(number_in(ticket->found.blockers.front().key), before.token());
}

TEST_P(OwnTransaction, ARefusalIsExplained) {
  const Hold before = space->lock(book.permits(2));
  const Row row = new_row({book.permits(3)});
  Txn txn;
  EXPECT_THROW(std::ignore = inside().tickets().agree_on_limits(row, txn), LimitMismatch);
  Row lost = new_row({film.exclusive()});
  lost.anchor = "none";
  EXPECT_FALSE(append(lost).has_value());
  EXPECT_THROW(inside().tickets().explain_refusal(lost), AnchorLost);
}

TEST_P(OwnTransaction, ATicketIsToldWhenItIsGranted) {
  Hold before = space->lock(book);
  const Row row = new_row({book.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  Noted noted;
  auto wait = GrantWait::start(inside(), row, ticket->number, ticket->found, noted.done());
  ASSERT_NE(wait, nullptr);
  EXPECT_EQ(noted.count, 0);
  before.release();
  until([&] { return noted.count == 1; });
  EXPECT_EQ(noted.outcome, WaitOutcome::granted);
  // A release in the caller's transaction wakes the next one.
  const Row next = new_row({book.exclusive()});
  const auto second = append(next);
  ASSERT_TRUE(second.has_value());
  Noted then;
  const auto other = GrantWait::start(inside(), next, second->number, {}, then.done());
  ASSERT_NE(other, nullptr);
  release(row, ticket->number);
  until([&] { return then.count == 1; });
  EXPECT_EQ(then.outcome, WaitOutcome::granted);
  release(next, second->number);
  EXPECT_TRUE(space->inspect().empty());
}

TEST_P(OwnTransaction, AGrantedTicketNeedsNoWait) {
  const Row row = new_row({book.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  Noted noted;
  const auto wait = GrantWait::start(inside(), row, ticket->number, {}, noted.done());
  if (store->remote()) {
    until([&] { return noted.count == 1; });
    EXPECT_EQ(noted.outcome, WaitOutcome::granted);
  } else {
    EXPECT_EQ(wait, nullptr);
    EXPECT_EQ(noted.count, 0);
  }
  EXPECT_EQ(space->inspect().size(), 1U);
}

TEST_P(OwnTransaction, ADroppedWaitLeavesTheTicketInItsPlace) {
  Hold before = space->lock(book);
  const Row row = new_row({book.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  Noted noted;
  auto wait = GrantWait::start(inside(), row, ticket->number, ticket->found, noted.done());
  wait.reset();
  EXPECT_EQ(space->inspect().size(), 2U);
  before.release();
  EXPECT_FALSE(space->try_lock(book).has_value());
  EXPECT_EQ(noted.count, 0);
  EXPECT_TRUE(space->find(ticket->number).has_value());
}

TEST_P(OwnTransaction, AClosedSpaceEndsTheWaitAndLeavesTheTicket) {
  const Space second = open(store);
  Hold before = second.lock(book);
  const Row row = new_row({book.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  Noted noted;
  const auto wait = GrantWait::start(inside(), row, ticket->number, ticket->found, noted.done());
  space->close();
  until([&] { return noted.count == 1; });
  EXPECT_EQ(noted.outcome, WaitOutcome::closed);
  EXPECT_EQ(second.inspect().size(), 2U);
  before.release();
  EXPECT_FALSE(second.try_lock(book).has_value()) << "it keeps its place while nobody waits";
  std::optional<Hold> hold = second.find(ticket->number);
  ASSERT_TRUE(hold.has_value());
  EXPECT_TRUE(hold->release());
}

TEST_P(OwnTransaction, TheEndOfTheAnchorEndsTheWait) {
  const Hold before = space->lock(book);
  const Row row = new_row({book.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  std::atomic<bool> lost = false;
  const auto wait = GrantWait::start(inside(), row, ticket->number, ticket->found,
                                     [&lost](const GrantWait::End& end) {
                                       try {
                                         if (end.error) std::rethrow_exception(end.error);
                                       } catch (const AnchorLost&) {
                                         lost = true;
                                       } catch (...) {
                                         ADD_FAILURE();
                                       }
                                     });
  Txn txn;
  txn.writes.push_back(Write::remove(run));
  store->apply(txn);
  until([&] { return lost.load(); });
}

TEST_P(OwnTransaction, ATicketIsNarrowedWithARecordOfThat) {
  const Row row = new_row({book.exclusive(), film.exclusive()});
  const auto ticket = append(row);
  ASSERT_TRUE(ticket.has_value());
  const std::optional<Seen> seen = inside().tickets().find(ticket->number, book);
  ASSERT_TRUE(seen.has_value());
  Txn txn;
  txn.writes.push_back(Write::put(log, "narrowed"));
  const std::vector<Claim> claims{film.shared()};
  ASSERT_TRUE(inside().tickets().agree_on_limits(row, claims, ticket->number, txn));
  const Row narrowed = Tickets::add_downgrade(*seen, claims, txn);
  EXPECT_TRUE(apply_then(txn).committed);
  EXPECT_EQ(read(log), "narrowed");
  EXPECT_TRUE(space->try_lock(book).has_value());
  EXPECT_FALSE(space->try_lock(film).has_value());
  release(narrowed, ticket->number);
  EXPECT_TRUE(space->inspect().empty());
}

TEST_P(OwnTransaction, ManyWaitsNeedNoThreads) {
  Hold before = space->lock(book);
  constexpr int count = 50;
  std::vector<std::pair<Row, Token>> tickets;
  std::vector<std::unique_ptr<GrantWait>> waits;
  std::atomic<int> granted = 0;
  for (int i = 0; i < count; ++i) {
    Row row = new_row({book.shared()});
    const auto ticket = append(row);
    ASSERT_TRUE(ticket.has_value());
    waits.push_back(GrantWait::start(inside(), row, ticket->number, ticket->found,
                                     [&granted](const GrantWait::End& end) {
                                       if (end.outcome == WaitOutcome::granted) ++granted;
                                     }));
    tickets.emplace_back(std::move(row), ticket->number);
  }
  before.release();
  until([&] { return granted == count; });
  for (const auto& [row, number] : tickets) release(row, number);
  EXPECT_TRUE(space->inspect().empty());
}

INSTANTIATE_TEST_SUITE_P(In, OwnTransaction, ::testing::ValuesIn([] {
                           std::vector<std::string_view> kinds = all_spaces();
                           std::erase(kinds, "local");
                           return kinds;
                         }()),
                         [](const auto& kind) { return std::string{kind.param}; });

TEST(StoredTickets, ALocalSpaceHasNone) {
  const Space space = open("local:");
  EXPECT_THROW(static_cast<void>(stored_space(space)), BadRequest);
}

// A wait that is destroyed in its own notice.
TEST(GrantWaits, MayBeDestroyedByTheirNotice) {
  const auto store = std::make_shared<MemoryStore>();
  const Space space = open(store);
  Txn txn;
  txn.writes.push_back(Write::put(run, "running"));
  store->apply(txn);
  Hold before = space.lock(book);
  Row row = stored_space(space).new_row();
  row.anchor = run;
  row.claims = {book.exclusive()};
  Txn step;
  Tickets::Append append{row, stored_space(space).tickets().hints()};
  append.add_to(step);
  const Tickets::Appended ticket = append.judge(store->apply(step));
  std::atomic<bool> told = false;
  std::unique_ptr<GrantWait> wait;
  wait = GrantWait::start(stored_space(space), row, ticket.number, ticket.found,
                          [&](const GrantWait::End&) {
                            wait.reset();
                            told = true;
                          });
  before.release();
  until([&] { return told.load(); });
  EXPECT_EQ(wait, nullptr);
}

}  // namespace
}  // namespace tenure::stored
