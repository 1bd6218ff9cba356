// Files that are not what they should be, and a full disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "store/sqlite/sqlite_store.hpp"
#include "tests/museum/museum.hpp"
#include "tests/museum/witness.hpp"

namespace tenure::museum {
namespace {

const Path book = Path::of("book");

std::string bytes(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// Beside a valid database, another program left a file with the name of ours. Tenure must not lock
// by it, and must leave it unchanged.
TEST(Museum, M26_AHalfWrittenOrForeignSideFileIsRefused) {
  const File file;
  {
    EXPECT_TRUE(open(file.url()).lock(book).release());
  }
  const std::filesystem::path side = file.beside("museum.db-tenure");
  // The store is closed.
  until([&] { return !std::filesystem::exists(file.beside("museum.db-wal")); });
  const std::string good = bytes(side);
  const std::string database = bytes(file.path());
  std::string other_magic = good;
  other_magic[0] = 'T';
  std::string other_version = good;
  other_version[8] = 99;
  for (const std::string& bad :
       {good.substr(0, good.size() / 2), good.substr(0, 10), std::string{"{}"}, good + "more",
        std::string(good.size(), '\xff'), other_magic, other_version}) {
    std::ofstream{side, std::ios::binary} << bad;
    try {
      static_cast<void>(open(file.url()));
      ADD_FAILURE() << "opened with a side file of " << bad.size() << " bytes";
    } catch (const StoreError& error) {
      EXPECT_NE(std::string{error.what()}.find(side.string() + "' is not a file of this version"),
                std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(bytes(side) == bad) << "touched";
    EXPECT_TRUE(bytes(file.path()) == database) << "touched";
  }
  std::ofstream{side, std::ios::binary} << good;
  EXPECT_TRUE(open(file.url()).try_lock(book).has_value());
}

// A write that fails releases what it had locked: the gate of the writers, and SQLite's own lock.
// Neither other processes nor the next write of this process are blocked.
TEST(Museum, S18_AWriteThatFailsLeavesNothingLocked) {
  const File file;
  const Process other{lock_client(file.url())};
  ASSERT_EQ(other.ask("lock film"), "holds");
  sqlite::SqliteOptions full;
  full.alone = true;
  full.max_pages = 64;
  const std::shared_ptr<Store> files = sqlite::open_sqlite(file.path(), full);
  Space space = open(files);
  Txn large;
  large.writes.push_back(Write::put("large", std::string(1'000'000, 'x')));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(files->apply(large), StoreError);
    EXPECT_EQ(other.ask("try book"), "holds");
    EXPECT_EQ(other.ask("release"), "yes");
    EXPECT_TRUE(space.lock(book).release());
  }
  const std::string label(1'000'000, 'x');
  EXPECT_THROW(static_cast<void>(space.as("me").label(label).lock(book)), StoreError);
  EXPECT_TRUE(space.inspect(book).empty());
  EXPECT_EQ(other.ask("try book"), "holds");
}

}  // namespace
}  // namespace tenure::museum
