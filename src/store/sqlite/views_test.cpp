#include "store/sqlite/views.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <string>

#include "store/sqlite/sqlite_test.hpp"

namespace tenure::sqlite {
namespace {

// All rows, with blanks between columns.
std::string rows(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr);
  std::string text;
  char* error = nullptr;
  sqlite3_exec(
      database, sql.c_str(),
      [](void* out, int count, char** values, char**) {
        auto& all = *static_cast<std::string*>(out);
        for (int i = 0; i < count; ++i) {
          all += (i == 0 ? "" : " ") + std::string{values[i] == nullptr ? "-" : values[i]};
        }
        all += "\n";
        return 0;
      },
      &text, &error);
  if (error != nullptr) text += error;
  sqlite3_free(error);
  sqlite3_close(database);
  return text;
}

void execute(const std::filesystem::path& path, const char* sql) {
  sqlite3* database = nullptr;
  sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr);
  EXPECT_EQ(sqlite3_exec(database, sql, nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
}

struct SqliteViews : ::testing::Test {
  Directory directory;
  std::shared_ptr<Store> store = open_sqlite(directory / "app.db");
  std::unique_ptr<Session> session = store->open_session({.label = "import"});

  void ticket(const std::string& claims, const std::string& more = "") {
    const std::string json = R"({"session":")" + session->id() + R"(","claims":)" + claims +
                             R"(,"since":1700000000500000000)" + more + "}";
    store->apply(txn({}, {Write::append("\x01x", json)}));
  }
  std::string who(const std::string& view) {
    return rows(directory / "app.db", "SELECT path, mode, coalesce(\"limit\",'-') FROM " + view);
  }
};

TEST_F(SqliteViews, ListSessions) {
  EXPECT_EQ(rows(directory / "app.db", "SELECT session, pid, label FROM tenure_sessions"),
            session->id() + " " + std::to_string(::getpid()) + " import\n");
}

TEST_F(SqliteViews, TellWhoHoldsWhat) {
  ticket(R"([["book/3"]])", R"(,"owner":"job-7","deadline":1700000001000000000)");
  store->apply(txn({}, {Write::append("\x01x", R"({"session":"s","at":"x"})")}));
  EXPECT_EQ(
      rows(directory / "app.db",
           "SELECT path, mode, owner, pid, label, since, deadline, granted FROM tenure_tickets"),
      "book/3 exclusive job-7 " + std::to_string(::getpid()) +
          " import 2023-11-14T22:13:20.500Z 2023-11-14T22:13:21.000Z 1\n");
  EXPECT_EQ(rows(directory / "app.db",
                 "SELECT token = created FROM tenure_holders, entry "
                 "WHERE key >= x'01' AND key < x'02' AND CAST(value AS TEXT) LIKE '%claims%'"),
            "1\n");
}

TEST_F(SqliteViews, AncestorsAndChildrenConflict) {
  ticket(R"([["book/3/chapter/7"]])");
  ticket(R"([["book/3"]])");
  ticket(R"([["book/33"]])");
  EXPECT_EQ(who("tenure_holders"), "book/3/chapter/7 exclusive -\nbook/33 exclusive -\n");
  EXPECT_EQ(who("tenure_waiters"), "book/3 exclusive -\n");
}

TEST_F(SqliteViews, TheRootConflictsWithAll) {
  ticket(R"([["shelf","shared"]])");
  ticket(R"([["/"]])");
  ticket(R"([["shelf","shared"]])");
  ticket(R"([["other","shared"]])");
  EXPECT_EQ(who("tenure_holders"), "shelf shared -\n");
}

TEST_F(SqliteViews, GroupsShareAndExcludeEachOther) {
  ticket(R"([["shelf","shared"]])");
  ticket(R"([["shelf","shared"]])");
  ticket(R"([["shelf/a","pull"]])");
  ticket(R"([["shelf","shared"]])");
  EXPECT_EQ(who("tenure_waiters"), "shelf/a pull -\nshelf shared -\n");
}

TEST_F(SqliteViews, LimitsCountTheSamePath) {
  for (int i = 0; i < 3; ++i) ticket(R"([["vendor","permits",2]])");
  ticket(R"([["vendor/x","permits",2]])");
  EXPECT_EQ(who("tenure_waiters"), "vendor permits 2\n");
}

TEST_F(SqliteViews, WeightsAddUp) {
  ticket(R"([["vendor","permits",4,3]])");
  ticket(R"([["vendor","permits",4]])");
  ticket(R"([["vendor","permits",4]])");
  ticket(R"([["shelf"]])");
  EXPECT_EQ(rows(directory / "app.db",
                 "SELECT path, \"limit\", take, granted FROM tenure_tickets ORDER BY token"),
            "vendor 4 3 1\nvendor 4 1 1\nvendor 4 1 0\nshelf - - 1\n");
}

TEST_F(SqliteViews, AKeptClaimDoesNotWaitForItsLimit) {
  for (int i = 0; i < 3; ++i) ticket(R"([["vendor","permits",1]])", i == 1 ? R"(,"kept":[0])" : "");
  EXPECT_EQ(rows(directory / "app.db",
                 "SELECT path, \"limit\", granted FROM tenure_tickets ORDER BY token"),
            "vendor 1 1\nvendor 1 1\nvendor 1 0\n");
}

TEST_F(SqliteViews, AllClaimsOfATicketOrNone) {
  ticket(R"([["a"]])");
  ticket(R"([["b"],["a"]])");
  ticket(R"([["b","shared"]])");
  EXPECT_EQ(who("tenure_waiters"), "b exclusive -\na exclusive -\nb shared -\n");
}

TEST_F(SqliteViews, TellOnWhichKeyATicketHangs) {
  const std::string json = R"({"format":2,"anchor":["key","orders%2F7"],"by":")" + session->id() +
                           R"(","claims":[["book"]],"since":1700000000500000000})";
  store->apply(txn({}, {Write::append("\x01x", json)}));
  ticket(R"([["book"]])");
  EXPECT_EQ(rows(directory / "app.db",
                 "SELECT path, label, anchor, granted FROM tenure_tickets ORDER BY token"),
            "book import orders%2F7 1\nbook import - 0\n");
}

TEST_F(SqliteViews, OfAnEarlierVersionAreReplacedWhenTheStoreIsOpened) {
  session.reset();
  store.reset();
  const auto path = directory / "app.db";
  execute(path,
          "DROP VIEW tenure_holders; CREATE VIEW tenure_holders AS SELECT 'old' AS path;"
          "DELETE FROM tenure_meta WHERE name='views'");
  EXPECT_EQ(rows(path, "SELECT path FROM tenure_holders"), "old\n");
  store = open_sqlite(path);
  EXPECT_EQ(rows(path, "SELECT count(anchor) FROM tenure_holders"), "0\n");
}

TEST_F(SqliteViews, SurviveWhatIsNoJson) {
  put(*store,
      "\x01"
      "odd",
      "not json");
  put(*store,
      "\x03"
      "odd",
      std::string("\xff\x00", 2));
  ticket(R"([["a"]])");
  EXPECT_EQ(who("tenure_holders"), "a exclusive -\n");
}

}  // namespace
}  // namespace tenure::sqlite
