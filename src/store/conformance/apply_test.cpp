// One atomic step: guards, writes, reads, revisions.
#include <algorithm>
#include <string>
#include <vector>

#include "store/conformance.hpp"

namespace tenure::conformance {
namespace {

using namespace std::string_literals;

TEST_P(StoreConformance, ReadsSeeTheWrites) {
  put("a", "old");
  const Outcome outcome = store().apply(
      txn({}, {Write::put("a", "new"), Write::remove("b")}, {Range::key("a"), Range::key("b")}));
  EXPECT_TRUE(outcome.committed);
  ASSERT_EQ(outcome.reads.size(), 2U);
  ASSERT_EQ(outcome.reads[0].size(), 1U);
  EXPECT_EQ(outcome.reads[0][0].value, "new");
  EXPECT_EQ(outcome.reads[0][0].changed, outcome.revision);
  EXPECT_TRUE(outcome.reads[1].empty());
}

// A writer that is alone remembers which ranges are empty.
TEST_P(StoreConformance, ReadsSeeAnAppendToARangeThatWasEmpty) {
  for (int round = 0; round < 3; ++round) {
    const std::string prefix = "a" + std::to_string(round);
    const Range range = Range::prefix(prefix);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(store().apply(txn({}, {Write::append("m", "")}, {range})).reads[0].empty());
    }
    const Outcome outcome = store().apply(txn({}, {Write::append(prefix, "one")}, {range}));
    ASSERT_EQ(outcome.reads[0].size(), 1U);
    EXPECT_EQ(outcome.reads[0][0].value, "one");
  }
}

TEST_P(StoreConformance, WritesNothingWhenAGuardFailsAndReadsAllTheSame) {
  const Revision before = put("a", "old");
  const Outcome outcome = store().apply(
      txn({Guard::present("a"), Guard::absent("a")},
          {Write::put("a", "new"), Write::put("b", ""), Write::append("c", ""), Write::remove("a")},
          {everything()}));
  EXPECT_FALSE(outcome.committed);
  EXPECT_EQ(outcome.revision, before);
  ASSERT_EQ(outcome.reads.size(), 1U);
  EXPECT_EQ(outcome.reads[0], (std::vector<Entry>{{"a", "old", before, before}}));
  EXPECT_EQ(read(everything()), outcome.reads[0]);
}

// Each shape that a store may have a short path for.
TEST_P(StoreConformance, ARefusedApplyUsesNoRevisionUp) {
  const Revision there = put("there");
  const std::vector<Txn> refused{
      txn({Guard::present("gone")}, {Write::append("line/", "")}),
      txn({Guard::present("gone")}, {Write::append("line/", "")}, {Range::prefix("m").last()}),
      txn({Guard::present("gone")}, {Write::remove("gone")}),
      txn({Guard::unchanged("there", {there.value + 1})}, {Write::remove("there")}),
      txn({Guard::unchanged("gone", {1})}, {Write::remove("gone")}),
      txn({Guard::absent("there")}, {Write::put("there", "")}),
      txn({Guard::empty(everything())}, {Write::append("line/", ""), Write::remove("there")})};
  for (int round = 0; round < 3; ++round) {
    const Outcome made = store().apply(
        txn({Guard::present("there")}, {Write::append("line/", "")}, {Range::prefix("m").last()}));
    ASSERT_TRUE(made.committed);
    for (const Txn& one : refused) {
      const Outcome outcome = store().apply(one);
      EXPECT_FALSE(outcome.committed);
      EXPECT_EQ(outcome.revision, made.revision);
      EXPECT_EQ(newest(), made.revision);
    }
  }
}

TEST_P(StoreConformance, AnyFailingGuardIsEnough) {
  put("a");
  const Guard good = Guard::present("a");
  const Guard bad = Guard::absent("a");
  EXPECT_TRUE(store().apply(txn({good, good, good}, {})).committed);
  EXPECT_FALSE(store().apply(txn({bad, good, good}, {})).committed);
  EXPECT_FALSE(store().apply(txn({good, bad, good}, {})).committed);
  EXPECT_FALSE(store().apply(txn({good, good, bad}, {})).committed);
}

TEST_P(StoreConformance, JudgesGuardsBeforeTheWrites) {
  EXPECT_TRUE(store().apply(txn({Guard::absent("a")}, {Write::put("a", "")})).committed);
  EXPECT_TRUE(store().apply(txn({Guard::present("a")}, {Write::remove("a")})).committed);
  EXPECT_TRUE(
      store().apply(txn({Guard::empty(Range::prefix("b"))}, {Write::append("b", "")})).committed);
  EXPECT_FALSE(store().apply(txn({Guard::present("c")}, {Write::put("c", "")})).committed);
}

TEST_P(StoreConformance, GuardsAbsenceAndPresence) {
  EXPECT_TRUE(holds(Guard::absent("a")));
  EXPECT_FALSE(holds(Guard::present("a")));
  put("a");
  EXPECT_FALSE(holds(Guard::absent("a")));
  EXPECT_TRUE(holds(Guard::present("a")));
  // Exactly that key.
  EXPECT_TRUE(holds(Guard::absent("a\0"s)));
  EXPECT_TRUE(holds(Guard::absent("A")));
  remove("a");
  EXPECT_TRUE(holds(Guard::absent("a")));
  EXPECT_FALSE(holds(Guard::present("a")));
}

TEST_P(StoreConformance, GuardsThatAKeyIsUnchanged) {
  EXPECT_FALSE(holds(Guard::unchanged("a", {})));  // There is no such key.
  const Revision first = put("a", "x");
  EXPECT_TRUE(holds(Guard::unchanged("a", first)));
  EXPECT_FALSE(holds(Guard::unchanged("a", {})));
  EXPECT_FALSE(holds(Guard::unchanged("a", {first.value + 1})));
  const Revision second = put("a", "x");  // Putting the same value is a change too.
  EXPECT_FALSE(holds(Guard::unchanged("a", first)));
  EXPECT_TRUE(holds(Guard::unchanged("a", second)));
  put("b");
  EXPECT_TRUE(holds(Guard::unchanged("a", second)));
  remove("a");
  EXPECT_FALSE(holds(Guard::unchanged("a", second)));
  put("a", "x");
  EXPECT_FALSE(holds(Guard::unchanged("a", second)));
}

TEST_P(StoreConformance, GuardsThatARangeIsQuiet) {
  const Range range = Range::prefix("m");
  EXPECT_TRUE(holds(Guard::empty(range)));
  put("l");
  put("n");
  EXPECT_TRUE(holds(Guard::empty(range)));
  const Revision made = put("m1");
  EXPECT_FALSE(holds(Guard::empty(range)));
  EXPECT_FALSE(holds(Guard::quiet(range, {made.value - 1})));
  EXPECT_TRUE(holds(Guard::quiet(range, made)));
  const Revision changed = put("m1");
  EXPECT_FALSE(holds(Guard::quiet(range, made)));
  EXPECT_TRUE(holds(Guard::quiet(range, changed)));
  put("n");
  EXPECT_TRUE(holds(Guard::quiet(range, changed)));
  EXPECT_FALSE(holds(Guard::quiet(between("m", ""), changed)));  // An open end.
}

// A removal does not disturb a quiet range: only entries that exist now count.
TEST_P(StoreConformance, ARangeIsQuietAfterARemoval) {
  const Range range = Range::prefix("m");
  const Revision old = put("m1");
  put("m2");
  remove("m2");
  EXPECT_TRUE(holds(Guard::quiet(range, old)));
  remove("m1");
  EXPECT_TRUE(holds(Guard::empty(range)));
  put("m1");
  EXPECT_FALSE(holds(Guard::quiet(range, old)));
}

TEST_P(StoreConformance, GuardsLookAtTheWholeRange) {
  put("m1");
  const Revision old = put("m2");
  put("m3");
  Range range = Range::prefix("m");
  range.limit = 1;
  range.skip = 5;
  range.before = old;
  EXPECT_FALSE(holds(Guard::quiet(range, old)));
  range.reverse = true;
  EXPECT_FALSE(holds(Guard::quiet(range, old)));
}

TEST_P(StoreConformance, ARangeWithNothingBetweenItsEndsIsEmpty) {
  put("a");
  put("b");
  EXPECT_TRUE(holds(Guard::empty(between("b", "a"))));
  EXPECT_TRUE(holds(Guard::empty(between("a", "a"))));
  EXPECT_TRUE(read(between("b", "a")).empty());
  EXPECT_TRUE(read(between("b", "a").last(0)).empty());
  EXPECT_TRUE(read(between("a", "a")).empty());
}

TEST_P(StoreConformance, AppendsAKeyOfItsOwn) {
  const Outcome first = store().apply(
      txn({}, {Write::append("q/", "one"), Write::append("p/", "")}, {Range::prefix("q/")}));
  ASSERT_EQ(first.reads[0].size(), 1U);
  EXPECT_EQ(first.reads[0][0],
            (Entry{"q/" + stamp(first.revision), "one", first.revision, first.revision}));
  const Outcome second =
      store().apply(txn({}, {Write::append("q/", "two")}, {Range::prefix("q/")}));
  ASSERT_EQ(second.reads[0].size(), 2U);
  EXPECT_EQ(second.reads[0][0], first.reads[0][0]);
  EXPECT_EQ(second.reads[0][1].key, "q/" + stamp(second.revision));
  EXPECT_EQ(read(Range::prefix("p/")).size(), 1U);
}

TEST_P(StoreConformance, KnowsWhenAKeyWasCreatedAndChanged) {
  const Revision first = put("a", "1");
  const Revision second = put("a", "2");
  EXPECT_EQ(read(Range::key("a")), (std::vector<Entry>{{"a", "2", first, second}}));
  remove("a");
  const Revision third = put("a", "3");
  EXPECT_EQ(read(Range::key("a")), (std::vector<Entry>{{"a", "3", third, third}}));
}

TEST_P(StoreConformance, MakesWritesInTheirOrder) {
  put("kept", "0");
  const Revision revision =
      store()
          .apply(txn({}, {Write::put("a", "1"), Write::put("a", "2"), Write::put("b", "1"),
                          Write::remove("b"), Write::remove("kept"), Write::put("kept", "1")}))
          .revision;
  EXPECT_EQ(read(everything()), (std::vector<Entry>{{"a", "2", revision, revision},
                                                    {"kept", "1", revision, revision}}));
}

TEST_P(StoreConformance, RevisionsOnlyGoUp) {
  Revision last = newest();
  EXPECT_EQ(newest(), last);
  for (int i = 0; i < 20; ++i) {
    const Revision revision = i % 3 == 2 ? remove("a") : put("a");
    EXPECT_GT(revision, last);
    EXPECT_FALSE(holds(Guard::present("b")));
    EXPECT_EQ(newest(), revision);  // A read makes no revision.
    last = revision;
  }
}

TEST_P(StoreConformance, RemovingWhatIsNotThereIsNoError) {
  const Outcome outcome = store().apply(txn({}, {Write::remove("a")}, {everything()}));
  EXPECT_TRUE(outcome.committed);
  EXPECT_TRUE(outcome.reads[0].empty());
}

TEST_P(StoreConformance, CommitsNothingAtAll) {
  const Outcome outcome = store().apply({});
  EXPECT_TRUE(outcome.committed);
  EXPECT_TRUE(outcome.reads.empty());
}

TEST_P(StoreConformance, KeepsAllBytes) {
  std::string all;
  for (int byte = 255; byte >= 0; --byte) all += static_cast<char>(byte);
  const std::vector<std::string> samples = {all, "a\0b"s, "\xff\xff"s, " "s, "%_'\"\\"s, "é"s};
  for (const std::string& sample : samples) {
    put(sample, sample);
    const auto found = read(Range::key(sample));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].key, sample);
    EXPECT_EQ(found[0].value, sample);
  }
  EXPECT_EQ(read(everything()).size(), samples.size());
  put("empty", "");
  EXPECT_EQ(read(Range::key("empty")).at(0).value, "");
}

