// Weights in a store: what is written, what is read, and how programs that know no weights are kept
// out.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "space/stored/conflict_query.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "tenure/tenure.hpp"

namespace tenure::stored {
namespace {

const Path ram = Path::of("ram");

struct StoredWeights : ::testing::Test {
  std::shared_ptr<Store> store = tenure::store("memory:");
  Space space = open(store);

  [[nodiscard]] std::vector<Entry> entries(Range range) const {
    Txn txn;
    txn.reads.push_back(std::move(range));
    return std::move(store->apply(txn).reads.front());
  }
};

// A row without weights is what earlier programs write and read, byte for byte.
TEST_F(StoredWeights, AreWrittenOnlyWhereTheyAreMoreThanOne) {
  const Hold one = space.lock(ram.permits(4).take(1));
  std::vector<Entry> all = entries(rows_range());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all.front().value.find("format"), std::string::npos);
  EXPECT_NE(all.front().value.find(R"("claims":[["ram","permits",4]])"), std::string::npos);
  const Hold more = space.lock({Path::of("x"), ram.permits(4).take(3)});
  all = entries(rows_range());
  ASSERT_EQ(all.size(), 4U) << "two claims, and a shadow";
  for (const Entry& entry : entries(Range::prefix(here(ram, "permits")))) {
    if (number_in(entry.key) == one.token()) continue;
    EXPECT_TRUE(entry.value.starts_with(R"({"format":3,"session":)")) << entry.value;
    EXPECT_TRUE(entry.value.ends_with(R"("first":["x"],"take":3})")) << entry.value;
    EXPECT_EQ(weight_in(entry), 3U);
  }
}

// As a program of format 2 does it: it appends with a limit only while the line without a limit is
// empty, and without a limit only while the line with one is. What it finds there it refuses.
TEST_F(StoredWeights, KeepProgramsOutThatKnowNone) {
  const Hold one = space.lock(ram.permits(4));
  for (const Claim& asked : {ram.permits(4), ram.group("permits")}) {
    std::optional<Hold> hold = space.lock({Path::of("x"), ram.permits(4).take(3)});
    Txn txn;
    txn.guards.push_back(Guard::empty(Range::prefix(other_limit_line(asked))));
    EXPECT_FALSE(store->apply(txn).committed);
    const std::vector<Entry> found = entries(Range::prefix(other_limit_line(asked)));
    EXPECT_EQ(found.back().value.find(R"({"format":3,)"), 0U) << found.back().value;
    EXPECT_TRUE(parse_key(found.back().key)) << "the key is one that they know";
  }
}

TEST_F(StoredWeights, LeaveNoShadowBehind) {
  Hold hold = space.lock({Path::of("x"), ram.permits(4).take(3)});
  hold.downgrade(ram.permits(4).take(2));
  EXPECT_EQ(entries(rows_range()).size(), 2U);
  EXPECT_EQ(read_rows(entries(rows_range())).unreadable.size(), 0U);
  EXPECT_EQ(space.inspect().size(), 1U);
  hold.downgrade(ram.permits(4));
  EXPECT_EQ(entries(rows_range()).size(), 1U);
  hold.release();
  hold = space.lock(ram.group("shared", 4).take(2));
  EXPECT_EQ(read_rows(entries(rows_range())).unreadable.size(), 0U);
  hold.release();
  EXPECT_TRUE(entries(rows_range()).empty());
}

TEST_F(StoredWeights, AMemberThatCannotBeReadTakesAll) {
  const Hold hold = space.lock(ram.permits(4));
  Txn txn;
  txn.writes.push_back(Write::append(line_of(ram.permits(4)), R"({"format":3,)"));
  const Outcome planted = store->apply(txn);
  EXPECT_THROW(static_cast<void>(space.try_lock(ram.permits(4))), StoreError);
  EXPECT_TRUE(space.evict(Token{planted.revision.value}));
  EXPECT_TRUE(space.try_lock(ram.permits(4)));
}

// Goal: a request that takes 1 reads what it read before there were weights.
TEST(ConflictQuery, ReadsOneRangePerLimit) {
  const EmptyPrefixes empty;
  const auto ranges = [&](const Claim& claim, ConflictQuery::Extent extent) {
    const std::vector<Claim> claims{claim};
    return ConflictQuery{claims, {.shared = true, .groups = true}, this_apply, empty, extent}
        .ranges();
  };
  const std::size_t others = ranges(ram.group("g"), ConflictQuery::Extent::few).size();
  const std::vector<Range> one = ranges(ram.group("g", 4), ConflictQuery::Extent::few);
  ASSERT_EQ(one.size(), others + 1);
  EXPECT_EQ(one.back().limit, 4U);
  EXPECT_EQ(ranges(ram.group("g", 4).take(3), ConflictQuery::Extent::few).back().limit, 2U);
  const Claim large = ram.group("g", max_watched_members + 1);
  EXPECT_EQ(ranges(large, ConflictQuery::Extent::few).size(), others + 2);
  EXPECT_EQ(ranges(large, ConflictQuery::Extent::all).size(), others + 1);
}

}  // namespace
}  // namespace tenure::stored
