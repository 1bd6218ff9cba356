// A batch has the same effect as change(), and as the memory store.
#include "store/postgres/batch.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "store/conformance.hpp"
#include "store/postgres/postgres_store.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using kit::Postgres;
using kit::Schema;

using conformance::txn;

bool is_batch(const Txn& txn) {
  return Batches{parse_url("postgres://h/d"), 1}.batch_of(txn, 0, {}).has_value();
}

Txn ticket(std::string value, std::vector<Range> reads) {
  return txn({Guard::present("session")}, {Write::append("line/", std::move(value))},
             std::move(reads));
}

// The last entry on a line, and the first below it, before the ticket itself.
std::vector<Range> look() {
  Range line = Range::prefix("line/").last();
  Range below = Range::prefix("m").first();
  line.before = this_apply;
  below.before = this_apply;
  return {line, below, Range::prefix("other/").first()};
}

Txn removal(const std::string& key) { return txn({Guard::present(key)}, {Write::remove(key)}); }

TEST(PostgresBatch, IsWhatALockIsAndNothingElse) {
  EXPECT_TRUE(is_batch(ticket("", look())));
  EXPECT_TRUE(is_batch(ticket("", {})));
  EXPECT_TRUE(is_batch(removal("key")));
  EXPECT_FALSE(is_batch(txn({}, {Write::append("line/", "")})));
  EXPECT_FALSE(is_batch(txn({Guard::absent("a")}, {Write::append("line/", "")})));
  EXPECT_FALSE(is_batch(txn({Guard::present("other")}, {Write::remove("key")})));
  Txn durable = removal("key");
  durable.durability = Durability::full;
  EXPECT_FALSE(is_batch(durable));
  // The statement could not see its own row.
  EXPECT_FALSE(is_batch(ticket("", {Range::prefix("line/").first()})));
  // Larger than one network segment.
  EXPECT_TRUE(is_batch(ticket(std::string(800, 'x'), {})));
  EXPECT_FALSE(is_batch(ticket(std::string(1'000, 'x'), {})));
}

// Random content: each transaction runs once as a batch, and once with an additional guard, which
// excludes a batch.
RC_GTEST_PROP(PostgresBatch, ReadsWhatChangeReads, ()) {
  static const Schema schema;
  static const auto store = open_postgres(schema.url(), true);
  Txn clear;
  const Outcome all = store->apply(txn({}, {}, {Range::prefix("")}));
  for (const Entry& entry : all.reads.at(0)) {
    clear.writes.push_back(Write::remove(entry.key));
  }
  clear.writes.push_back(Write::put("session", ""));
  for (const int key : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6))) {
    const std::vector<std::string> places{"line/", "line/a", "m/", "m/x", "n", "other/"};
    clear.writes.push_back(Write::append(places[static_cast<std::size_t>(key)], "value"));
  }
  store->apply(clear);
  std::vector<Range> reads;
  const auto count = *rc::gen::inRange<std::size_t>(0, 5);
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::string> prefixes{"line/", "line", "m", "other/", "z"};
    Range range = Range::prefix(prefixes[*rc::gen::inRange<std::size_t>(0, prefixes.size())]);
    range.limit = 1;
    range.reverse = *rc::gen::arbitrary<bool>();
    if (range.from.starts_with("line") || *rc::gen::arbitrary<bool>()) range.before = this_apply;
    reads.push_back(range);
  }
  Txn quick = ticket("mine", reads);
  RC_ASSERT(is_batch(quick));
  const Outcome batch = store->apply(quick);
  RC_ASSERT(store->apply(removal("line/" + stamp(batch.revision))).committed);
  const Outcome again = store->apply(quick);  // Ranges that were empty are known by now.
  RC_ASSERT(again.reads == batch.reads);
  RC_ASSERT(store->apply(removal("line/" + stamp(again.revision))).committed);
  quick.guards.push_back(Guard::absent("nothing"));
  const Outcome change = store->apply(quick);
  RC_ASSERT(batch.committed);
  RC_ASSERT(change.committed);
  RC_ASSERT(batch.reads == change.reads);
  RC_ASSERT(change.revision.value == batch.revision.value + (4 * revision_step));
}

// A sole writer does not read ranges that it knows to be empty, but finds what others put, and what
// it put itself.
TEST(PostgresBatch, WhoIsAloneFindsWhatOthersPut) {
  const Schema schema;
  const auto one = open_postgres(schema.url(), true);
  const auto two = open_postgres(schema.url(), true);
  one->apply(txn({}, {Write::put("session", "")}));
  Outcome made;
  for (int i = 0; i < 3; ++i) {
    const Revision before = made.revision;
    made = one->apply(ticket("mine", look()));
    for (const auto& read : made.reads) ASSERT_TRUE(read.empty());
    ASSERT_TRUE(i == 0 || made.revision.value == before.value + (2 * revision_step));
    ASSERT_TRUE(one->apply(removal("line/" + stamp(made.revision))).committed);
  }
  made = one->apply(ticket("mine", look()));
  ASSERT_EQ(one->apply(ticket("mine", look())).reads.at(0).size(), 1U) << "its own";
  ASSERT_TRUE(one->apply(removal("line/" + stamp(made.revision))).committed);
  made = one->apply(ticket("mine", look()));
  ASSERT_EQ(made.reads.at(0).size(), 1U) << "the second of its own";

  const Outcome others = two->apply(txn({}, {Write::append("other/", "x")}));
  made = one->apply(txn({Guard::present("session")}, {Write::append("free/", "")}, {look().at(2)}));
  EXPECT_TRUE(made.committed);
  EXPECT_EQ(made.revision.value, others.revision.value + revision_step)
      << "a wrong guess uses no revision up";
  ASSERT_EQ(made.reads.at(0).size(), 1U);
  EXPECT_EQ(made.reads.at(0).at(0).created, others.revision);
}

TEST(PostgresBatch, AGuardThatDoesNotHoldIsRefused) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  const Outcome refused = store->apply(ticket("mine", look()));
  EXPECT_FALSE(refused.committed);
  EXPECT_EQ(refused.reads.size(), 3U);
  EXPECT_FALSE(store->apply(removal("nothing")).committed);
  EXPECT_TRUE(store->apply(txn({}, {}, {Range::prefix("")})).reads.at(0).empty());
  const Revision first = store->apply(txn({}, {Write::put("session", "")})).revision;
  const Outcome made = store->apply(ticket("mine", look()));
  EXPECT_TRUE(made.committed);
  EXPECT_GT(made.revision, first);
  const auto entries = store->apply(txn({}, {}, {Range::prefix("line/")})).reads.at(0);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().created, made.revision);
  EXPECT_EQ(entries.front().value, "mine");
}

