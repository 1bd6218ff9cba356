// connection.hpp: one SQLite connection, and the few statements that a store is made of.
//
// Every call either does what it says or throws a DatabaseError that says what to do; a statement
// is always reset, so a failed one leaves nothing running.
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
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/common/sole_writer.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class DatabaseError : public StoreError {
 public:
  DatabaseError(const std::string& message, int code, bool outcome_unknown)
      : StoreError(message, outcome_unknown), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }  // SQLite's, without its extension.

 private:
  int code_;
};

// Where the database is, and through which of SQLite's file systems it is reached.
struct DatabaseLocation {
  std::filesystem::path path;
  std::string vfs;  // Empty: the default one.
};

class Connection {
 public:
  enum class Mode : std::uint8_t {
    identify,  // Reads the file as it lies there: no lock, no log, nothing is made.
    relaxed,   // A commit reaches the disk at the next checkpoint,
    full,      // or before it returns.
  };
  Connection(const DatabaseLocation& location, Mode mode);
  // Of all connections, this one's or not. What is no longer in the log was synced before.
  void sync_log();
  // Outside of transactions; not from or to `identify`.
  void use(Mode mode);

  // Called again and again while a lock that somebody else has is waited for.
  void when_busy(std::function<void()> call) { when_busy_ = std::move(call); }

  // SQL with ?1, ?2, … bound to bytes or numbers; the first column of the first row, as text.
  void execute(const char* sql);
  struct Value {
    std::string_view bytes;
    std::int64_t number = 0;
    enum class Kind : std::uint8_t { text, number } kind = Kind::text;
  };
  std::string ask(const char* sql, const std::vector<Value>& values = {});

  // Other processes are told once that this one waits too long for a lock.
  void begin_write();
  [[nodiscard]] bool try_begin_write();  // False: somebody writes.
  void begin_read();
  void commit();
  void rollback() noexcept;  // Nothing happens when nothing was begun.

  // How long this connection's last commit left the log.
  [[nodiscard]] int log_pages() const noexcept { return log_pages_; }
  // Moves as much of the log into the database as nobody reads there any more, and can be moved
  // without waiting; how many pages of it have been moved then. What fails is for the next one.
  int checkpoint() noexcept;

  [[nodiscard]] bool holds(const Guard& guard);
  // `before`: as Range::before, but for this_apply, which is the caller's to replace.
  [[nodiscard]] std::vector<Entry> read(const Range& range, Revision before);
  void put(std::string_view key, std::string_view value, Revision revision);
  // The key is new: a shorter way than put, and the same where it was not.
  void insert(std::string_view key, std::string_view value, Revision revision);
  void remove(std::string_view key);

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

  // Prepared when first used. The ranges' are made of their options, see read().
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
    first_range,
  };
  static constexpr std::size_t range_kinds = 4;
  [[nodiscard]] sqlite3_stmt* statement(std::size_t which);
  [[nodiscard]] Statement prepare(const char* sql, bool persistent);
  [[noreturn]] void fail(int code, std::string_view doing);

  // Around a write transaction: what is known of before, and for the next one.
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
  int log_pages_ = 0;
  std::uint32_t version_ = 0;  // As this connection's last write transaction left it.
  // For write transactions only, while no other connection, of whatever process, has written.
  stores::KnownEntries known_;
  // By this transaction, and not removed since. Ordered: a batch writes hundreds of keys.
  std::set<std::string, std::less<>> written_;
  std::unique_ptr<sqlite3, Close> database_;
  std::array<Statement, first_range + range_kinds> statements_;
};

}  // namespace tenure::sqlite
