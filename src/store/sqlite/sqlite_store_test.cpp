#include "store/sqlite/sqlite_store.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "store/sqlite/executor.hpp"
#include "store/sqlite/side_file.hpp"
#include "store/sqlite/sqlite_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::sqlite {
namespace {

conformance::StoreUnderTest make_sqlite() {
  const auto directory = std::make_shared<Directory>();
  return {.open = [directory] { return open_sqlite(*directory / "app.db", alone()); },
          // Replaces the session's description by another one: the kernel ends its lock.
          .kill =
              [](Session& session) {
                const int other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
                ASSERT_GE(::dup3(other, session.descriptor(), O_CLOEXEC), 0);
                ::close(other);
              }};
}

}  // namespace
}  // namespace tenure::sqlite

namespace tenure::conformance {

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreConformance,
                         ::testing::Values(StoreKind{"sqlite", sqlite::make_sqlite}), kind_name);
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreProcesses,
                         ::testing::Values(StoreKind{"sqlite", sqlite::make_sqlite}), kind_name);

}  // namespace tenure::conformance

namespace tenure::sqlite {
namespace {

TEST(SqliteStore, IsOneStoreForOneFile) {
  const Directory directory;
  const auto first = store("sqlite:" + (directory / "app.db").string());
  const auto second = open_sqlite(directory / "../" / directory.path().filename() / "app.db");
  EXPECT_EQ(first, second);
  EXPECT_NE(first, open_sqlite(directory / "app.db", alone()));
}

TEST(SqliteStore, KeepsWhatWasWritten) {
  const Directory directory;
  Revision last;
  {
    const auto store = open_sqlite(directory / "app.db");
    last = put(*store, "a", "1");
  }
  const auto store = open_sqlite(directory / "app.db");
  EXPECT_EQ(value_of(*store, "a"), "1");
  EXPECT_GT(put(*store, "b"), last);
}

// Transactions that insert a new key each share statements. One whose key exists, in the store or
// in the same batch, is refused alone; others see the keys of those before them.
TEST(SqliteStore, JudgesEachNewKeyOfABatchByItself) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db", alone());
  put(*store, "k/3", "old");
  const auto insert = [](const std::string& key) {
    return txn({Guard::absent(key)}, {Write::put(key, "new")});
  };
  for (const bool conflict : {false, true}) {
    const std::string prefix = conflict ? "k/" : "j/";
    std::vector<Txn> batch;
    for (int i = 0; i < 20; ++i) batch.push_back(insert(prefix + std::to_string(i)));
    if (conflict) batch.push_back(insert(prefix + "5"));
    batch.push_back(txn({Guard::present(prefix + "19")}, {Write::put(prefix + "seen", "")}));
    batch.push_back(txn({Guard::absent(prefix + "18")}, {Write::put("bad", "")}));
    batch.push_back(insert(prefix + "20"));
    batch.push_back(txn({}, {Write::remove(prefix + "20")}));
    std::string fates;
    std::vector<Revision> revisions;
    std::promise<void> queued;
    // The callback keeps the committer until the rest is queued: one batch.
    store->apply_then(
        txn({}, {Write::put("first", "")}),
        [wait = queued.get_future().share()](const auto&, const auto&) { wait.wait(); });
    for (Txn& one : batch) {
      store->apply_then(std::move(one),
                        [&](const Outcome& outcome, const std::exception_ptr& error) {
                          fates += error ? '!' : outcome.committed ? '+' : '-';
                          if (outcome.committed) revisions.push_back(outcome.revision);
                        });
    }
    queued.set_value();
    store->flush();
    EXPECT_EQ(fates, conflict ? "+++-++++++++++++++++-+-++" : "+++++++++++++++++++++-++");
    EXPECT_TRUE(std::ranges::is_sorted(revisions));
    EXPECT_TRUE(std::ranges::adjacent_find(revisions) == revisions.end());
    EXPECT_EQ(value_of(*store, prefix + "19"), "new");
    EXPECT_EQ(read(*store, Range::key(prefix + "4")).at(0).changed, revisions.at(conflict ? 3 : 4));
    EXPECT_TRUE(read(*store, Range::key(prefix + "20")).empty());
  }
  EXPECT_EQ(value_of(*store, "k/3"), "old");
  EXPECT_TRUE(read(*store, Range::key("bad")).empty());
}

// Keys that the log of written keys does not contain completely are reported all the same: a key
// that is too long for it, and the first of more keys than it can hold.
TEST(SqliteStore, AWatchDoesNotMissWhatTheLogLacks) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db", alone());
  const auto other = open_sqlite(directory / "app.db", alone());
  Txn many = txn({}, {});
  for (std::size_t i = 0; i < 3 * WriteLog::slots; ++i) {
    many.writes.push_back(Write::put("n/" + std::to_string(10'000 + i), ""));
  }
  const Txn long_key = txn({}, {Write::put("l/" + std::string(2 * WriteLog::max_key, 'x'), "")});
  for (const auto& [change, range] :
       {std::pair{long_key, Range::prefix("l/x")}, std::pair{many, Range::key("n/10000")}}) {
    for (Store* const writer : {store.get(), other.get()}) {
      WatchFor what;
      what.ranges.push_back(range);
      what.after = store->apply({}).revision;
      conformance::Bell later;
      const auto armed = store->watch(what, later.notice());
      writer->apply(change);
      later.wait();
      conformance::Bell before;
      const auto late = store->watch(what, before.notice());
      before.wait();
    }
  }
}

TEST(SqliteStore, ThreadsShareCommits) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db");
  constexpr int threads = 8;
  constexpr int each = 200;
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) {
      running.emplace_back([&] {
        for (int n = 0; n < each; ++n) {
          store->apply(txn({}, {Write::append("t", "")}, {Range::prefix("t").last()}));
        }
      });
    }
  }
  const auto made = read(*store, Range::prefix("t"));
  ASSERT_EQ(made.size(), threads * each);
  for (std::size_t i = 1; i < made.size(); ++i) EXPECT_LT(made[i - 1].created, made[i].created);
}

