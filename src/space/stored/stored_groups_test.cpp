// Many groups, limited or not, on paths of any depth: requests cost what they cost with one, find
// what the rule says, and miss nothing where they have to be read in several steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "space/any_space_test.hpp"
#include "space/stored/conflict_query.hpp"
#include "space/stored/forwarding_store_test.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/rule.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

std::string group_name(std::size_t i) { return "run-" + std::to_string(i); }

Path deep(std::size_t depth) {
  Path path;
  for (std::size_t i = 0; i < depth; ++i) path.append("s");
  return path;
}

// Passes everything on, and counts what it is asked for.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;

  struct Counts {
    std::size_t applies = 0;
    std::size_t reads = 0;
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  [[nodiscard]] Counts take() { return {applies_.exchange(0), reads_.exchange(0)}; }

  Outcome apply(const Txn& txn) override {
    count(txn);
    return ForwardingStore::apply(txn);
  }
  void post(Txn txn, Posted done) noexcept override {
    count(txn);
    ForwardingStore::post(std::move(txn), std::move(done));
  }

 private:
  void count(const Txn& txn) noexcept {
    ++applies_;
    reads_ += txn.reads.size();
  }
  std::atomic<std::size_t> applies_ = 0;
  std::atomic<std::size_t> reads_ = 0;
};

class AnyGroups : public AnySpace {
 protected:
  // So many groups, each on a path of its own below `root`, four deep; several to a request.
  [[nodiscard]] static std::vector<Hold> hold_groups(const Space& space, const Path& root,
                                                     std::size_t count) {
    std::vector<Hold> holds;
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < count; ++i) {
      const Path path = root / Path::of(i, "x", "y");
      const std::string name = group_name(i);
      claims.push_back(i % 2 == 0 ? path.group(name) : path.group(name, 3));
      if (claims.size() < max_claims && i + 1 < count) continue;
      holds.push_back(space.lock(claims));
      claims.clear();
    }
    return holds;
  }
};
std::vector<std::string_view> stored_spaces() {
  std::vector<std::string_view> all = all_spaces();
  std::erase(all, "local");
  return all;
}
INSTANTIATE_TEST_SUITE_P(In, AnyGroups, ::testing::ValuesIn(stored_spaces()),
                         [](const auto& kind) { return std::string{kind.param}; });

// Beside one group, and beside a thousand, of another root and of siblings: as many applies and
// reads.
TEST_P(AnyGroups, ElsewhereCostARequestNothing) {
  const std::shared_ptr<Store> files = store(new_url());
  const Space holder = open(files);
  const auto counting = std::make_shared<CountingStore>(files);
  const Space space = open(counting);
  const std::vector<Claim> claims = {
      Path::of("book", 3, "chapter", 7), Path::of("book", 3, "chapter", 7).shared(),
      Path::of("book", 3, "chapter", 7).group("g"), Path::of("book", 3, "chapter", 7).permits(2)};
  const auto ask = [&] {
    std::vector<CountingStore::Counts> counts;
    for (const Claim& claim : claims) {
      static_cast<void>(counting->take());
      Hold hold = space.lock(claim);
      counts.push_back(counting->take());
      EXPECT_TRUE(hold.release());
      std::optional<Hold> tried = space.try_lock(claim);
      EXPECT_TRUE(tried);
      counts.push_back(counting->take());
    }
    return counts;
  };
  const std::vector<Hold> one = hold_groups(holder, Path::of("batch"), 1);
  const Hold reader = holder.lock(Path::of("reader").shared());
  static_cast<void>(ask());  // It sees that there are groups.
  const auto beside_one = ask();
  EXPECT_EQ(beside_one.front().applies, 1U);
  const std::vector<Hold> batch = hold_groups(holder, Path::of("film"), 1'000);
  EXPECT_EQ(ask(), beside_one) << "1,000 of another root";
  const std::vector<Hold> siblings = hold_groups(holder, Path::of("book"), 2'000);
  EXPECT_EQ(ask(), beside_one) << "2,000 of the same root";
}

// Of the longest paths there are, and of as many claims as there may be: where one transaction of
// the store has no room for the reads, they are made in several.
TEST_P(AnyGroups, DoNotMakeTheLargestRequestsFail) {
  const std::shared_ptr<Store> files = store(new_url());
  const Space one = open(files);
  const Space two = open(files);
  std::vector<Hold> others;
  others.push_back(one.lock({Path::of("other").shared(), Path::of("another").group("g"),
                             Path::of("further").permits(2)}));
  const Path deepest = deep(Path::max_depth);
  const Path parent = deep(Path::max_depth - 1);
  for (const Claim& claim :
       {Claim{deepest}, deepest.shared(), deepest.group("h"), deepest.permits(2)}) {
    SCOPED_TRACE(claim.mode.text());
    EXPECT_TRUE(two.lock(claim).release());
    EXPECT_TRUE(two.try_lock(claim));
    for (const Claim& held : {Claim{parent}, deep(1).group("k"), deepest.group("k", 2)}) {
      SCOPED_TRACE(held.text());
      Hold hold = one.lock(held);
      EXPECT_FALSE(two.try_lock(claim));
      EXPECT_FALSE(two.try_lock_for(claim, 0ms));
      EXPECT_TRUE(hold.release());
      EXPECT_TRUE(two.try_lock(claim));
    }
  }
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < max_claims; ++i) {
    const Path path = Path::of("many", i) / deep(Path::max_depth - 2);
    claims.push_back(i % 2 == 0 ? path.exclusive() : path.group(group_name(i)));
  }
  EXPECT_TRUE(two.lock(claims).release());
  EXPECT_TRUE(two.try_lock(claims));
  Hold last = one.lock(claims.back().path.group("k"));
  EXPECT_FALSE(two.try_lock(claims));
  EXPECT_FALSE(two.try_lock_for(claims, 0ms));
  EXPECT_TRUE(last.release());
  EXPECT_TRUE(two.lock(claims).release());
}

class StoredGroups : public ::testing::Test {
 protected:
  std::shared_ptr<MemoryStore> store =
      std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time);
  const Space space = open(store);
  const Space other = open(store);
};

