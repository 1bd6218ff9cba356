// A watch never misses a change. It may be notified without a reason, but not for every write:
// stores find the watches of the written keys.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

using namespace std::chrono_literals;

WatchFor changes(Range range, Revision after) {
  WatchFor what;
  what.ranges.push_back(std::move(range));
  what.after = after;
  return what;
}

TEST_P(StoreConformance, AWatchTellsOfWhatHappenedBeforeIt) {
  const Revision before = newest();
  put("a");
  Bell made;
  const auto first = store().watch(changes(Range::key("a"), before), made.notice());
  made.wait();

  const Revision present = newest();
  put("a");
  Bell changed;
  const auto second = store().watch(changes(Range::key("a"), present), changed.notice());
  changed.wait();

  const Revision last = newest();
  remove("a");
  Bell removed;
  const auto third = store().watch(changes(Range::prefix("a"), last), removed.notice());
  removed.wait();
}

TEST_P(StoreConformance, AWatchTellsOfWhatIsGoneAgain) {
  const Revision before = newest();
  put("a");
  remove("a");
  put("z");
  Bell bell;
  const auto watch = store().watch(changes(Range::key("a"), before), bell.notice());
  bell.wait();
}

TEST_P(StoreConformance, AWatchTellsOfWhatHappensLater) {
  Bell made;
  auto watch = store().watch(changes(Range::key("a"), newest()), made.notice());
  put("a");
  made.wait();
  Bell changed;
  watch = store().watch(changes(Range::key("a"), newest()), changed.notice());
  put("a");
  changed.wait();
  Bell removed;
  watch = store().watch(changes(Range::key("a"), newest()), removed.notice());
  remove("a");
  removed.wait();
  Bell appended;
  watch = store().watch(changes(Range::prefix("q/"), newest()), appended.notice());
  store().apply(txn({}, {Write::append("q/", "")}));
  appended.wait();
}

TEST_P(StoreConformance, AWatchTellsOfAnyOfItsRanges) {
  for (const char* key : {"a", "m5", "z"}) {
    WatchFor what;
    what.ranges = {Range::key("a"), Range::prefix("m"), between("x", "")};
    what.after = newest();
    Bell bell;
    const auto watch = store().watch(std::move(what), bell.notice());
    put(key);
    bell.wait();
  }
}

TEST_P(StoreConformance, AWatchTellsOfWhatAnotherHandleDoes) {
  const std::shared_ptr<Store> other = another();
  for (int i = 0; i < 20; ++i) {
    Bell bell;
    const auto watch = store().watch(changes(Range::key("a"), newest()), bell.notice());
    other->apply(txn({}, {Write::put("a", std::to_string(i))}));
    bell.wait();
  }
}

TEST_P(StoreConformance, EveryWatchIsTold) {
  Bell bell;
  std::vector<std::unique_ptr<Watch>> watches;
  const Revision before = newest();
  for (int i = 0; i < 50; ++i) {
    watches.push_back(store().watch(changes(Range::key("a"), before), bell.notice()));
  }
  put("a");
  bell.wait(50);
}

// One write among many watched ranges causes one notice. The last watch's notice comes after all
// others.
TEST_P(StoreConformance, AWriteTellsOnlyTheWatchesOfItsRange) {
  constexpr int ranges = 1000;
  const auto prefix = [](int i) { return "r/" + std::to_string(1000 + i) + "/"; };
  const std::shared_ptr<Store> other = another();
  // A store that has just begun to listen for changes notifies all watches once.
  Bell listens;
  const auto first = store().watch(changes(Range::key("a"), newest()), listens.notice());
  other->apply(txn({}, {Write::put("a", "")}));
  listens.wait();
  const Revision before = newest();
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<std::atomic<int>> told(ranges);
  for (int i = 0; i < ranges; ++i) {
    const auto notice = [&count = told[static_cast<std::size_t>(i)]] { ++count; };
    watches.push_back(store().watch(changes(Range::prefix(prefix(i)), before), notice));
  }
  for (const auto& [writer, range] : {std::pair{&store(), 17}, std::pair{other.get(), 500}}) {
    writer->apply(txn({}, {Write::put(prefix(range) + "key", "")}));
    writer->apply(txn({}, {Write::put("r/1", "")}));
    Bell last;
    const auto fence = store().watch(changes(Range::prefix("z"), newest()), last.notice());
    writer->apply(txn({}, {Write::put("z", "")}));
    last.wait();
    EXPECT_EQ(told[static_cast<std::size_t>(range)], 1);
    told[static_cast<std::size_t>(range)] = 0;
    for (int i = 0; i < ranges; ++i) EXPECT_EQ(told[static_cast<std::size_t>(i)], 0) << i;
  }
}

TEST_P(StoreConformance, AWatchTellsThatItIsTime) {
  WatchFor what;
  what.until = store().now();
  Bell past;
  const auto first = store().watch(what, past.notice());
  past.wait();

  what.until = store().now() + 200ms;  // Not before it is armed, also on a busy machine.
  Bell soon;
  const auto second = store().watch(what, soon.notice());
  soon.wait();
  EXPECT_GE(store().now(), *what.until);
}