TEST(SqliteStore, FailsAloneInABatch) {
  const Directory directory;
  SqliteOptions small = alone();
  small.max_pages = 64;
  const auto store = open_sqlite(directory / "app.db", small);
  std::atomic<int> failed = 0;
  std::atomic<int> done = 0;
  // Posts accumulate while the first is made; those that do not fit must not fail the others.
  for (int i = 0; i < 64; ++i) {
    const std::string value(i % 4 == 1 ? 300'000 : 10, 'x');
    store->post(txn({}, {Write::put("k" + std::to_string(i), value)}),
                [&, big = i % 4 == 1](const Outcome&, const std::exception_ptr& error) {
                  if (error) ++failed;
                  if (big == static_cast<bool>(error)) ++done;
                });
  }
  put(*store, "z");
  EXPECT_EQ(failed, 16);
  EXPECT_EQ(done, 64);
  EXPECT_EQ(read(*store, Range::prefix("k")).size(), 48U);
}

TEST(SqliteStore, ADiskThatIsFullIsAnErrorAndNoMore) {
  const Directory directory;
  SqliteOptions small = alone();
  small.max_pages = 64;
  const auto store = open_sqlite(directory / "app.db", small);
  put(*store, "before");
  try {
    store->apply(txn({}, {Write::put("a", "1"), Write::put("b", std::string(1'000'000, 'x'))}));
    FAIL() << "it fits";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string{error.what()}.find("no space left"), std::string::npos) << error.what();
    EXPECT_FALSE(error.unknown());
  }
  EXPECT_EQ(value_of(*store, "a"), "none");
  put(*store, "a", "2");
  EXPECT_EQ(value_of(*store, "a"), "2");
}

TEST(SqliteStore, PostsAreMadeBeforeItGoes) {
  const Directory directory;
  std::atomic<int> done = 0;
  {
    const auto store = open_sqlite(directory / "app.db");
    for (int i = 0; i < 1000; ++i) {
      store->post(txn({}, {Write::append("p", "")}), [&](const Outcome&, const auto&) { ++done; });
    }
  }
  EXPECT_EQ(done, 1000);
  EXPECT_EQ(read(*open_sqlite(directory / "app.db"), Range::prefix("p")).size(), 1000U);
}

TEST(SqliteStore, MayBeDroppedByItsOwnThreads) {
  const Directory directory;
  conformance::Bell bell;
  {
    auto store = open_sqlite(directory / "app.db");
    Store& also = *store;
    also.post(txn({}, {Write::put("a", "")}),
              [store, &bell](const Outcome&, const auto&) mutable { store.reset(), bell.ring(); });
  }
  bell.wait();
  {
    auto store = open_sqlite(directory / "app.db", alone());
    WatchFor what;
    what.until = store->now();
    auto kept = std::make_shared<std::unique_ptr<Watch>>();
    auto owner = std::make_shared<std::shared_ptr<Store>>(store);
    *kept = store->watch(what, [owner, kept, &bell] {
      owner->reset();
      bell.ring();
    });
  }
  bell.wait(2);
}

