// apply_then: made in order; each callback is called once, in order, with its own outcome, however
// the transactions were batched.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

// The arguments of the callbacks, in the order of the calls.
class Told {
 public:
  Store::Posted next(std::string name) {
    return [this, name = std::move(name)](const Outcome& outcome, const std::exception_ptr& error) {
      const std::string fate = error ? "!" : outcome.committed ? "+" : "-";
      const std::scoped_lock lock{mutex_};
      text_ += (text_.empty() ? "" : " ") + name + fate;
      revisions_.push_back(outcome.revision);
      bell_.ring();
    };
  }
  void wait(std::size_t count) { bell_.wait(count); }
  [[nodiscard]] std::string text() {
    const std::scoped_lock lock{mutex_};
    return text_;
  }
  [[nodiscard]] std::vector<Revision> revisions() {
    const std::scoped_lock lock{mutex_};
    return revisions_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::vector<Revision> revisions_;
  Bell bell_;
};

Txn durable(std::vector<Guard> guards, std::vector<Write> writes, std::vector<Range> reads = {}) {
  Txn one = txn(std::move(guards), std::move(writes), std::move(reads));
  one.durability = Durability::full;
  return one;
}

TEST_P(StoreConformance, ThenIsMadeAndToldInOrder) {
  constexpr std::size_t count = 600;
  Told told;
  std::string expected;
  for (std::size_t i = 0; i < count; ++i) {
    store().apply_then(durable({}, {Write::put("last", std::to_string(i)), Write::append("q", "")}),
                       told.next(std::to_string(i)));
    expected += (i == 0 ? "" : " ") + std::to_string(i) + "+";
  }
  told.wait(count);
  EXPECT_EQ(told.text(), expected);
  const std::vector<Revision> revisions = told.revisions();
  EXPECT_TRUE(std::ranges::is_sorted(revisions, std::ranges::less_equal{}) &&
              std::ranges::adjacent_find(revisions) == revisions.end());
  EXPECT_EQ(read(Range::key("last")).at(0).value, std::to_string(count - 1));
  EXPECT_EQ(read(Range::key("last")).at(0).changed, revisions.back());
  EXPECT_EQ(read(Range::prefix("q")).size(), count);
}

class Counted final : public Deferred {
 public:
  Counted(Txn what, Store::Posted told) : told_(std::move(told)) { txn = std::move(what); }
  void done(std::shared_ptr<Deferred> self) noexcept override {
    EXPECT_EQ(self.get(), this);
    told_(outcome, error);
  }

 private:
  Store::Posted told_;
};

// An object that is its own callback, in one queue with the others.
TEST_P(StoreConformance, LaterIsToldInOneOrderWithThen) {
  constexpr std::size_t count = 100;
  Told told;
  std::string expected;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    Txn one = durable({Guard::absent("k" + name)}, {Write::put("k" + name, name)});
    if (i % 10 == 3) one.guards.push_back(Guard::absent("k" + std::to_string(i - 1)));
    if (i % 3 == 0) {
      store().apply_then(std::move(one), told.next(name));
    } else {
      store().apply_later(std::make_shared<Counted>(std::move(one), told.next(name)));
    }
    expected += (i == 0 ? "" : " ") + name + (i % 10 == 3 ? "-" : "+");
  }
  told.wait(count);
  EXPECT_EQ(told.text(), expected);
  EXPECT_EQ(read(Range::prefix("k")).size(), count - (count / 10));
}

// A refused transaction reports the revision of the neighbour before it, and the store's newest
// revision is the last neighbour's.
TEST_P(StoreConformance, ThenRefusedUsesNoRevisionUp) {
  Told told;
  const Revision before = put("there");
  constexpr std::size_t rounds = 40;
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::string key = "k" + std::to_string(i);
    store().apply_then(durable({Guard::present("gone")}, {Write::append("line/", "")}),
                       told.next("a"));
    store().apply_then(durable({Guard::present("there")}, {Write::put(key, "")}), told.next("b"));
    store().apply_then(durable({Guard::present("gone")}, {Write::remove("gone")}), told.next("c"));
  }
  told.wait(3 * rounds);
  const std::vector<Revision> revisions = told.revisions();
  for (std::size_t i = 0; i < rounds; ++i) {
    EXPECT_EQ(revisions[3 * i], i == 0 ? before : revisions[(3 * i) - 2]);
    EXPECT_EQ(revisions[(3 * i) + 2], revisions[(3 * i) + 1]);
    EXPECT_EQ(read(Range::key("k" + std::to_string(i))).at(0).changed, revisions[(3 * i) + 1]);
  }
  EXPECT_EQ(newest(), revisions.back());
}

// A transaction that fails its guard does not affect its neighbours; each one sees what earlier
// ones wrote.
TEST_P(StoreConformance, ThenJudgesEachByItsOwnGuards) {
  Told told;
  put("there");
  for (int i = 0; i < 100; ++i) {
    const std::string key = "k" + std::to_string(i);
    store().apply_then(durable({Guard::present("there")}, {Write::put(key, "1")}), told.next("a"));
    store().apply_then(durable({Guard::absent(key)}, {Write::put("bad", key)}), told.next("b"));
    store().apply_then(durable({Guard::absent("bad"), Guard::present(key)}, {Write::remove(key)}),
                       told.next("c"));
    store().apply_then(durable({Guard::empty(Range::prefix("k"))}, {Write::put("n", key)}),
                       told.next("d"));
  }
  told.wait(400);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += i == 0 ? "a+ b- c+ d+" : " a+ b- c+ d+";
  EXPECT_EQ(told.text(), expected);
  EXPECT_EQ(keys(read(everything())), "n there");
  EXPECT_EQ(read(Range::key("n")).at(0).value, "k99");
}

