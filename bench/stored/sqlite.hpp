// sqlite.hpp: bare SQLite, as one would write it by hand: WAL, synchronous=NORMAL, prepared
// statements. The minimum for a space is measured with it.
//
// Thread safety: none. Must not be used across a fork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace tenure::bench::stored {

class Statement {
 public:
  Statement(sqlite3* database, std::string_view text);
  Statement& bind(int place, std::string_view value);  // The value must outlive run().
  Statement& bind(int place, std::int64_t value);
  // The first column of the first row, 0 if there is none; reads all rows.
  std::int64_t run();

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  explicit Database(const std::filesystem::path& file);
  [[nodiscard]] sqlite3* get() const noexcept { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// A table of tickets, and the minimum that is written and read in it. Waits for other processes
// with SQLite's busy handler.
class Tickets {
 public:
  explicit Tickets(const std::filesystem::path& file);
  void insert(std::string_view path);  // One write transaction each.
  void remove(std::string_view path);
  [[nodiscard]] bool has(std::string_view path);  // One read transaction.

 private:
  void write(Statement& statement, std::string_view path);

  Database database_;
  Statement begin_;
  Statement commit_;
  Statement insert_;
  Statement remove_;
  Statement read_;
};

// Alternates between all contestants that write such rows.
inline constexpr std::uint64_t durable_rows = 4096;

// One row in one synced transaction.
class SyncedRows {
 public:
  explicit SyncedRows(const std::filesystem::path& file);
  void put();
  [[nodiscard]] double put_ns(std::size_t count);  // Nanoseconds of each.

 private:
  Database database_;
  Statement put_;
  const std::string value_ = std::string(150, 'x');
  std::uint64_t next_ = 0;
};

// A lock as it is often written: a row in a queue, polled every 100 ms.
class PollingQueue {
 public:
  explicit PollingQueue(const std::filesystem::path& file);
  void lock();
  void unlock();

 private:
  Database database_;
  Statement insert_;
  Statement first_;
  Statement remove_;
  std::int64_t ticket_ = 0;
};

}  // namespace tenure::bench::stored
