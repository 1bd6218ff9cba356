// A commit notifies those who watch what it changed, and nobody else.
#include "store/postgres/notices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "store/common/watch_table.hpp"
#include "store/conformance.hpp"
#include "store/postgres/buckets.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/postgres_store.hpp"
#include "tests/kit/patience.hpp"
#include "tests/kit/postgres.hpp"

namespace tenure::postgres {
namespace {

using conformance::Bell;
using conformance::txn;
using kit::Postgres;
using kit::Schema;

std::size_t notices(Store& store) {
  const auto facts = store.facts();
  const auto at = std::ranges::find(facts, "notices", &Store::Fact::name);
  return std::stoul(at->value);
}

Revision newest(Store& store) { return store.apply({}).revision; }

WatchFor changes(Range range, Revision after) {
  return {.ranges = {std::move(range)}, .after = after};
}

// How many backends hold interests in ranges (`codes` below key_code) or keys of this schema.
std::string watching(std::string_view codes) {
  return Postgres::instance().sql(
      "SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype='advisory' AND classid=" +
      std::to_string(interest_class) + " AND granted AND objid::bigint >> 27 " +
      std::string{codes});
}

class PostgresNotices : public ::testing::Test {
 protected:
  const Schema schema;
  const std::shared_ptr<Store> watcher = open_postgres(schema.url(), true);
  const std::shared_ptr<Store> writer = open_postgres(schema.url(), true);
};

// With change() and with both batches.
void write_all(Store& store, const std::string& key) {
  store.apply(txn({}, {Write::put(key, "")}));
  EXPECT_TRUE(store.apply(txn({Guard::present(key)}, {Write::remove(key)})).committed);
  store.apply(txn({}, {Write::put("session", "")}));
  EXPECT_TRUE(store.apply(txn({Guard::present("session")}, {Write::append(key, "")})).committed);
}

TEST_F(PostgresNotices, NobodyIsToldOfWhatNobodyWatches) {
  watcher->apply(txn({}, {Write::put("mine", "")}));
  Bell bell;
  const auto watch = watcher->watch(changes(Range::key("mine"), newest(*watcher)), bell.notice());
  kit::until([] { return watching("= 7") == "1"; });
  for (int i = 0; i < 20; ++i) write_all(*writer, "others/" + std::to_string(i));
  for (int i = 0; i < 100; ++i) {
    writer->apply_then(
        txn({}, {Write::append("many/", "")}),
        [](const Outcome&, const std::exception_ptr& error) { EXPECT_FALSE(error); });
  }
  writer->flush();
  EXPECT_EQ(notices(*watcher), 0U);
  writer->apply(txn({}, {Write::put("mine", "")}));
  bell.wait();
  EXPECT_EQ(notices(*watcher), 1U);
}

// Prefixes of all lengths around those that interests count, and ranges that are no prefixes.
TEST_F(PostgresNotices, EveryRangeIsToldOfEveryKindOfWrite) {
  const std::string name = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::vector<Range> ranges{{.from = "abc", .to = "abx"},
                            {.from = "a", .to = ""},
                            {.from = "", .to = ""},
                            {.from = "ab", .to = "b"},
                            Range::key(name)};
  for (const std::size_t size : {0U, 1U, 2U, 3U, 4U, 7U, 8U, 9U, 16U, 17U, 31U, 32U, 33U, 60U}) {
    ranges.push_back(Range::prefix(name.substr(0, size)));
  }
  for (const Range& range : ranges) {
    const auto told_of = [&](const auto& write) {
      Bell bell;
      const auto watch = watcher->watch(changes(range, newest(*watcher)), bell.notice());
      write();
      bell.wait();
    };
    told_of([&] { writer->apply(txn({}, {Write::put(name, "")})); });
    told_of([&] { writer->apply(txn({Guard::present(name)}, {Write::remove(name)})); });
    writer->apply(txn({}, {Write::put("Session", "")}));
    if (!stores::is_one_key(range)) {
      told_of([&] {
        writer->apply(txn({Guard::present("Session")}, {Write::append(name.substr(0, 61), "")}));
      });
    }
    told_of([&] {
      for (int i = 0; i < 50; ++i) {
        const std::string key = i == 25 ? name : "Others/" + std::to_string(i);
        writer->apply_then(txn({}, {Write::put(key, "")}), [](const auto&, const auto&) {});
      }
    });
  }
}

// More than one process may have locks for: then it hears of everything.
TEST_F(PostgresNotices, ManyWatchesAreAllTold) {
  constexpr int count = 300;
  Bell bell;
  std::vector<std::unique_ptr<Watch>> watches;
  const Revision before = newest(*watcher);
  for (int i = 0; i < count; ++i) {
    watches.push_back(
        watcher->watch(changes(Range::key("k" + std::to_string(i)), before), bell.notice()));
  }
  kit::until([] { return watching("= 0") == "1"; });
  for (int i = 0; i < count; ++i) {
    writer->apply(txn({}, {Write::put("k" + std::to_string(i), "")}));
  }
  bell.wait(count);
}

// A commit between the read of the entries and the lock of the interest would be missed.
TEST_F(PostgresNotices, AChangeWhileTheInterestIsTakenIsSeen) {
  const Revision before = newest(*watcher);
  Connection other{std::make_shared<const Target>(parse_url(schema.url()))};
  const std::string next = std::to_string(before.value + revision_step);
  const std::string number =
      other.execute("SELECT '" + schema.name() + "'::regnamespace::oid").text(0, 0);
  other.execute("BEGIN; UPDATE " + schema.name() + ".head SET newest=" + next +
                " WHERE bucket=0; INSERT INTO " + schema.name() + ".entry VALUES ('lock', '', " +
                next + ", " + next + "); SELECT " +
                try_interest_sql(interest_sql("'" + number + "'", std::to_string(key_code), "'0'",
                                              "'lock'::bytea")));
  Bell bell;
  const auto watch = watcher->watch(changes(Range::key("lock"), before), bell.notice());
  kit::until([] {
    return Postgres::instance().sql(
               "SELECT count(*) FROM pg_stat_activity WHERE wait_event='advisory'") == "1";
  });
  other.execute("COMMIT");
  bell.wait();
}

TEST(PostgresNoticesOfMany, AReleaseTellsOneOf64Processes) {
  kit::Postgres::Options options;
  std::ranges::replace(options.settings, "max_connections=100", "max_connections=500");
  const Postgres server{options};
  constexpr std::size_t releases = 10;
  const std::size_t told = conformance::count_notices(
      64, releases, [url = server.url_of("notices")] { return tenure::store(url); });
  EXPECT_GE(told, releases);
  EXPECT_LE(told, 3 * releases);
}

}  // namespace
}  // namespace tenure::postgres