TEST_P(StoreConformance, KeepsLargeValues) {
  std::string large(std::size_t{1} << 20U, 'x');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 >> 4U);
  const Outcome outcome =
      store().apply(txn({}, {Write::put("large", large)}, {Range::key("large")}));
  EXPECT_TRUE(outcome.reads.at(0).at(0).value == large);
  EXPECT_TRUE(read(Range::key("large")).at(0).value == large);
}

TEST_P(StoreConformance, TakesManyWritesInOneStep) {
  Txn many;
  for (int i = 0; i < 100; ++i) many.writes.push_back(Write::put("k" + std::to_string(i), "v"));
  const Revision revision = store().apply(many).revision;
  const auto found = read(Range::prefix("k"));
  EXPECT_EQ(found.size(), 100U);
  EXPECT_TRUE(std::ranges::all_of(found, [&](const Entry& e) { return e.changed == revision; }));
}

TEST_P(StoreConformance, FullDurabilityDoesTheSame) {
  Txn full = txn({Guard::absent("a")}, {Write::put("a", "1")}, {Range::key("a")});
  full.durability = Durability::full;
  const Outcome first = store().apply(full);
  EXPECT_TRUE(first.committed);
  EXPECT_EQ(first.reads.at(0).at(0), (Entry{"a", "1", first.revision, first.revision}));
  const Outcome second = store().apply(full);
  EXPECT_FALSE(second.committed);
  EXPECT_EQ(second.reads, first.reads);
  EXPECT_GT(put("b"), first.revision);
}

