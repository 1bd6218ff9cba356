// Owners: a deadlock is found without reading the rest of the space, and has one victim.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/stored/forwarding_store_test.hpp"
#include "space/stored/grant_wait.hpp"
#include "space/stored/keys.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/tenure.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;
using kit::until;

const Path book = Path::of("book");
const Path film = Path::of("film");

// Counts what applies bring back.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Outcome apply(const Txn& txn) override {
    Outcome outcome = ForwardingStore::apply(txn);
    for (const std::vector<Entry>& entries : outcome.reads) read += entries.size();
    return outcome;
  }
  std::atomic<std::size_t> read = 0;
};

class StoredOwners : public ::testing::Test {
 protected:
  StoredOwners() {
    for (int i = 0; i < foreign; ++i) {
      const std::string name = "foreign-" + std::to_string(i);
      holds.push_back(others.as(name).lock(Path::of(name)));
    }
  }
  [[nodiscard]] std::size_t index_entries() const {
    Txn txn;
    txn.reads.push_back(Range::prefix(std::string{reserved::owner_tickets}));
    return memory->apply(txn).reads.front().size();
  }
  static constexpr int foreign = 300;
  std::shared_ptr<MemoryStore> memory = std::make_shared<MemoryStore>();
  std::shared_ptr<CountingStore> store = std::make_shared<CountingStore>(memory);
  Space others = open(memory);
  std::vector<Hold> holds;
  Space space = open(store);
};

TEST_F(StoredOwners, ABlockedRequestReadsWhatItCanReach) {
  const Hold before = others.as("a").lock(book);
  const Hold own = space.as("b").lock(film);
  store->read = 0;
  std::stop_source stop;
  std::jthread waiter{
      [&] { EXPECT_FALSE(space.as("b").lock(book, stop.get_token()).has_value()); }};
  await_waiters(others, 1);
  stop.request_stop();
  waiter.join();
  EXPECT_LT(store->read, 40U) << "of " << foreign;
}

TEST_F(StoredOwners, TheWaitsOfAnOwnerAreToldWithoutTheRest) {
  const Hold before = others.as("a").lock(book);
  std::stop_source stop;
  std::jthread first{
      [&] { EXPECT_FALSE(others.as("b").lock(book / film, stop.get_token()).has_value()); }};
  await_waiters(others, 1);
  std::jthread second{
      [&] { EXPECT_FALSE(others.as("c").lock(book, stop.get_token()).has_value()); }};
  await_waiters(others, 2);
  store->read = 0;
  const std::vector<TicketInfo> infos = stored_space(space).inspect_waits(Owner{"c"});
  EXPECT_LT(store->read, 40U) << "of " << foreign;
  ASSERT_EQ(infos.size(), 3U);
  EXPECT_TRUE(infos[0].granted);
  EXPECT_FALSE(infos[1].granted);
  EXPECT_EQ(infos[2].ticket.owner, Owner{"c"});
  EXPECT_EQ(infos[2].position, 2U);
  EXPECT_EQ(infos[2].blocked_by.size(), 2U);
  const std::vector<TicketInfo> whole = others.inspect();
  EXPECT_EQ(infos[2].blocked_by, whole.back().blocked_by);
  EXPECT_TRUE(stored_space(space).inspect_waits(Owner{"nobody-here"}).empty());
  stop.request_stop();
}

TEST_F(StoredOwners, TheIndexGoesWithTheTicket) {
  const std::size_t before = index_entries();
  EXPECT_EQ(before, std::size_t{foreign});
  Hold hold = space.as("a").lock({book, film});
  EXPECT_EQ(index_entries(), before + 1);
  hold.downgrade(film.shared());
  EXPECT_EQ(index_entries(), before + 1);
  const Hold again = space.as("a").lock(book);  // It is found where it is now.
  EXPECT_EQ(stored_space(space).inspect_waits(Owner{"a"}).size(), 2U);
  hold.release();
  EXPECT_EQ(index_entries(), before + 1);
  EXPECT_TRUE(space.evict_now(again.token()));
  EXPECT_EQ(index_entries(), before);
}

// As a program that knows no index leaves them, or somebody who can write to the store.
TEST_F(StoredOwners, EntriesWithoutATicketAreIgnoredAndRemoved) {
  Txn txn;
  txn.writes.push_back(Write::append(owner_line(Owner{"b"}), R"(["gone"])"));
  memory->apply(txn);
  txn.writes.front().value = "no claim";
  memory->apply(txn);
  const std::size_t before = index_entries();
  const Hold held = others.as("a").lock(book);
  EXPECT_FALSE(space.as("b").try_lock_for(book, 1ms).has_value());
  EXPECT_EQ(index_entries(), before) << "one is removed, one is left, and that of a has come";
}