// How often the first watching process was rung, or has rung itself.
std::uint32_t rings(const Directory& directory) {
  SideFile side{directory / "app.db-tenure", {.uid = ::getuid(), .gid = ::getgid()}};
  side.done();
  return side.doorbell(0).word.load();
}

// By a commit of the same bucket that is still under way: nothing is due yet, and the commit rings
// again when it is made.
TEST(SqliteStore, AWatchThatWasRungTooEarlyIsArmedAgain) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db", alone());
  WatchFor what;
  what.ranges.push_back(Range::key("a"));
  what.after = put(*store, "a");
  conformance::Bell bell;
  await_first_round(*store);
  const auto watch = store->watch(what, bell.notice());
  SideFile side{directory / "app.db-tenure", {.uid = ::getuid(), .gid = ::getgid()}};
  side.done();
  auto& bucket = side.bucket(key_bucket("a"));
  bucket.revision.store(what.after.value + 1000);
  bucket.bits.store(0);
  ring_doorbell(side.doorbell(0), std::uint64_t{1} << key_bucket("a") % 64);
  kit::until([&] { return bucket.bits.load() != 0; });
  put(*store, "a");
  bell.wait();
}

TEST(SqliteStore, AWriteWakesItsOwnProcessOnlyForWhatItWatches) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db");
  WatchFor what;
  what.ranges.push_back(Range::key("a"));
  what.after = put(*store, "a");
  conformance::Bell bell;
  auto watch = store->watch(what, bell.notice());
  watch.reset();  // Its bit stays in the bucket.
  const std::uint32_t before = rings(directory);
  what.after = put(*store, "a");
  EXPECT_EQ(rings(directory), before);
  watch = store->watch(what, bell.notice());
  put(*store, "a");
  bell.wait();
  EXPECT_GT(rings(directory), before);
}

// Right before a watch is armed a commit rings nobody: the check after the arming must see it.
TEST(SqliteStore, ACommitWhileAWatchIsArmedIsTold) {
  const Directory directory;
  const auto other = open_sqlite(directory / "app.db", alone());
  SqliteOptions options = alone();
  bool meanwhile = false;
  options.on_arming = [&] {
    if (meanwhile) put(*other, "a");
  };
  const auto store = open_sqlite(directory / "app.db", options);
  await_first_round(*store);
  meanwhile = true;
  WatchFor what;
  what.ranges.push_back(Range::key("a"));
  what.after = put(*store, "a");
  conformance::Bell bell;
  const auto watch = store->watch(what, bell.notice());
  bell.wait();
}

TEST(SqliteStore, TellsTheDoctor) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db");
  const auto session = store->open_session({.label = "test"});
  std::map<std::string, std::string> facts;
  for (const auto& [name, value] : store->facts()) facts[name] = value;
  EXPECT_EQ(facts["kind"], "sqlite");
  EXPECT_EQ(facts["path"], (directory / "app.db").string());
  EXPECT_EQ(facts["schema"], "2");
  EXPECT_EQ(facts["journal"], "wal");
  EXPECT_EQ(facts["permissions"], "0600");
  EXPECT_EQ(facts["sessions"], "1");
  EXPECT_EQ(facts["sessions dead"], "0");
  EXPECT_EQ(facts["files in place"], "yes");
}

TEST(SqliteStore, NoticesThatItsFileWasReplaced) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db");
  const auto session = store->open_session({});
  conformance::Bell lost;
  conformance::Bell told;
  const std::stop_callback callback{session->lost(), [&] { lost.ring(); }};
  WatchFor never;
  never.ranges.push_back(Range::key("nothing"));
  never.after = put(*store, "a");
  const auto watch = store->watch(never, told.notice());
  std::filesystem::rename(directory / "app.db", directory / "old.db");
  std::filesystem::copy_file(directory / "old.db", directory / "app.db");
  lost.wait();
  told.wait();
  EXPECT_THROW(put(*store, "b"), StoreError);
  EXPECT_THROW(std::ignore = read(*store, Range::key("a")), StoreError);
}

}  // namespace
}  // namespace tenure::sqlite