std::vector<Claim> small_claims() {
  const std::array modes = {Mode::exclusive(), Mode::shared(),    Mode::group("g"),
                            Mode::group("h"),  Mode::group("aa"), Mode::group("h2", 1),
                            Mode::permits(2),  Mode::group("s")};
  std::vector<Claim> claims;
  for (const Path& path : {Path{}, Path::of("a"), Path::of("a", 1), Path::of("b")}) {
    for (const Mode& mode : modes) claims.emplace_back(path, mode);
  }
  return claims;
}

// Two that are there, in any modes on any paths, and a third that comes.
TEST_F(StoredGroups, EveryThirdRequestGetsWhatTheRuleSays) {
  const std::vector<Claim> all = small_claims();
  std::size_t granted = 0;
  for (const Claim& first : all) {
    Hold one = space.lock(first);
    for (const Claim& second : all) {
      const Ticket earlier{.number = Token{1}, .claims = {first}, .owner = {}};
      const Ticket behind{.number = Token{2}, .claims = {second}, .owner = {}};
      if (!tenure::granted(behind, std::array{earlier})) continue;
      const Hold two = other.lock(second);
      for (const Claim& third : all) {
        const Ticket newest{.number = Token{3}, .claims = {third}, .owner = {}};
        const bool free = tenure::granted(newest, std::array{earlier, behind});
        ASSERT_EQ(space.try_lock(third).has_value(), free)
            << first.text() << ", " << second.text() << ", " << third.text();
        ASSERT_EQ(space.try_lock_for(third, 0ms).has_value(), free)
            << first.text() << ", " << second.text() << ", " << third.text();
        if (free) ++granted;
      }
    }
  }
  EXPECT_GT(granted, 1'000U);
}

// More of its own group below the path than a look reads at first.
TEST_F(StoredGroups, AClaimPassesOverItsOwnGroupBelowIt) {
  std::vector<Hold> own;
  for (int i = 0; i < 50; ++i) own.push_back(other.lock(Path::of("a", i, "x").group("g", 3)));
  const Claim whole = Path::of("a").group("g");
  EXPECT_TRUE(space.lock(whole).release());
  EXPECT_TRUE(space.try_lock(whole));
  for (const int at : {0, 25, 49, 60}) {
    Hold foreign = other.lock(Path::of("a", at, "y").group("h"));
    EXPECT_FALSE(space.try_lock(whole)) << at;
    EXPECT_FALSE(space.try_lock_for(whole, 0ms)) << at;
    EXPECT_TRUE(foreign.release());
    EXPECT_TRUE(space.lock(whole).release()) << at;
  }
}

// The group "shared" may have a limit, and is then where the other groups are.
TEST_F(StoredGroups, SharedClaimsPassOverALimitedGroupOfTheirName) {
  std::vector<Hold> own;
  for (int i = 0; i < 20; ++i) own.push_back(other.lock(Path::of("a").group("shared", 64)));
  for (int i = 0; i < 20; ++i) own.push_back(other.lock(Path::of("b", 1, i).group("shared", 2)));
  const Claim below = Path::of("a", 1).shared();
  const Claim above = Path::of("b", 1).shared();
  for (const Claim& reader : {below, above}) {
    EXPECT_TRUE(space.lock(reader).release());
    EXPECT_TRUE(space.try_lock(reader));
    EXPECT_FALSE(space.try_lock(reader.path.group("g")));
    EXPECT_FALSE(space.try_lock(reader.path));
  }
  EXPECT_THROW(static_cast<void>(space.lock(Path::of("a").shared())), LimitMismatch);
  const Hold hidden = other.lock(Path::of("b", 1, 30).group("g"));
  EXPECT_FALSE(space.try_lock(above));
  // It waits for those that are there, and a reader that comes later waits for it.
  std::jthread waiter{[&] { other.lock(Path::of("a").group("g")).release(); }};
  while (space.inspect().size() < 42) std::this_thread::yield();
  EXPECT_FALSE(space.try_lock(below));
  EXPECT_FALSE(space.try_lock_for(below, 0ms));
  own.clear();
  waiter.join();
  EXPECT_TRUE(space.try_lock(below));
}

// An earlier ticket moves, by every downgrade there is, before every step of a look in several: it
// is in the way before and after, so the look must not miss it.
TEST_F(StoredGroups, ADowngradeDoesNotGetPastALookInSteps) {
  const Path path = deep(62);
  std::vector<Path> places = {deep(0), deep(1), deep(30), deep(61), path, deep(64)};
  const std::array modes = {Mode::exclusive(), Mode::shared(), Mode::group("h"), Mode::group("a"),
                            Mode::permits(1)};
  {  // So that it looks at all regions from now on.
    const Hold seen = other.lock({Path::of("q").shared(), Path::of("r").group("z")});
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(space.lock(Path::of("film")).release());
  }
  const Claim asked = path.group("g");
  std::size_t cases = 0;
  const auto try_case = [&](const Claim& from, const Claim& to) {
    for (std::size_t before = 0;; ++before) {
      Hold moving = other.lock(from);
      std::size_t step = 0;
      bool moved = false;
      store->before_apply([&](const Txn& txn) {
        const bool looks = txn.reads.size() > 20;
        if (!looks || moved || step++ != before) return;
        moved = true;
        moving.downgrade(to);
      });
      const bool got = space.try_lock_for(asked, 0ms).has_value();
      store->before_apply({});
      ASSERT_FALSE(got) << from.text() << " to " << to.text() << " before step " << before;
      ++cases;
      if (!moved) return;  // It has as few steps as that.
    }
  };
  for (const Path& place : places) {
    for (const Mode& mode : modes) {
      for (const Path& other_place : places) {
        for (const Mode& other_mode : modes) {
          const Claim from{place, mode};
          const Claim to{other_place, other_mode};
          if (from == to || find_downgrade_fault(std::array{from}, std::array{to})) continue;
          try_case(from, to);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(cases, 200U);
}

TEST(ConflictQuery, ReadsNoMoreRangesThanThereAreRegions) {
  const EmptyPrefixes empty;
  const std::array exclusive = {Claim{Path::of("book", 3)}};
  const std::array shared = {Path::of("book", 3).shared()};
  const std::array group = {Path::of("book", 3).group("g")};
  const auto ranges = [&](std::span<const Claim> claims, Regions seen) {
    return ConflictQuery{claims, seen, this_apply, empty}.ranges().size();
  };
  const Regions none;
  const Regions readers{.shared = true};
  const Regions all{.shared = true, .groups = true};
  EXPECT_EQ(ranges(exclusive, none), 4U + 1U);
  EXPECT_EQ(ranges(exclusive, readers), 4U + 4U + 1U);
  EXPECT_EQ(ranges(exclusive, all), 3U * 4U);
  EXPECT_EQ(ranges(shared, readers), 4U + 1U);
  EXPECT_EQ(ranges(shared, all), 2U * 4U);
  EXPECT_EQ(ranges(group, none), 4U + 1U);
  EXPECT_EQ(ranges(group, all), 4U + 4U + (2U * 3U) + 1U);
}

}  // namespace
}  // namespace tenure::stored