TEST_P(StoreConformance, TheNextHandleFindsWhatWasWritten) {
  const Revision revision = put("a", "1");
  const std::shared_ptr<Store> other = another();
  const Outcome found = other->apply(txn({}, {}, {Range::key("a")}));
  EXPECT_EQ(found.revision, revision);
  EXPECT_EQ(found.reads.at(0).at(0), (Entry{"a", "1", revision, revision}));
  const Revision next = other->apply(txn({}, {Write::put("a", "2")})).revision;
  EXPECT_GT(next, revision);
  EXPECT_EQ(read(Range::key("a")).at(0).value, "2");
  EXPECT_GT(put("a"), next);
}

TEST_P(StoreConformance, SaysWhatItIs) {
  const auto facts = store().facts();
  ASSERT_FALSE(facts.empty());
  for (const Store::Fact& fact : facts) EXPECT_FALSE(fact.name.empty());
}

TEST_P(StoreConformance, TheClockDoesNotGoBack) {
  Instant last = store().now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = store().now();
    ASSERT_GE(now, last);
    last = now;
  }
}

// A process that judges a deadline by now() must not be earlier than a holder that counts it down
// by latest_now().
TEST_P(StoreConformance, TheLatestTimeIsNotBehindTheTime) {
  const auto session = store().open_session({});
  for (int i = 0; i < 100; ++i) {
    const Instant now = store().now();
    EXPECT_GE(store().latest_now(), now);
  }
}

}  // namespace
}  // namespace tenure::conformance