// As if a dump were restored under a running process: its revisions are old.
TEST(PostgresBatch, ATableThatWasReplacedIsNoticed) {
  const Schema schema;
  const auto store = open_postgres(schema.url(), true);
  store->apply(txn({}, {Write::put("session", "")}));
  Revision last;
  for (int i = 0; i < 3; ++i) last = store->apply(ticket("mine", {})).revision;
  Postgres::instance().sql(
      "BEGIN; ALTER TABLE " + schema.name() + ".head RENAME TO old;" + "CREATE TABLE " +
      schema.name() + ".head AS SELECT bucket, newest - 768 " + "AS newest FROM " + schema.name() +
      ".old; DELETE FROM " + schema.name() + ".marker; COMMIT");
  const Outcome next = store->apply(ticket("mine", {}));
  EXPECT_TRUE(next.committed);
  EXPECT_GT(next.revision, last);
  EXPECT_GT(next.revision.value >> 30U, last.value >> 30U);
}

// In one process, and alternating with another: in both cases each commit has its own revision, in
// order.
TEST(PostgresBatch, RevisionsOfLoneAndOfManyWritersRise) {
  const Schema schema;
  const auto one = open_postgres(schema.url(), true);
  const auto two = open_postgres(schema.url(), true);
  one->apply(txn({}, {Write::put("session", "")}));
  Revision last;
  for (int i = 0; i < 40; ++i) {
    const Outcome outcome = (i >= 20 && i % 2 == 1 ? two : one)->apply(ticket("mine", look()));
    ASSERT_TRUE(outcome.committed);
    ASSERT_GT(outcome.revision, last);
    ASSERT_EQ(outcome.reads.at(0).size(), i == 0 ? 0U : 1U);
    for (const Entry& before : outcome.reads.at(0)) ASSERT_EQ(before.created, last);
    last = outcome.revision;
  }
}

}  // namespace
}  // namespace tenure::postgres
