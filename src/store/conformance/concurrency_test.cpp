// Concurrent calls: threads, handles, and posts.
#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

constexpr std::size_t appliers = 8;
constexpr int increments = 50;

// Compare and set, repeated until it succeeds.
void increment(Store& store, const std::string& key) {
  for (;;) {
    const auto found = store.apply(txn({}, {}, {Range::key(key)})).reads.at(0);
    const Guard guard =
        found.empty() ? Guard::absent(key) : Guard::unchanged(key, found[0].changed);
    const int value = found.empty() ? 0 : std::stoi(found[0].value);
    if (store.apply(txn({guard}, {Write::put(key, std::to_string(value + 1))})).committed) return;
  }
}

}  // namespace

void count(Store& store, std::size_t index) {
  Revision last;
  for (int i = 0; i < increments; ++i) {
    increment(store, "count/" + std::to_string(index % 2));
    const Revision revision = store.apply(txn({}, {Write::append("log/", "")})).revision;
    if (revision <= last) throw Error("a revision that is no larger than one before it");
    last = revision;
  }
}

std::string counted(Store& store) {
  const Outcome outcome =
      store.apply(txn({}, {}, {Range::prefix("count/"), Range::prefix("log/")}));
  std::string text;
  for (const Entry& counter : outcome.reads.at(0)) text += counter.value + ' ';
  return text + std::to_string(outcome.reads.at(1).size());
}

// If a revision were used twice, an entry would be lost.
std::string counted_by(std::size_t count) {
  const std::string each = std::to_string(count / 2 * increments);
  return each + ' ' + each + ' ' + std::to_string(count * increments);
}

namespace {

TEST_P(StoreConformance, ThreadsLoseNothing) {
  {
    std::vector<std::jthread> threads;
    store();
    for (std::size_t i = 0; i < appliers; ++i) {
      threads.emplace_back([this, i] { count(store(), i); });
    }
  }
  EXPECT_EQ(counted(store()), counted_by(appliers));
}

TEST_P(StoreConformance, HandlesLoseNothing) {
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < appliers; ++i) {
      threads.emplace_back([mine = another(), i] { count(*mine, i); });
    }
  }
  EXPECT_EQ(counted(store()), counted_by(appliers));
}

// No apply sees a part of another one.
TEST_P(StoreConformance, ReadersSeeWholeApplies) {
  store();
  const std::shared_ptr<Store> other = another();
  std::jthread writer{[&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const std::string value = std::to_string(i);
      store().apply(txn({}, {Write::put("a", value), Write::put("z", value)}));
    }
  }};
  std::set<std::string> seen;  // Until the reader has met the writer at work often enough.
  while (seen.size() < 50) {
    const Outcome outcome = other->apply(txn({}, {}, {Range::key("a"), Range::key("z")}));
    ASSERT_EQ(outcome.reads[0].size(), outcome.reads[1].size());
    if (outcome.reads[0].empty()) continue;
    ASSERT_EQ(outcome.reads[0][0].value, outcome.reads[1][0].value);
    seen.insert(outcome.reads[0][0].value);
  }
}

// --- posts

TEST_P(StoreConformance, PostsAreMadeInOrderBeforeLaterApplies) {
  constexpr std::size_t posts = 100;
  Bell done;
  std::mutex mutex;
  std::vector<Outcome> outcomes;  // Guarded by mutex.
  for (std::size_t i = 0; i < posts; ++i) {
    store().post(txn({}, {Write::append("log/", std::to_string(i))}),
                 [&](const Outcome& outcome, const std::exception_ptr& error) {
                   {
                     const std::lock_guard lock{mutex};
                     EXPECT_EQ(error, nullptr);
                     outcomes.push_back(outcome);
                   }
                   done.ring();
                 });
    if (i % 10 == 9) {  // Everything that was posted is visible.
      EXPECT_EQ(read(Range::prefix("log/")).size(), i + 1);
    }
  }
  done.wait(posts);
  const auto log = read(Range::prefix("log/"));
  ASSERT_EQ(log.size(), posts);
  for (std::size_t i = 0; i < posts; ++i) EXPECT_EQ(log[i].value, std::to_string(i));
  const std::lock_guard lock{mutex};
  ASSERT_EQ(outcomes.size(), posts);
  EXPECT_TRUE(std::ranges::all_of(outcomes, [](const Outcome& one) { return one.committed; }));
  std::ranges::sort(outcomes, {}, &Outcome::revision);
  for (std::size_t i = 0; i < posts; ++i) EXPECT_EQ(log[i].created, outcomes[i].revision);
}

TEST_P(StoreConformance, APostIsMadeThoughNothingFollows) {
  Bell done;
  store().post(txn({}, {Write::put("a", "1")}, {Range::key("a")}),
               [&](const Outcome& outcome, const std::exception_ptr&) {
                 EXPECT_EQ(outcome.reads.at(0).at(0).value, "1");
                 done.ring();
               });
  done.wait();
}

TEST_P(StoreConformance, APostWhoseGuardFailsIsDoneWithoutError) {
  Bell done;
  store().post(txn({Guard::present("a")}, {Write::put("a", "1")}, {Range::key("a")}),
               [&](const Outcome& outcome, const std::exception_ptr& error) {
                 EXPECT_EQ(error, nullptr);
                 EXPECT_FALSE(outcome.committed);
                 EXPECT_EQ(outcome.reads.size(), 1U);
                 done.ring();
               });
  done.wait();
  EXPECT_TRUE(read(Range::key("a")).empty());
}

TEST_P(StoreConformance, WhatWasPostedIsMadeBeforeTheStoreGoes) {
  std::atomic<int> done = 0;
  {
    const StoreUnderTest elsewhere = GetParam().make();
    const std::shared_ptr<Store> other = elsewhere.open();
    for (int i = 0; i < 20; ++i) {
      other->post(txn({}, {Write::append("log/", "")}),
                  [&](const Outcome&, const std::exception_ptr& error) {
                    if (!error) ++done;
                  });
    }
  }
  EXPECT_EQ(done, 20);
}

TEST_P(StoreConformance, PostsOfManyThreadsAreAllMade) {
  constexpr std::size_t each = 50;
  Bell done;
  store();
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < appliers; ++i) {
      threads.emplace_back([&, i] {
        for (std::size_t n = 0; n < each; ++n) {
          store().post(
              txn({}, {Write::append("log/" + std::to_string(i) + "/", std::to_string(n))}),
              [&](const Outcome&, const std::exception_ptr&) { done.ring(); });
        }
      });
    }
  }
  done.wait(appliers * each);
  for (std::size_t i = 0; i < appliers; ++i) {
    const auto log = read(Range::prefix("log/" + std::to_string(i) + "/"));
    ASSERT_EQ(log.size(), each);
    for (std::size_t n = 0; n < each; ++n) ASSERT_EQ(log[n].value, std::to_string(n));
  }
}

}  // namespace
}  // namespace tenure::conformance
