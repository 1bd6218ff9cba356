// What revisions promise about tickets: within a root, against the path /, and in an apply on
// several roots. Keys are written as space/stored/keys.hpp does.
#include <algorithm>
#include <array>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

const std::string top_line{"\x01\0", 2};
const std::string below_top{"\x01\x01", 2};
std::string line(std::size_t root) { return below_top + '\4' + "root"[root % 4] + "oot" + '\0'; }
constexpr std::size_t roots = 4;

Range latest(const std::string& line) {
  Range range = Range::prefix(line).last();
  range.before = this_apply;
  return range;
}

// A ticket that was appended, and what its apply saw: the latest earlier one on each of its lines
// and on /, or all of them if it is a ticket on /.
struct Appended {
  Revision number;
  std::set<std::size_t> on;  // None: the path /.
  std::map<std::string, Revision> before;
  std::set<std::uint64_t> all_before;
};

Appended append(Store& store, const Guard& session, std::set<std::size_t> on) {
  Txn request = txn({session}, {}, {latest(top_line)});
  for (const std::size_t root : on) {
    request.writes.push_back(Write::append(line(root), ""));
    request.reads.push_back(latest(line(root)));
  }
  if (on.empty()) {
    request.writes.push_back(Write::append(top_line, ""));
    request.reads.push_back(Range::prefix(below_top));
  }
  const Outcome outcome = store.apply(request);
  EXPECT_TRUE(outcome.committed);
  Appended made{.number = outcome.revision, .on = std::move(on), .before = {}, .all_before = {}};
  for (std::size_t i = 0; i < outcome.reads.size(); ++i) {
    const auto& found = outcome.reads[i];
    if (made.on.empty() && i == 1) {
      for (const Entry& entry : found) made.all_before.insert(entry.created.value);
    } else {
      const std::string& from = request.reads[i].from;
      made.before[from] = found.empty() ? Revision{} : found.front().created;
    }
  }
  return made;
}

// Each has seen exactly what has a smaller number, and what it has not seen has a larger one.
void judge(std::vector<Appended> all) {
  std::ranges::sort(all, {}, &Appended::number);
  std::map<std::string, Revision> last;
  std::set<std::uint64_t> below;
  for (const Appended& one : all) {
    for (const auto& [from, seen] : one.before) {
      EXPECT_EQ(seen.value, last[from].value) << "of " << one.number.value;
    }
    if (one.on.empty()) {
      EXPECT_EQ(one.all_before, below) << "of " << one.number.value;
      last[top_line] = one.number;
    } else {
      below.insert(one.number.value);
    }
    for (const std::size_t root : one.on) last[line(root)] = one.number;
  }
  EXPECT_EQ(std::ranges::adjacent_find(all, {}, &Appended::number), all.end()) << "used twice";
}

// Few tickets on / and on two roots, so that those of different roots meet as well.
std::set<std::size_t> some_roots(std::mt19937& random, std::size_t own) {
  const unsigned kind = random() % 16;
  if (kind == 0) return {};
  if (kind <= 3) return {random() % roots, random() % roots};
  if (kind <= 6) return {random() % roots};
  return {own % roots};
}

TEST_P(StoreConformance, TicketsSeeAllThatHaveASmallerNumber) {
  constexpr std::size_t requesters = 5;
  constexpr int requests = 60;
  std::mutex mutex;
  std::vector<Appended> all;  // Guarded by mutex.
  std::latch start{requesters};
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < requesters; ++i) {
      threads.emplace_back([&, i, mine = another()] {
        std::mt19937 random{static_cast<unsigned>(i)};
        const std::unique_ptr<Session> session = mine->open_session({});
        start.arrive_and_wait();
        try {
          for (int n = 0; n < requests; ++n) {
            Appended made = append(*mine, session->guard(), some_roots(random, i));
            const std::lock_guard lock{mutex};
            all.push_back(std::move(made));
          }
        } catch (const Error& error) {
          ADD_FAILURE() << error.what();
        }
      });
    }
  }
  judge(std::move(all));
}

// Each of two writes its own key if that of the other is not there.
TEST_P(StoreConformance, GuardsOnAnotherRootHoldUntilTheCommit) {
  const std::shared_ptr<Store> other = another();
  const std::array<Store*, 2> stores{&store(), other.get()};
  for (int round = 0; round < 100; ++round) {
    const std::array<std::string, 2> keys{line(0) + std::to_string(round),
                                          line(1) + std::to_string(round)};
    std::array<bool, 2> made{};
    std::latch start{2};
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
          start.arrive_and_wait();
          const Txn own = txn({Guard::absent(keys[1 - i])}, {Write::put(keys[i], "")});
          made[i] = stores[i]->apply(own).committed;
        });
      }
    }
    ASSERT_NE(made[0], made[1]) << "in round " << round;
  }
}

// What a reader of several roots was told is older than everything that follows in any of them.
TEST_P(StoreConformance, AReadOfSeveralRootsIsBeforeAllThatFollows) {
  for (int i = 0; i < 5; ++i) put(line(0) + std::to_string(i));
  const Revision newest = store().apply(txn({}, {}, {Range::prefix(line(0))})).revision;
  for (const std::vector<Range>& ranges :
       {std::vector<Range>{Range::prefix(line(0)), Range::prefix(line(1))},
        {Range::prefix(below_top)}}) {
    const Revision seen = store().apply(txn({}, {}, ranges)).revision;
    EXPECT_GE(seen, newest);
    EXPECT_GT(put(line(1) + "x"), seen);
    EXPECT_TRUE(holds(Guard::quiet(Range::prefix(line(0)), seen)));
    EXPECT_FALSE(holds(Guard::quiet(Range::prefix(line(1)), seen)));
    Bell bell;
    const auto watch = store().watch({.ranges = ranges, .after = seen}, bell.notice());
    bell.wait();
  }
}

// A waiter watches blockers of several roots, of which one has been written much more often.
TEST_P(StoreConformance, AWatchOfOneRootMissesNothingBesideABusyOne) {
  put(line(1) + "mine");
  for (int i = 0; i < 20; ++i) put(line(0) + std::to_string(i));
  const std::shared_ptr<Store> other = another();
  for (int round = 0; round < 10; ++round) {
    const Outcome look = store().apply(txn({}, {}, {Range::key(line(1) + "mine")}));
    Bell bell;
    const auto watch = store().watch(
        {.ranges = {Range::key(line(1) + "mine")}, .after = look.revision}, bell.notice());
    other->apply(txn({}, {Write::put(line(0) + "0", "")}));
    other->apply(txn({}, {Write::put(line(1) + "mine", std::to_string(round))}));
    bell.wait();
  }
}

}  // namespace
}  // namespace tenure::conformance
