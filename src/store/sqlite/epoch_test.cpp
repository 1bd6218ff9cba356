// Revisions are never used twice: epochs, lost side files, copies, and a count that runs out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "store/session_entry.hpp"
#include "store/sqlite/opening.hpp"
#include "store/sqlite/sqlite_test.hpp"
#include "tests/kit/patience.hpp"

namespace tenure::sqlite {
namespace {

namespace fs = std::filesystem;

std::uint64_t epoch(Revision revision) { return revision.value >> count_bits; }

SqliteOptions after_boot(std::string boot) {
  SqliteOptions options = alone();
  options.boot = std::move(boot);
  return options;
}

struct SqliteEpoch : ::testing::Test {
  Directory directory;
  fs::path path = directory / "app.db";
  fs::path side = directory / "app.db-tenure";
};

TEST_F(SqliteEpoch, StaysWithinABoot) {
  const Revision first = put(*open_sqlite(path, alone()), "a");
  const Revision second = put(*open_sqlite(path, alone()), "a");
  EXPECT_EQ(second.value, first.value + 1);
  EXPECT_GT(epoch(first), 1'700'000'000U);
  EXPECT_GT(static_cast<std::int64_t>(first.value), 0);
}

TEST_F(SqliteEpoch, RisesWithABoot) {
  const Revision first = put(*open_sqlite(path, after_boot("one")), "a");
  const Revision second = put(*open_sqlite(path, after_boot("two")), "a");
  const Revision third = put(*open_sqlite(path, after_boot("two")), "a");
  EXPECT_GT(epoch(second), epoch(first));
  EXPECT_EQ(epoch(third), epoch(second));
}

TEST_F(SqliteEpoch, RisesWhereTheBootCantBeKnown) {
  const Revision first = put(*open_sqlite(path, after_boot("")), "a");
  const Revision second = put(*open_sqlite(path, after_boot("")), "a");
  EXPECT_GT(epoch(second), epoch(first));
}

TEST_F(SqliteEpoch, RisesForEverybodyWhoHasItOpen) {
  const auto store = open_sqlite(path, after_boot("one"));
  const Revision first = put(*store, "a");
  const auto other = open_sqlite(path, after_boot("two"));
  const Revision second = put(*store, "a");
  EXPECT_GT(epoch(second), epoch(first));
  EXPECT_EQ(put(*other, "a").value, second.value + 1);
}

TEST_F(SqliteEpoch, RisesInACopy) {
  const Revision first = put(*open_sqlite(path, alone()), "a");
  fs::copy_file(path, directory / "copy.db");
  fs::copy_file(side, directory / "copy.db-tenure");
  EXPECT_GT(epoch(put(*open_sqlite(directory / "copy.db"), "a")), epoch(first));
}

TEST_F(SqliteEpoch, RisesWhenABackupWasPutBack) {
  std::ignore = put(*open_sqlite(path, after_boot("one")), "a");
  fs::copy_file(path, directory / "backup");
  const Revision lost = put(*open_sqlite(path, after_boot("two")), "a");
  fs::copy_file(directory / "backup", path, fs::copy_options::overwrite_existing);
  EXPECT_GT(epoch(put(*open_sqlite(path, after_boot("two")), "a")), epoch(lost));
}

TEST_F(SqliteEpoch, RisesBeforeTheCountRunsOut) {
  const auto store = open_sqlite(path, alone());
  const auto other = open_sqlite(path, alone());
  Revision last = put(*store, "a");
  {
    SideFile mapped{side, {::geteuid(), ::getegid(), 0600}};
    mapped.header().last.store((epoch(last) << count_bits) + count_mask - 3);
    mapped.done();
  }
  const std::uint64_t old = epoch(last);
  for (int i = 0; i < 10; ++i) {
    const Revision next = put(i % 2 == 0 ? *store : *other, "a");
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_GT(epoch(last), old);
  EXPECT_EQ(epoch(put(*open_sqlite(path, alone()), "a")), epoch(last));
}

TEST_F(SqliteEpoch, ASideFileMayBeLostWhenNobodyNeedsIt) {
  const Revision first = put(*open_sqlite(path, alone()), "a");
  fs::remove(side);
  EXPECT_GT(epoch(put(*open_sqlite(path, alone()), "a")), epoch(first));
}

TEST_F(SqliteEpoch, ASideFileLostWithSessionsIsAnError) {
  auto store = open_sqlite(path, alone());
  auto session = store->open_session({});
  const std::string key = std::string{session_prefix} + session->id();
  const std::string entry = value_of(*store, key);
  put(*store, std::string{"\x01ticket", 7}, R"({"session":")" + session->id() + "\"}");
  put(*store, "mine", "1");
  session.reset();
  put(*store, key, entry);  // As if its process had ended, or could not be seen.
  store.reset();
  fs::remove(side);
  const auto before = directory.contents();
  EXPECT_NE(refusal(path).find("tenure doctor --new-epoch"), std::string::npos) << refusal(path);
  EXPECT_EQ(directory.contents(), before);
  EXPECT_NE(refusal(path, after_boot(stores::boot_id())), "opened");

  SqliteOptions repair;
  repair.new_epoch = true;
  store = open_sqlite(path, repair);
  EXPECT_EQ(value_of(*store, key), "none");
  EXPECT_TRUE(read(*store, Range::prefix("\x01")).empty());
  EXPECT_EQ(value_of(*store, "mine"), "1");
  store.reset();
  EXPECT_EQ(refusal(path), "opened");
}

TEST_F(SqliteEpoch, ASideFileLostBeforeABootIsNone) {
  {
    auto store = open_sqlite(path, alone());
    const auto session = store->open_session({});
    std::string key{session_prefix};
    key += "4000000000000001";  // g++ 12 warns of a false overflow where a + is inlined.
    put(*store, key, R"({"boot":"an old one"})");
  }
  fs::remove(side);
  EXPECT_EQ(refusal(path), "opened");
}

TEST_F(SqliteEpoch, TheRepairLeavesTicketsThatHangOnKeys) {
  const std::string anchored = R"({"format":2,"anchor":["key","order"],"by":"4000000000000001"})";
  const std::string newer = R"({"format":9,"session":"4000000000000001"})";
  {
    const auto store = open_sqlite(path);
    put(*store, "\x01-anchored", anchored);
    put(*store, "\x01-newer", newer);
    put(*store, "\x01-dead", R"({"session":"4000000000000001"})");
  }
  SqliteOptions repair;
  repair.new_epoch = true;
  const auto store = open_sqlite(path, repair);
  EXPECT_EQ(value_of(*store, "\x01-anchored"), anchored);
  EXPECT_EQ(value_of(*store, "\x01-newer"), newer);
  EXPECT_EQ(value_of(*store, "\x01-dead"), "none");
}

TEST_F(SqliteEpoch, TheRepairLeavesWhoLives) {
  // A repair rings nobody; the check once per second notifies.
  const auto store = open_sqlite(path);
  const auto session = store->open_session({});
  // Its label is not UTF-8, as earlier versions wrote it.
  const std::string ticket = "{\"label\":\"caf\xe9\",\"session\":\"" + session->id() + "\"}";
  put(*store,
      "\x01"
      "alive",
      ticket);
  put(*store,
      "\x01"
      "dead",
      R"({"session":"4000000000000001"})");
  conformance::Bell bell;
  WatchFor what;
  what.ranges.push_back(
      Range::key("\x01"
                 "dead"));
  what.after = store->apply({}).revision;
  const auto watch = store->watch(what, bell.notice());
  SqliteOptions repair;
  repair.new_epoch = true;
  std::ignore = open_sqlite(path, repair);
  bell.wait();
  EXPECT_EQ(value_of(*store,
                     "\x01"
                     "alive"),
            ticket);
  EXPECT_EQ(value_of(*store,
                     "\x01"
                     "dead"),
            "none");
  EXPECT_TRUE(store->alive(session->id()));
}

// A read that returns revision R must have seen everything up to R; otherwise a watch from R would
// miss changes.
TEST_F(SqliteEpoch, AReadHasSeenAllUpToItsRevisionThoughEpochsRise) {
  const auto store = open_sqlite(path, after_boot("one"));
  std::vector<Revision> made;
  std::vector<std::pair<Revision, int>> seen;
  std::atomic<bool> done = false;
  std::atomic<int> reads = 0;
  put(*store, "a", "-1");
  {
    const std::jthread writer{[&] {
      // Long ones, so that most epochs begin while one is under way.
      Txn many;
      for (int i = 0; i < 200; ++i) many.writes.push_back(Write::put("k" + std::to_string(i), ""));
      many.writes.push_back({});
      for (int i = 0; !done; ++i) {
        many.writes.back() = Write::put("a", std::to_string(i));
        made.push_back(store->apply(many).revision);
      }
    }};
    const std::jthread reader{[&] {
      const auto other = open_sqlite(path, after_boot("one"));
      while (!done) {
        const Outcome outcome = other->apply(txn({}, {}, {Range::key("a")}));
        seen.emplace_back(outcome.revision, std::stoi(outcome.reads[0][0].value));
        ++reads;
      }
    }};
    for (int i = 1; i <= 30; ++i) {
      std::ignore = open_sqlite(path, after_boot(""));
      kit::until([&] { return reads >= i; });
    }
    done = true;
  }
  for (const auto& [revision, value] : seen) {
    const auto later = std::ranges::upper_bound(made, revision);
    EXPECT_GE(value, later - made.begin() - 1) << "at revision " << revision.value;
  }
}

TEST_F(SqliteEpoch, TheClockGoesOn) {
  const auto store = open_sqlite(path, after_boot("one"));
  const Instant before = store->now();
  const auto other = open_sqlite(path, after_boot("one"));
  EXPECT_GE(other->now(), before);
  const auto unknown = open_sqlite(path, after_boot(""));
  EXPECT_GE(unknown->now(), before);
}

}  // namespace
}  // namespace tenure::sqlite
