#include "space/stored/stored_space.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "space/rule_replay.hpp"
#include "space/stored/conflict_query.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/memory_store.hpp"
#include "tests/kit/sanitized.hpp"

namespace tenure::stored {
namespace {

// Goal: whatever is asked in whatever order, what a space in a store does is what the rule says.
void play(const std::vector<std::uint8_t>& script, std::size_t& grants, std::size_t& waits,
          MemoryStore::Order order = MemoryStore::Order::one) {
  const auto store = std::make_shared<MemoryStore>(MemoryStore::Clock::virtual_time, order);
  constexpr std::size_t crowd_size = 3;  // Nothing is forgotten, so more would only take time.
  RuleReplay replay{new StoredSpace{store, {}}, [&store] { store->settle(); }, crowd_size};
  replay.play(script);
  grants += replay.grants();
  waits += replay.waits();
}

RC_GTEST_PROP(StoredSpace, ObeysTheRuleOnEveryScript, (const std::vector<std::uint8_t>& script)) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  play(script, grants, waits);
}

TEST(StoredSpace, ObeysTheRuleOnLongScripts) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  for (unsigned seed = 0; seed < kit::slice(80); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<std::uint8_t> script(2000);
    for (auto& byte : script) byte = static_cast<std::uint8_t>(random());
    ASSERT_NO_THROW(play(script, grants, waits));
  }
  EXPECT_GT(grants, kit::slice(2'000));
  EXPECT_GT(waits, kit::slice(1'500));
}

// The same where revisions of different roots have nothing to do with each other.
RC_GTEST_PROP(StoredSpace, ObeysTheRuleWithAnOrderPerRoot,
              (const std::vector<std::uint8_t>& script)) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  play(script, grants, waits, MemoryStore::Order::by_root);
}

TEST(StoredSpace, ObeysTheRuleOnLongScriptsWithAnOrderPerRoot) {
  std::size_t grants = 0;
  std::size_t waits = 0;
  for (unsigned seed = 0; seed < kit::slice(80); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    std::vector<std::uint8_t> script(2000);
    for (auto& byte : script) byte = static_cast<std::uint8_t>(random());
    ASSERT_NO_THROW(play(script, grants, waits, MemoryStore::Order::by_root));
  }
  EXPECT_GT(grants, kit::slice(2'000));
  EXPECT_GT(waits, kit::slice(1'500));
}

// Every 64-bit token: those of etcd pass 2^63.
TEST(Row, IsReadAsItWasWrittenWhateverItsNumber) {
  for (const std::uint64_t number : {std::uint64_t{1}, (std::uint64_t{1} << 63U) - 1,
                                     std::uint64_t{1} << 63U, this_apply.value - 1}) {
    Row row;
    row.session = "0123456789abcdef";
    row.request = number;
    row.claims = {Claim{Path::of("book")}};
    row.number = Token{number};
    const Entry entry{.key = row_key(row.claims.front(), row.number),
                      .value = row.text(),
                      .created = {},
                      .changed = {}};
    EXPECT_EQ(parse_row(entry).row, row) << number;
    EXPECT_EQ(number_in(entry.key), row.number) << number;
  }
}

TEST(Row, RefusesNumbersThatNobodyWrote) {
  const auto refuses = [](const std::string& field) {
    const Entry entry{
        .key = row_key(Claim{Path::of("book")}, Token{1}),
        .value = R"({"session":"s","request":1,"since":1,"claims":[["book"]],)" + field + "}",
        .created = {},
        .changed = {}};
    EXPECT_THROW(static_cast<void>(parse_row(entry)), StoreError) << field;
  };
  for (const char* const name : {"number", "max_hold"}) {
    for (const char* const value : {"-1", "1.5", "1e3", "18446744073709551616", "\"1\""}) {
      refuses('"' + std::string{name} + "\":" + value);
    }
  }
  refuses(R"("max_hold":9223372036854775808)");
  refuses(R"("deadline":9223372036854775808)");
}

// Whoever was free to go knows that its lines are empty up to its own number; what is below its
// path it does not know.
TEST(ConflictQuery, BeginsWhereLinesWereLastSeenToBeEmpty) {
  const std::vector<Claim> claims = {Claim{Path::of("book", 3)}};
  constexpr std::size_t lines = 3;  // Of the root, the book and the chapter.
  EmptyPrefixes empty;
  const ConflictQuery first{claims, {}, this_apply, empty};
  first.record_empty(empty, Revision{7});
  const ConflictQuery later{claims, {}, this_apply, empty};
  ASSERT_EQ(later.ranges().size(), first.ranges().size());
  for (std::size_t i = 0; i < first.ranges().size(); ++i) {
    const std::string& from = first.ranges()[i].from;
    EXPECT_EQ(later.ranges()[i].from, i < lines ? from + stamp(Revision{7}) : from) << i;
    EXPECT_EQ(later.ranges()[i].to, first.ranges()[i].to) << i;
  }
  // One that is in line since before then looks at all of it.
  const ConflictQuery earlier{claims, {}, Revision{5}, empty};
  for (std::size_t i = 0; i < lines; ++i) {
    EXPECT_EQ(earlier.ranges()[i].from, first.ranges()[i].from) << i;
  }
  first.record_empty(empty, Revision{6});  // Another thread's, a little late.
  EXPECT_EQ((ConflictQuery{claims, {}, this_apply, empty}.ranges()[0].from),
            later.ranges()[0].from);
}

}  // namespace
}  // namespace tenure::stored
