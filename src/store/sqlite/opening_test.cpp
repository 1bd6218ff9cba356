#include "store/sqlite/opening.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "store/sqlite/sqlite_test.hpp"
#include "store/sqlite/views.hpp"

namespace tenure::sqlite {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}

void run_sql(const fs::path& path, const std::string& sql) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
}

// Opening is refused with a message that contains these words, and every file is unchanged.
void expect_refused(const Directory& directory, const fs::path& path, const std::string& words,
                    const SqliteOptions& options = {}) {
  const auto before = directory.contents();
  const std::string said = refusal(path, options);
  EXPECT_NE(said.find(words), std::string::npos) << said;
  EXPECT_EQ(directory.contents(), before);
}

TEST(SqliteOpening, MakesAPrivateFileWhateverTheUmask) {
  const Directory directory;
  const mode_t old = ::umask(0);
  std::ignore = open_sqlite(directory / "app.db");
  ::umask(0777);
  std::ignore = open_sqlite(directory / "other.db");
  ::umask(old);
  for (const char* name : {"app.db", "app.db-tenure", "other.db", "other.db-tenure"}) {
    struct stat status{};
    ASSERT_EQ(::stat((directory / name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777U, 0600U) << name;
  }
}

TEST(SqliteOpening, AddsTheLogToASideFileWithoutOne) {
  const Directory directory;
  const fs::path side = directory / "app.db-tenure";
  Revision last;
  {
    const auto store = open_sqlite(directory / "app.db");
    last = put(*store, "a", "1");
  }
  fs::resize_file(side, offsetof(Shared, log));
  {
    std::fstream file{side, std::ios::binary | std::ios::in | std::ios::out};
    file.seekp(offsetof(Header, version));
    file.put(1);
  }
  const auto store = open_sqlite(directory / "app.db");
  EXPECT_EQ(fs::file_size(side), sizeof(Shared));
  EXPECT_EQ(value_of(*store, "a"), "1");
  WatchFor what;
  what.ranges.push_back(Range::prefix("a"));
  what.after = last;
  conformance::Bell bell;
  const auto watch = store->watch(what, bell.notice());
  EXPECT_GT(put(*store, "a", "2"), last);
  bell.wait();
}

TEST(SqliteOpening, TakesAnEmptyFileAsItIs) {
  const Directory directory;
  write_file(directory / "app.db", "");
  ::chmod((directory / "app.db").c_str(), 0640);
  put(*open_sqlite(directory / "app.db"), "a");
  struct stat status{};
  ::stat((directory / "app.db-tenure").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777U, 0640U);
}

TEST(SqliteOpening, RefusesADirectoryThatIsNotThere) {
  const Directory directory;
  expect_refused(directory, directory / "none" / "app.db", "create that directory first");
}

TEST(SqliteOpening, RefusesWhatIsNoFile) {
  const Directory directory;
  fs::create_directory(directory / "app.db");
  expect_refused(directory, directory / "app.db", "is a directory");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  expect_refused(directory, directory / "pipe", "not a regular file");
  fs::create_symlink(directory / "gone", directory / "link");
  EXPECT_NE(refusal(directory / "link").find("symbolic link to a missing file"), std::string::npos);
  EXPECT_NE(refusal("").find("needs a path"), std::string::npos);
}

TEST(SqliteOpening, FollowsALinkToTheSameStore) {
  const Directory directory;
  const auto store = open_sqlite(directory / "app.db");
  fs::create_symlink(directory / "app.db", directory / "link");
  EXPECT_EQ(open_sqlite(directory / "link"), store);
  EXPECT_EQ(open_sqlite(directory / "link", alone())->facts()[1].value,
            (directory / "app.db").string());
}

TEST(SqliteOpening, RefusesWhatCantBeWritten) {
  const Directory directory;
  std::ignore = open_sqlite(directory / "app.db");
  fs::create_directory(directory / "closed");
  ::chmod(directory.path().c_str(), 0755);
  ::chmod((directory / "closed").c_str(), 0555);
  const auto before = directory.contents();
  Children children;
  children.start(1, [&](std::size_t) {
    // Root may do everything.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
    ::chmod((directory / "app.db").c_str(), 0400);
    if (refusal(directory / "app.db").find("can't be read and written") == std::string::npos) {
      return 2;
    }
    const std::string said = refusal(directory / "closed" / "app.db");
    return said.find("use another directory") == std::string::npos ? 3 : 0;
  });
  EXPECT_EQ(children.exit_statuses(), std::vector{0});
  EXPECT_EQ(directory.contents(), before);
}

TEST(SqliteOpening, RefusesAHardLink) {
  const Directory directory;
  std::ignore = open_sqlite(directory / "app.db");
  fs::create_hard_link(directory / "app.db", directory / "second.db");
  expect_refused(directory, directory / "app.db", "2 hard links");
}

TEST(SqliteOpening, RefusesAMountPoint) {
  const Directory directory;
  std::ignore = open_sqlite(directory / "app.db");
  const std::string path = (directory / "app.db").string();
  if (::mount(path.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "may not mount";
  }
  const std::string said = refusal(path);
  ::umount2(path.c_str(), MNT_DETACH);
  EXPECT_NE(said.find("is a mount point"), std::string::npos) << said;
}

TEST(SqliteOpening, RefusesNetworkFileSystems) {
  const Directory directory;
  SqliteOptions options = alone();
  for (const std::uint64_t type : {0x6969U, 0xff534d42U, 0x65735546U, 0x01021997U}) {
    options.file_system = [type](const std::string&) { return type; };
    expect_refused(directory, directory / "app.db", "use a local disk", options);
  }
}

TEST(SqliteOpening, RefusesForeignFiles) {
  const Directory directory;
  write_file(directory / "notes.txt", "Dear diary, this is longer than a header of SQLite's is.\n");
  expect_refused(directory, directory / "notes.txt", "is not a SQLite database");
  run_sql(directory / "theirs.db", "CREATE TABLE t(a)");
  expect_refused(directory, directory / "theirs.db", "is a SQLite database of another program");
}

TEST(SqliteOpening, RefusesAnotherVersion) {
  const Directory directory;
  std::ignore = open_sqlite(directory / "app.db");
  run_sql(directory / "app.db", "PRAGMA user_version=7; PRAGMA wal_checkpoint(TRUNCATE)");
  expect_refused(directory, directory / "app.db",
                 "schema version 7, but this program supports version 2");
}

TEST(SqliteOpening, SaysWhenTheFileIsDamaged) {
  const Directory directory;
  {
    const auto store = open_sqlite(directory / "app.db");
    for (int i = 0; i < 200; ++i) put(*store, "key" + std::to_string(i), std::string(200, 'x'));
  }
  {
    std::fstream file{directory / "app.db", std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(4096);
    file << std::string(8 * 4096, '\x5a');
  }
  try {
    const auto store = open_sqlite(directory / "app.db");
    std::ignore = read(*store, Range::prefix("key"));
    FAIL() << "not noticed";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string{error.what()}.find("is damaged"), std::string::npos) << error.what();
  }
}

TEST(SqliteOpening, RefusesASideFileOfSomeoneElse) {
  const Directory directory;
  write_file(directory / "target", "");
  fs::create_symlink(directory / "target", directory / "app.db-tenure");
  EXPECT_NE(refusal(directory / "app.db").find("is a symbolic link"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory / "app.db"));
  if (::geteuid() != 0) return;
  std::ignore = open_sqlite(directory / "other.db");
  ASSERT_EQ(::chown((directory / "other.db-tenure").c_str(), 12345, 12345), 0);
  expect_refused(directory, directory / "other.db", "belongs to user 12345");
}

TEST(SqliteOpening, LeavesNothingWhereItFails) {
  const Directory directory;
  SqliteOptions options = alone();
  options.vfs = "no such file system";
  const std::string said = refusal(directory / "app.db", options);
  EXPECT_NE(said, "opened");
  EXPECT_TRUE(directory.contents().empty()) << said;
}

TEST(SqliteOpening, IsMadeOnceByManyProcesses) {
  for (int round = 0; round < 5; ++round) {
    const Directory directory;
    Children children;
    children.start(8, [&](std::size_t index) {
      const auto store = open_sqlite(directory / "app.db");
      for (int i = 0; i < 10; ++i) store->apply(txn({}, {Write::append("n", "")}));
      return store->facts()[0].value == "sqlite" && index < 8 ? 0 : 1;
    });
    EXPECT_EQ(children.exit_statuses(), std::vector<int>(8, 0));
    EXPECT_EQ(read(*open_sqlite(directory / "app.db"), Range::prefix("n")).size(), 80U);
  }
}

}  // namespace
}  // namespace tenure::sqlite
