// What others do between two steps of a request: between its look and its append, its look and its
// watch, or a lost answer and the search for it. Hooks of the store put it exactly there, and
// waiters that only take notes make the outcome exact once the store has settled.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "space/stored/forwarding_store_test.hpp"
#include "space/stored/stored_space.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using detail::WaitOutcome;

const Path book = Path::of("book");

// A request of a process of its own, and what it was told.
class Client : public detail::Waiter {
 public:
  explicit Client(const std::shared_ptr<Store>& store)
      : Waiter(&on_done), space_(new StoredSpace{store, {}}) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {
    release();
    space_->close();
    space_->abandon();
  }

  void request(const Claim& claim, std::chrono::nanoseconds max_hold = 0ns) {
    detail::OwnerRef owner;
    if (max_hold != 0ns) {
      detail::Terms terms;
      terms.max_hold = max_hold;
      owner = space_->on_terms(nullptr, terms);
    }
    const std::array claims = {claim};
    if (space_->request({claims, owner}, *this)) told = WaitOutcome::granted;
  }
  bool evict(Token token) { return space_->evict(token, true); }
  void release() {
    if (std::exchange(told, std::nullopt) == WaitOutcome::granted) space_->release(grant);
  }
  [[nodiscard]] Token token() const { return grant.token; }

  std::optional<WaitOutcome> told;

 private:
  static void on_done(Waiter& waiter, WaitOutcome outcome) noexcept {
    static_cast<Client&>(waiter).told = outcome;
  }
  StoredSpace* const space_;
};

class StoredRace : public ::testing::Test {
 protected:
  // Once, inside the next apply that `is_it`.
  void in_next(std::function<bool(const Txn&)> is_it, std::function<void()> act) {
    store->before_apply([this, is_it = std::move(is_it), act = std::move(act)](const Txn& txn) {
      if (!is_it(txn)) return;
      const std::function<void()> once = act;
      store->before_apply({});
      once();
    });
  }
  static bool appends(const Txn& txn) {
    return !txn.writes.empty() && txn.writes.front().kind == Write::Kind::append;
  }
  void settle_after(std::chrono::nanoseconds time) {
    store->advance(time);
    store->settle();
  }

  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
};

// ---- Tries ----

// A try looks, finds nothing, and appends. Whoever comes in between has it.
TEST_F(StoredRace, OfTwoTriesAtOnceOneHolds) {
  const Space space = open(store);
  const Space elsewhere = open(store);
  const Path page = book / Path::of(1);
  const std::vector<std::pair<Claim, Claim>> pairs = {
      {book, book},          {book.shared(), book},
      {book, book.shared()}, {page, book},
      {book, page},          {book.permits(1), book.permits(1)},
      {page, Path{}},        {book.group("a"), book.group("b")}};
  for (const auto& [mine, theirs] : pairs) {
    SCOPED_TRACE(mine.text() + " and " + theirs.text());
    std::optional<Hold> between;
    in_next(appends, [&] { between = elsewhere.try_lock(theirs); });
    EXPECT_FALSE(space.try_lock(mine).has_value());
    EXPECT_TRUE(between.has_value());
  }
  std::optional<Hold> between;
  in_next(appends, [&] { between = elsewhere.try_lock(book.shared()); });
  EXPECT_TRUE(space.try_lock(book.shared()).has_value()) << "these do not conflict";
  EXPECT_TRUE(between.has_value());
}

// ---- Lost answers ----

// That a ticket can be read does not mean that it survives a crash of the store.
TEST_F(StoredRace, ATicketWhoseAnswerWasLostIsWrittenAgainAndLasts) {
  const Space space = open(store);
  for (const bool only_try : {false, true}) {
    std::vector<Durability> written;
    bool lost = false;
    store->before_apply([&](const Txn& txn) {
      if (txn.writes.empty()) return;
      if (lost) written.push_back(txn.durability);
      if (std::exchange(lost, true)) return;
      store->apply(txn);
      throw StoreError("no answer", true);
    });
    std::optional<Hold> hold = only_try ? space.try_lock(book) : space.lock(book);
    store->before_apply({});
    ASSERT_TRUE(hold.has_value());
    // The first is the hook's own.
    EXPECT_EQ(written, (std::vector{Durability::relaxed, Durability::full}));
    EXPECT_TRUE(hold->release());
  }
}

// ---- Watches ----

// The ticket in its way goes after it was seen and before it is watched.
TEST_F(StoredRace, AWaiterMissesNothingBetweenItsLookAndItsWatch) {
  Client holder{store};
  Client before{store};
  Client last{store};
  holder.request(book);
  before.request(book, 10s);
  in_next(appends, [&] {
    // Whether the one before has its lock is looked at, since its time would have to begin.
    in_next([](const Txn& txn) { return txn.writes.empty(); },
            [&] { EXPECT_TRUE(holder.evict(before.token())); });
  });
  last.request(book);
  store->settle();
  EXPECT_EQ(before.told, WaitOutcome::evicted);
  EXPECT_FALSE(last.told.has_value());
  holder.release();
  store->settle();
  EXPECT_EQ(last.told, WaitOutcome::granted);
}