TEST_P(StoreConformance, ThenTakesReadsAtItsOwnMoment) {
  constexpr std::size_t count = 50;
  std::vector<std::size_t> seen(count);
  std::vector<Revision> made(count);
  Bell bell;
  for (std::size_t i = 0; i < count; ++i) {
    Range before = Range::prefix("q");
    before.before = this_apply;
    store().apply_then(durable({}, {Write::append("q", "")}, {before, Range::prefix("q")}),
                       [&, i](const Outcome& outcome, const std::exception_ptr& /*error*/) {
                         made[i] = outcome.revision;
                         seen[i] = (100 * outcome.reads.at(0).size()) + outcome.reads.at(1).size();
                         bell.ring();
                       });
  }
  bell.wait(count);
  const auto entries = read(Range::prefix("q"));
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(seen[i], (100 * i) + i + 1) << i;
    EXPECT_EQ(entries.at(i).created, made[i]) << i;
    EXPECT_EQ(stamp_of(entries.at(i).key), made[i]) << i;
  }
}

// Several threads post. The transactions of each thread are made in its order, between those of
// other threads and applies.
TEST_P(StoreConformance, ThenKeepsTheOrderOfEachCaller) {
  constexpr int callers = 4;
  constexpr int each = 60;
  store();
  std::vector<Told> told(callers);
  {
    std::vector<std::jthread> threads;
    for (int caller = 0; caller < callers; ++caller) {
      threads.emplace_back([&, caller] {
        const std::string key = "c" + std::to_string(caller);
        for (int i = 0; i < each; ++i) {
          store().apply_then(durable({}, {Write::put(key, std::to_string(i))}),
                             told[static_cast<std::size_t>(caller)].next(std::to_string(i)));
          if (i % 10 == 0) store().apply(txn({}, {Write::put("relaxed", key)}));
        }
      });
    }
  }
  store().flush();
  std::string expected = "0+";
  for (int i = 1; i < each; ++i) expected += " " + std::to_string(i) + "+";
  for (Told& one : told) EXPECT_EQ(one.text(), expected);
  for (int caller = 0; caller < callers; ++caller) {
    EXPECT_EQ(read(Range::key("c" + std::to_string(caller))).at(0).value, std::to_string(each - 1));
  }
}

TEST_P(StoreConformance, FlushReturnsWhenAllIsTold) {
  std::atomic<int> told = 0;
  const auto count = [&](const Outcome& /*outcome*/, const std::exception_ptr& error) {
    if (!error) ++told;
  };
  store().flush();
  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 5; ++i) {
      store().apply_then(durable({}, {Write::put("a" + std::to_string(i), "")}), count);
      store().post(txn({}, {Write::put("b" + std::to_string(i), "")}), count);
    }
    store().flush();
    EXPECT_EQ(told, round * 10);
  }
  EXPECT_EQ(read(everything()).size(), 10U);
}

// A callback may post the next transaction, and apply.
TEST_P(StoreConformance, ACallbackOfThenMayUseTheStore) {
  constexpr int steps = 100;
  Bell finished;
  std::function<void(int)> next = [&](int step) {
    if (step == steps) return finished.ring();
    store().apply_then(durable({}, {Write::put("step", std::to_string(step))}),
                       [&, step](const Outcome& outcome, const std::exception_ptr& error) {
                         EXPECT_TRUE(outcome.committed && !error);
                         if (step % 10 == 0) put("side");
                         next(step + 1);
                       });
  };
  next(0);
  finished.wait();
  EXPECT_EQ(read(Range::key("step")).at(0).value, std::to_string(steps - 1));
}

TEST_P(StoreConformance, AStoreThatGoesMakesWhatWasToBeAppliedThen) {
  store();
  std::shared_ptr<Store> other = another();
  std::atomic<int> told = 0;
  for (int i = 0; i < 100; ++i) {
    other->apply_then(durable({}, {Write::put(std::to_string(i), "")}),
                      [&](const Outcome& outcome, const std::exception_ptr& error) {
                        told += outcome.committed && !error ? 1 : 0;
                      });
  }
  const bool last = other.use_count() == 1;  // A store with a single handle stays open.
  other.reset();
  if (!last) store().flush();
  EXPECT_EQ(told, 100);
  EXPECT_EQ(read(everything()).size(), 100U);
}

// The watches of this process are notified as after an apply.
TEST_P(StoreConformance, AWatchTellsOfWhatWasAppliedThen) {
  for (int i = 0; i < 20; ++i) {
    WatchFor what;
    what.ranges.push_back(Range::key("a"));
    what.after = newest();
    Bell bell;
    const auto watch = store().watch(what, bell.notice());
    store().apply_then(durable({}, {Write::put("b", "")}), {});
    store().apply_then(durable({}, {Write::put("a", "")}), {});
    bell.wait();
  }
}

}  // namespace
}  // namespace tenure::conformance