TEST_F(StoredOwners, LongNamesAreCutInTheIndexOnly) {
  const std::string name(3000, 'o');
  const Hold own = space.as(name + "1").lock(film);
  const Hold other = space.as(name + "2").lock(book);
  std::stop_source stop;
  std::jthread waiter{
      [&] { EXPECT_FALSE(space.as(name + "2").lock(film, stop.get_token()).has_value()); }};
  await_waiters(others, 1);
  EXPECT_THROW(static_cast<void>(space.as(name + "1").lock(book)), Deadlock);
  stop.request_stop();
}

// Calls of apply() can be held up, before they are made and after.
class GatedStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Outcome apply(const Txn& txn) override {
    if (before) before(txn);
    Outcome outcome = ForwardingStore::apply(txn);
    if (after) after(txn);
    return outcome;
  }
  std::function<void(const Txn&)> before;
  std::function<void(const Txn&)> after;
};

bool writes(const Txn& txn, Write::Kind kind) {
  return std::ranges::any_of(txn.writes, [kind](const Write& write) { return write.kind == kind; });
}

void set(std::atomic<bool>& flag) {
  flag = true;
  flag.notify_all();
}

// Both see the circle. The later one should give way but is held up, so the earlier one does; then
// the later one must not fail as well.
TEST(StoredDeadlock, HasOneVictimThoughTheOtherWasAboutToGiveWay) {
  const auto memory = std::make_shared<MemoryStore>();
  const auto earlier = std::make_shared<GatedStore>(memory);
  const auto later = std::make_shared<GatedStore>(memory);
  const Space a = open(earlier);
  const Space b = open(later);
  Hold has_book = a.as("a").lock(book);
  const Hold has_film = b.as("b").lock(film);
  std::atomic<bool> a_asked = false;
  std::atomic<bool> b_asked = false;
  std::atomic<bool> a_failed = false;
  std::atomic<bool> b_granted = false;
  earlier->after = [&](const Txn& txn) {
    if (!writes(txn, Write::Kind::append)) return;
    set(a_asked);
    b_asked.wait(false);
  };
  later->after = [&](const Txn& txn) {
    if (writes(txn, Write::Kind::append)) set(b_asked);
  };
  later->before = [&](const Txn& txn) {
    if (writes(txn, Write::Kind::remove)) a_failed.wait(false);
  };
  {
    const std::jthread one{[&] {
      EXPECT_THROW(static_cast<void>(a.as("a").lock(film)), Deadlock);
      set(a_failed);
      has_book.release();
    }};
    a_asked.wait(false);
    const std::jthread other{
        [&] { EXPECT_NO_THROW(b_granted = b.as("b").lock(book).token().value != 0); }};
  }
  EXPECT_TRUE(b_granted);
}

class OwnersInAnySpace : public AnySpace {};

// Both may see the circle, and they are of different roots.
TEST_P(OwnersInAnySpace, OfTwoThatCloseACircleAtOnceOneGivesWay) {
  const std::shared_ptr<Store> store = tenure::store(new_url());
  const Space first = open(store);
  const Space second = open(store);
  for (int round = 0; round < rounds(20); ++round) {
    std::atomic<int> victims = 0;
    std::atomic<int> grants = 0;
    std::barrier both_hold{2};
    const auto work = [&](const Space& space, const char* owner, const Path& has,
                          const Path& wants) {
      Hold held = space.as(owner).lock(has);
      both_hold.arrive_and_wait();
      try {
        const Hold more = space.as(owner).lock(wants);
        ++grants;
      } catch (const Deadlock&) {
        ++victims;
      }
      held.release();
    };
    {
      const std::jthread one{[&] { work(first, "a", book, film); }};
      const std::jthread other{[&] { work(second, "b", film, book); }};
    }
    ASSERT_EQ(victims, 1);
    ASSERT_EQ(grants, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(In, OwnersInAnySpace, ::testing::ValuesIn([] {
                           std::vector<std::string_view> kinds = all_spaces();
                           std::erase(kinds, "local");
                           return kinds;
                         }()),
                         [](const auto& kind) { return std::string{kind.param}; });

}  // namespace
}  // namespace tenure::stored
