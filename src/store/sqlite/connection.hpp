// connection.hpp: one SQLite connection, and the statements that a store needs.
//
// Every call either does what it says or throws a DatabaseError that says what to do. Statements
// are always reset, so a failed one leaves no statement running.
//
// Thread safety: one thread at a time.
#pragma once

#include <sqlite3.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/common/sole_writer.hpp"
#include "store/sqlite/written_keys.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class DatabaseError : public StoreError {
 public:
  DatabaseError(const std::string& message, int code, bool outcome_unknown)
      : StoreError(message, outcome_unknown), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }  // SQLite's primary error code.

 private:
  int code_;
};

// The path of the database, and the SQLite file system (VFS) that accesses it.
struct DatabaseLocation {
  std::filesystem::path path;
  std::string vfs;  // Empty: SQLite's default.
};

class Connection {
 public:
  enum class Mode : std::uint8_t {
    identify,  // Reads the file without lock and log, and creates nothing.
    relaxed,   // A commit reaches the disk at the next checkpoint.
    full,      // A commit reaches the disk before it returns.
  };
  Connection(const DatabaseLocation& location, Mode mode);
  // Syncs the log, and with it the commits of all connections. Pages that have left the log were
  // synced by the checkpoint.
  void sync_log();
  // Only outside of a transaction. Neither from nor to `identify`.
  void use(Mode mode);

  // Sets a function that is called repeatedly while a call waits for a lock of another connection.
  void when_busy(std::function<void()> call) { when_busy_ = std::move(call); }

  // SQL with ?1, ?2, … bound to bytes or numbers. Returns the first column of the first row as
  // text.
  void execute(const char* sql);
  struct Value {
    std::string_view bytes;
    std::int64_t number = 0;
    enum class Kind : std::uint8_t { text, number } kind = Kind::text;
  };
  std::string ask(const char* sql, const std::vector<Value>& values = {});

  // Keeps 8 MB of the database in memory instead of 2: many transactions at once change pages all
  // over it.
  void keep_more_pages();

  // If the lock is taken, calls the when_busy() function, once for each wait.
  void begin_write();
  [[nodiscard]] bool try_begin_write();  // False: another connection is writing.
  void begin_read();
  void commit();
  void rollback() noexcept;  // No effect outside of a transaction.

  // The length of the log after the last commit of this connection.
  [[nodiscard]] int log_pages() const noexcept { return log_pages_; }
  // Moves as many pages of the log into the database as possible without waiting and without
  // disturbing readers. Returns how many pages at the beginning of the log have been moved by then.
  // A failed checkpoint is left to the next one.
  int checkpoint() noexcept;

  [[nodiscard]] bool holds(const Guard& guard);
  // `before`: as Range::before. The caller has replaced this_apply.
  [[nodiscard]] std::vector<Entry> read(const Range& range, Revision before);
  void put(std::string_view key, std::string_view value, Revision revision);
  // For a key that should be new: cheaper than put(), and does the same if the key exists.
  void insert(std::string_view key, std::string_view value, Revision revision);
  // False: the key exists; nothing has changed.
  [[nodiscard]] bool try_insert(std::string_view key, std::string_view value, Revision revision);
  void remove(std::string_view key);
  // Several keys in one statement: cheaper than one by one.
  struct Insert {
    std::string_view key;
    std::string_view value;
    Revision revision;
  };
  static constexpr std::size_t joined = 8;
  // False: one of the keys exists. Others may have been inserted: roll back.
  [[nodiscard]] bool try_insert_joined(std::span<const Insert, joined> rows);

  [[nodiscard]] sqlite3* raw() const noexcept { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;
  class Run;

  // Statements are prepared when first used. Those of ranges depend on the options of the range;
  // see read().
  enum Which : std::uint8_t {
    begin_immediate,
    begin,
    end,
    find,
    quiet,
    quiet_to,
    upsert,
    add,
    erase,
    add_joined,
    first_range,
  };
  static constexpr std::size_t range_kinds = 4;
  [[nodiscard]] sqlite3_stmt* statement(std::size_t which);
  [[nodiscard]] Statement prepare(const char* sql, bool persistent);
  [[noreturn]] void fail(int code, std::string_view doing);

  // Before and after a write transaction: what this connection knows from the last one.
  void recall() noexcept;
  void wrote(std::string_view key, Revision revision);
  [[nodiscard]] std::uint32_t version() const noexcept;

  static int on_busy(void* self, int times) noexcept;
  static int on_commit(void* self, sqlite3* database, const char* name, int pages) noexcept;

  DatabaseLocation location_;
  std::function<void()> when_busy_;
  Mode mode_ = Mode::identify;
  bool patient_ = true;
  bool writing_ = false;
  bool keeps_more_ = false;
  int log_pages_ = 0;
  std::uint32_t version_ = 0;  // After the last write transaction of this connection.
  // Valid in write transactions, as long as no other connection of any process has written.
  stores::KnownEntries known_;
  WrittenKeys written_;  // By this transaction.
  std::unique_ptr<sqlite3, Close> database_;
  std::array<Statement, first_range + range_kinds> statements_;
};

}  // namespace tenure::sqlite