TEST_F(StoredRace, AWaiterWatchesItsOwnTicket) {
  Client holder{store};
  Client waiter{store};
  holder.request(book);
  waiter.request(book);
  EXPECT_TRUE(holder.evict(waiter.token()));
  store->settle();
  EXPECT_EQ(waiter.told, WaitOutcome::evicted);
}

// More members than are watched one by one: the first of them to go lets the next one in, however
// it goes.
TEST_F(StoredRace, OfACrowdTheEarliestDeadlineIsWatched) {
  constexpr std::uint32_t members = 70;
  const Claim permit = book.permits(members);
  const Space space = open(store);
  std::vector<Hold> crowd;
  for (std::uint32_t i = 0; i < members; ++i) {
    crowd.push_back(space.max_hold(i == 30 ? 10s : 1h).lock(permit));
  }
  Client waiter{store};
  waiter.request(permit);
  settle_after(9s);
  EXPECT_FALSE(waiter.told.has_value());
  settle_after(1s);
  EXPECT_EQ(waiter.told, WaitOutcome::granted);
}

TEST_F(StoredRace, OfACrowdEachDeathIsWatched) {
  constexpr std::uint32_t members = 70;
  const Claim permit = book.permits(members);
  std::vector<std::unique_ptr<Client>> crowd;
  for (std::uint32_t i = 0; i < members; ++i) {
    crowd.push_back(std::make_unique<Client>(store));
    crowd.back()->request(permit);
  }
  Client waiter{store};
  Client next{store};
  waiter.request(permit);
  next.request(permit);
  const std::vector<TicketInfo> infos = open(store).inspect();
  ASSERT_EQ(infos.size(), members + 2);
  store->kill_session(infos.at(40).session);
  store->settle();
  EXPECT_EQ(waiter.told, WaitOutcome::granted);
  EXPECT_FALSE(next.told.has_value());
  crowd.at(3)->release();
  store->settle();
  EXPECT_EQ(next.told, WaitOutcome::granted);
}

// ---- Deadlines ----

// Whoever did not ask for lost() is not told by that: the renewal itself must see that it is late.
TEST_F(StoredRace, ARenewalAtTheDeadlineIsTooLate) {
  const Space space = open(store);
  Hold hold = space.max_hold(10s).lock(book);
  store->advance(10s - 1ns);
  EXPECT_TRUE(hold.renew());
  store->advance(10s);
  EXPECT_FALSE(hold.renew());
}

// ---- Downgrades ----

// Two wait for different claims of one ticket; each is told when its own goes.
TEST_F(StoredRace, ADowngradeTellsThoseWhomItLetsIn) {
  const Space space = open(store);
  Hold hold = space.lock({book, Path::of("film")});
  Client reader{store};
  Client film{store};
  reader.request(book.shared());
  film.request(Path::of("film"));
  hold.downgrade({book.shared(), Path::of("film")});
  store->settle();
  EXPECT_EQ(reader.told, WaitOutcome::granted);
  EXPECT_FALSE(film.told.has_value());
  hold.downgrade(book.shared());
  store->settle();
  EXPECT_EQ(film.told, WaitOutcome::granted);
}

// Its timers fire before watch() returns, when they are armed by a thread that can wait for that.
class HastyStore final : public ForwardingStore {
 public:
  explicit HastyStore(std::shared_ptr<MemoryStore> store)
      : ForwardingStore(store), store_(std::move(store)) {}
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override {
    const bool timer = what.until.has_value();
    std::unique_ptr<Watch> made = ForwardingStore::watch(std::move(what), std::move(notice));
    if (timer && std::this_thread::get_id() == thread_) {
      store_->advance(1s);
      store_->settle();
    }
    return made;
  }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  const std::shared_ptr<MemoryStore> store_;
};

// The first retry runs, fails and arms the next one, before the thread that armed the first one has
// kept its watch.
TEST(StoredRetry, IsNotForgottenWhenItsTimerFiresAtOnce) {
  const auto memory = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  const auto tickets = [&memory] {
    Txn read;
    read.reads = {Range::prefix("\x01")};
    return memory->apply(read).reads.front().size();
  };
  const Space space = open(std::make_shared<HastyStore>(memory));
  Hold hold = space.lock(book);
  memory->fail_next(2, MemoryStore::Fault::before);  // The release, and its first retry.
  EXPECT_THROW(hold.release(), StoreError);
  EXPECT_EQ(tickets(), 1U);
  memory->advance(1s);
  memory->settle();
  EXPECT_EQ(tickets(), 0U);
}

}  // namespace
}  // namespace tenure::stored