// Two threads answer each other, each waiting by watch only: if a notice is lost, they hang.
TEST_P(StoreConformance, NoWatchIsLostInARace) {
  constexpr int rounds = 2000;
  store();
  const auto play = [](Store& table, std::string mine, const std::string& theirs) {
    for (int round = 1; round <= rounds; ++round) {
      Revision seen = table.apply(txn({}, {Write::put(mine, std::to_string(round))}, {})).revision;
      for (;;) {
        const Outcome look = table.apply(txn({}, {}, {Range::key(theirs)}));
        const auto& found = look.reads.at(0);
        if (!found.empty() && std::stoi(found[0].value) >= round) break;
        seen = look.revision;
        Bell bell;
        const auto watch = table.watch(changes(Range::key(theirs), seen), bell.notice());
        bell.wait();
      }
    }
  };
  const std::shared_ptr<Store> other = another();
  std::jthread ping{[&] { play(store(), "ping", "pong"); }};
  std::jthread pong{[&] { play(*other, "pong", "ping"); }};
  ping.join();
  pong.join();
  EXPECT_EQ(read(Range::key("ping")).at(0).value, std::to_string(rounds));
}

TEST_P(StoreConformance, ANoticeIsCalledAtMostOnce) {
  std::atomic<int> calls = 0;
  Bell bell;
  const auto watch = store().watch(changes(Range::key("a"), newest()), [&] {
    ++calls;
    bell.ring();
  });
  for (int i = 0; i < 20; ++i) put("a");
  bell.wait();
  for (int i = 0; i < 20; ++i) put("a");
  Bell later;  // Notices of other watches have come since.
  const auto last = store().watch(changes(Range::key("a"), {}), later.notice());
  later.wait();
  EXPECT_EQ(calls, 1);
}

TEST_P(StoreConformance, ANoticeComesOnAThreadOfTheStores) {
  const auto here = std::this_thread::get_id();
  std::thread::id there;
  Bell bell;
  put("a");
  const auto watch = store().watch(changes(Range::key("a"), {}), [&] {
    there = std::this_thread::get_id();
    bell.ring();
  });
  bell.wait();
  EXPECT_NE(there, here);
}

// The notice applies, reads, and watches again.
TEST_P(StoreConformance, ANoticeMayUseTheStore) {
  constexpr int rounds = 100;
  Bell finished;
  std::vector<std::unique_ptr<Watch>> watches(rounds + 1);
  std::function<void(int)> next = [&](int round) {
    const Revision revision = put("a", std::to_string(round));
    if (round == rounds) return finished.ring();
    const auto index = static_cast<std::size_t>(round);
    watches[index] =
        store().watch(changes(Range::key("b"), revision), [&, round] { next(round + 1); });
    put("b");
  };
  next(0);
  finished.wait();
  EXPECT_EQ(read(Range::key("a")).at(0).value, std::to_string(rounds));
}

TEST_P(StoreConformance, AWatchIsTakenBack) {
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    auto watch = store().watch(changes(Range::key("a"), newest()), [&flag = *alive] {
      // If the notice ran after its watch was destroyed, this would be a use after free.
      EXPECT_TRUE(flag);
    });
    std::jthread writer{[&] { put("a"); }};
    watch.reset();
    *alive = false;
    alive.reset();
  }
}

TEST_P(StoreConformance, AWatchThatIsDestroyedWaitsForItsNotice) {
  Bell entered;
  Bell leave;
  std::atomic<bool> left = false;
  put("a");
  auto watch = store().watch(changes(Range::key("a"), {}), [&] {
    entered.ring();
    leave.wait();
    left = true;
  });
  entered.wait();
  std::jthread opener{[&] { leave.ring(); }};
  watch.reset();
  EXPECT_TRUE(left);
}

TEST_P(StoreConformance, ANoticeMayDestroyItsOwnWatch) {
  put("a");
  for (int i = 0; i < 50; ++i) {
    Bell assigned;
    Bell destroyed;
    std::unique_ptr<Watch> watch;
    watch = store().watch(changes(Range::key("a"), {}), [&] {
      assigned.wait();
      watch.reset();
      destroyed.ring();
    });
    assigned.ring();
    destroyed.wait();
    EXPECT_EQ(watch, nullptr);
    put("b");
  }
}

TEST_P(StoreConformance, ANoticeMayDestroyAnotherWatch) {
  put("a");
  Bell assigned;
  Bell destroyed;
  std::atomic<bool> told = false;
  std::unique_ptr<Watch> other;
  const auto watch = store().watch(changes(Range::key("a"), {}), [&] {
    assigned.wait();
    other.reset();
    put("b");
    destroyed.ring();
  });
  other = store().watch(changes(Range::key("b"), newest()), [&] { told = true; });
  assigned.ring();
  destroyed.wait();
  Bell later;
  const auto last = store().watch(changes(Range::key("b"), {}), later.notice());
  later.wait();
  EXPECT_FALSE(told);
}

TEST_P(StoreConformance, WatchesMayGoWithTheStore) {
  const std::shared_ptr<Store> other = another();
  std::vector<std::unique_ptr<Watch>> watches;
  Bell bell;
  for (int i = 0; i < 10; ++i) {
    watches.push_back(other->watch(changes(Range::key("a"), newest()), bell.notice()));
  }
  other->apply(txn({}, {Write::put("a", "")}));
  watches.clear();
}

}  // namespace
}  // namespace tenure::conformance
