#include "store/common/watch_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tenure::stores {
namespace {

using namespace std::chrono_literals;
using Id = WatchTable::Id;

// Ranges that overlap, contain each other, begin or end together, have no end, or are empty.
TEST(RangeIndex, FindsWhatALookAtEachRangeFinds) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  const auto word = [&] {
    std::string text(random() % 3, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 4);
    return text;
  };
  RangeIndex index;
  std::vector<std::pair<Range, Id>> all;
  for (int step = 0; step < 4000; ++step) {
    if (all.size() < 40 && random() % 2 == 0) {
      Range range{.from = word(), .to = word()};
      const Id id = 1 + random() % 20;
      index.add(range, id);
      all.emplace_back(std::move(range), id);
    } else if (!all.empty()) {
      const auto at = all.begin() + static_cast<std::ptrdiff_t>(random() % all.size());
      const Id id = at->second;  // All ranges of one id, as when a watch is removed.
      std::erase_if(all, [&](const auto& one) {
        if (one.second == id) index.remove(one.first, id);
        return one.second == id;
      });
    }
    const std::string key = word();
    std::vector<Id> expected;
    for (const auto& [range, id] : all) {
      if (range.holds(key)) expected.push_back(id);
    }
    std::vector<Id> found;
    index.find(key, found);
    for (std::vector<Id>* const ids : {&expected, &found}) {
      std::ranges::sort(*ids);
      const auto again = std::ranges::unique(*ids);
      ids->erase(again.begin(), again.end());
    }
    ASSERT_EQ(found, expected) << "step " << step << ", key '" << key << "'";
  }
  for (const auto& [range, id] : all) index.remove(range, id);
  EXPECT_TRUE(index.empty());
}

// Names of the watches that were notified, in order.
class WatchTableTest : public ::testing::Test {
 protected:
  Id watch(const std::string& name, WatchFor what) TENURE_REQUIRES(table.mutex) {
    return table.add(std::move(what), [this, name] { told += name; });
  }
  std::string run() {
    const base::Mutex::Scoped lock{table.mutex};
    while (table.any_ready()) table.run_next();
    return std::exchange(told, "");
  }

  std::string told;
  int hooked = 0;
  WatchTable table{[this](const WatchFor& /*what*/, bool armed) { hooked += armed ? 1 : -1; }};
};

TEST_F(WatchTableTest, TellsTheWatchesOfAKeyOnce) {
  {
    const base::Mutex::Scoped lock{table.mutex};
    watch("a", {.ranges = {Range::key("x/1")}, .after = Revision{5}});
    watch("b", {.ranges = {Range::prefix("x/"), Range::key("x/1")}, .after = Revision{5}});
    watch("c", {.ranges = {Range::prefix("x/2")}, .after = Revision{5}});
    watch("d", {.ranges = {Range::prefix("x/")}, .after = Revision{7}});
    table.changed("x/1", Revision{5});
    EXPECT_FALSE(table.any_ready());
    table.changed("x/1", Revision{6});
    table.changed("x/1", Revision{7});
    EXPECT_TRUE(table.any_ranges());
  }
  EXPECT_EQ(run(), "ab");
  EXPECT_EQ(hooked, 2);
  {
    const base::Mutex::Scoped lock{table.mutex};
    table.all_due();
  }
  EXPECT_EQ(run(), "cd");
  EXPECT_EQ(hooked, 0);
}

TEST_F(WatchTableTest, TellsOfDeathsAndTimes) {
  {
    const base::Mutex::Scoped lock{table.mutex};
    watch("a", {.session = "one"});
    watch("b", {.until = Instant{5s}, .session = "two"});
    watch("c", {.until = Instant{3s}});
    EXPECT_EQ(table.next_time(), Instant{3s});
    EXPECT_EQ(table.sessions(), (std::vector<std::string>{"one", "two"}));
    table.reached(Instant{4s});
    table.died("two");
    EXPECT_FALSE(table.next_time());
    EXPECT_TRUE(table.watches("one"));
    EXPECT_FALSE(table.watches("two"));
  }
  EXPECT_EQ(run(), "cb");
}

TEST_F(WatchTableTest, AHandleTakesAWatchBackThatIsReady) {
  auto shared = std::make_shared<WatchTable>();
  bool called = false;
  std::unique_ptr<Watch> handle;
  {
    const base::Mutex::Scoped lock{shared->mutex};
    const Id id = shared->add({.ranges = {Range::key("a")}}, [&] { called = true; });
    handle = WatchTable::handle(shared, id, nullptr);
    shared->changed("a", Revision{1});
    EXPECT_TRUE(shared->any_ready());
  }
  handle.reset();
  const base::Mutex::Scoped lock{shared->mutex};
  EXPECT_FALSE(shared->any_ready());
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace tenure::stores
