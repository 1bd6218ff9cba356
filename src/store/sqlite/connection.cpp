#include "store/sqlite/connection.hpp"

#include <cerrno>
#include <ctime>
#include <string>
#include <tuple>

#include "store/sqlite/file_system.hpp"

namespace tenure::sqlite {
namespace {

// Our own writers queue at the gate. So this is how long to wait for other programs, or for a
// process that is being killed.
constexpr int patience_ms = 10'000;
constexpr int quick_looks = 50;
constexpr unsigned kind_bounded = 1;
constexpr unsigned kind_reverse = 2;

std::string range_sql(unsigned kind) {
  std::string sql = "SELECT key,value,created,changed FROM entry WHERE key>=?1";
  if ((kind & kind_bounded) != 0) sql += " AND key<?2";
  return sql + ((kind & kind_reverse) != 0 ? " ORDER BY key DESC" : " ORDER BY key");
}

std::string joined_sql() {
  std::string sql = "INSERT OR IGNORE INTO entry VALUES";
  for (std::size_t row = 0; row < Connection::joined; ++row) {
    const std::string revision = "?" + std::to_string((3 * row) + 3);
    sql.append(row == 0 ? "(?" : ",(?").append(std::to_string((3 * row) + 1));
    sql.append(",?").append(std::to_string((3 * row) + 2));
    sql.append(",").append(revision).append(",").append(revision).append(")");
  }
  return sql;
}

std::string sql_of(std::size_t which, std::size_t first_range) {
  static constexpr std::array<const char*, 9> fixed = {
      "BEGIN IMMEDIATE",
      "BEGIN",
      "COMMIT",
      "SELECT changed FROM entry WHERE key=?1",
      "SELECT 1 FROM entry WHERE key>=?1 AND changed>?3 LIMIT 1",
      "SELECT 1 FROM entry WHERE key>=?1 AND key<?2 AND changed>?3 LIMIT 1",
      "INSERT INTO entry VALUES(?1,?2,?3,?3) ON CONFLICT(key) DO UPDATE SET "
      "value=excluded.value,changed=excluded.changed",
      "INSERT INTO entry VALUES(?1,?2,?3,?3)",
      "DELETE FROM entry WHERE key=?1",
  };
  if (which < fixed.size()) return fixed.at(which);
  if (which < first_range) return joined_sql();
  return range_sql(static_cast<unsigned>(which - first_range));
}

// Valid until the next step of the statement.
std::string_view bytes_column(sqlite3_stmt* statement, int column) {
  const void* const bytes = sqlite3_column_blob(statement, column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
  return size == 0 ? std::string_view{} : std::string_view{static_cast<const char*>(bytes), size};
}

std::string text_column(sqlite3_stmt* statement, int column) {
  return std::string{bytes_column(statement, column)};
}

Revision revision_column(sqlite3_stmt* statement, int column) {
  return {static_cast<std::uint64_t>(sqlite3_column_int64(statement, column))};
}

// The path as a URI.
std::string uri(const DatabaseLocation& location, Connection::Mode mode) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "file:";
  for (const char c : location.path.string()) {
    const unsigned byte = static_cast<unsigned char>(c);
    const bool plain = (byte | 0x20U) - 'a' < 26U || byte - '0' < 10U || c == '/' || c == '.' ||
                       c == '-' || c == '_';
    if (plain) {
      text += c;
    } else {
      text += {'%', digits[byte >> 4U], digits[byte & 15U]};
    }
  }
  return text + (mode == Connection::Mode::identify ? "?mode=ro&immutable=1" : "?mode=rw");
}

bool no_space(int code, int system_error) {
  return code == SQLITE_FULL ||
         (code == SQLITE_IOERR &&
          (system_error == ENOSPC || system_error == EDQUOT || system_error == EFBIG));
}

std::string advice(int code, int system_error, const std::string& path, const std::string& said) {
  if (no_space(code, system_error)) {
    return "no space left on the disk of '" + path + "': free some space; nothing was written";
  }
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "'" + path +
             "' is locked by another program (an sqlite3 shell in a transaction, a backup, a "
             "stopped process): end that program and retry; nothing was written";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "'" + path + "' is damaged (" + said +
             "): stop all programs that use it, then restore a backup, or save what `sqlite3 " +
             path + " .recover` can read";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "'" + path + "' can't be written (" + said +
             "): check the permissions of the file and its directory";
    case SQLITE_CANTOPEN:
      return "'" + path + "' can't be opened (" + said +
             "): check that it exists, its permissions, and the limit on open files";
    case SQLITE_TOOBIG:
      return "a key or value is too large for '" + path + "': make it smaller; nothing was written";
    case SQLITE_NOMEM: return "out of memory while using '" + path + "'";
    default: return "SQLite failed on '" + path + "': " + said;
  }
}

}  // namespace

// Binds and steps a prepared statement, and resets it at the end of the scope.
class Connection::Run {
 public:
  Run(Connection& connection, std::size_t which)
      : connection_(connection), statement_(connection.statement(which)) {}
  ~Run() { sqlite3_reset(statement_); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The bytes must live until the end of the scope. The pointer is never null: SQLite would bind
  // NULL instead of an empty key.
  Run& bytes(int index, std::string_view bytes) {
    const char* const at = bytes.data() == nullptr ? "" : bytes.data();
    const int code = sqlite3_bind_blob64(statement_, index, at, bytes.size(), SQLITE_STATIC);
    if (code != SQLITE_OK) connection_.fail(code, "bind");
    return *this;
  }
  Run& number(int index, std::int64_t number) {
    sqlite3_bind_int64(statement_, index, number);
    return *this;
  }
  Run& revision(int index, Revision revision) {
    return number(index, static_cast<std::int64_t>(revision.value));
  }
  // Returns whether there is a row.
  bool step(std::string_view doing) {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) connection_.fail(code, doing);
    return false;
  }
  // False: the key exists already.
  bool insert() {
    const int code = sqlite3_step(statement_);
    if ((code & 0xff) == SQLITE_CONSTRAINT) return false;
    if (code != SQLITE_DONE) connection_.fail(code, "write");
    return true;
  }
  [[nodiscard]] sqlite3_stmt* get() const noexcept { return statement_; }

 private:
  Connection& connection_;
  sqlite3_stmt* statement_;
};

Connection::Connection(const DatabaseLocation& location, Mode mode) : location_(location) {
  sqlite3* database = nullptr;
  const int access = mode == Mode::identify ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  const int code = sqlite3_open_v2(uri(location, mode).c_str(), &database,
                                   access | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                                       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                                   location.vfs.empty() ? nullptr : location.vfs.c_str());
  database_.reset(database);
  if (code != SQLITE_OK) fail(code, "open");
  sqlite3_busy_handler(database, &on_busy, this);
  sqlite3_wal_hook(database, &on_commit, this);  // Replaces SQLite's automatic checkpoints.
  if (mode != Mode::identify) use(mode);
}

void Connection::use(Mode mode) {
  if (mode == mode_) return;
  execute(mode == Mode::full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  mode_ = mode;
}

void Connection::keep_more_pages() {
  if (std::exchange(keeps_more_, true)) return;
  execute("PRAGMA cache_size=-8192");
}

Connection::Statement Connection::prepare(const char* sql, bool persistent) {
  sqlite3_stmt* made = nullptr;
  const int code = sqlite3_prepare_v3(database_.get(), sql, -1,
                                      persistent ? SQLITE_PREPARE_PERSISTENT : 0, &made, nullptr);
  if (code != SQLITE_OK) fail(code, "prepare");
  return Statement{made};
}

sqlite3_stmt* Connection::statement(std::size_t which) {
  Statement& cached = statements_.at(which);
  if (!cached) cached = prepare(sql_of(which, first_range).c_str(), true);
  return cached.get();
}

void Connection::execute(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code, "execute");
}

std::string Connection::ask(const char* sql, const std::vector<Value>& values) {
  const Statement statement = prepare(sql, false);
  int index = 0;
  for (const Value& value : values) {
    ++index;
    if (value.kind == Value::Kind::number) {
      sqlite3_bind_int64(statement.get(), index, value.number);
    } else {
      sqlite3_bind_text(statement.get(), index, value.bytes.data(),
                        static_cast<int>(value.bytes.size()), SQLITE_STATIC);
    }
  }
  std::string answer;
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_ROW) {
    answer = text_column(statement.get(), 0);
  } else if (code != SQLITE_DONE) {
    fail(code, "ask");
  }
  return answer;
}

// The lock is held by a process that did not queue at the gate: a writer that began before there
// was a crowd, which takes microseconds, or another program.
int Connection::on_busy(void* self, int times) noexcept {
  const Connection& connection = *static_cast<Connection*>(self);
  if (!connection.patient_ || times >= patience_ms + quick_looks) return 0;
  if (connection.when_busy_) connection.when_busy_();
  const timespec nap{.tv_sec = 0, .tv_nsec = times < quick_looks ? 20'000 : 1'000'000};
  ::nanosleep(&nap, nullptr);
  return 1;
}

int Connection::on_commit(void* self, sqlite3* /*database*/, const char* /*name*/,
                          int pages) noexcept {
  static_cast<Connection*>(self)->log_pages_ = pages;
  return SQLITE_OK;
}

int Connection::checkpoint() noexcept {
  int pages = 0;
  int moved = 0;
  const int code = sqlite3_wal_checkpoint_v2(database_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             &pages, &moved);
  return code == SQLITE_OK ? moved : 0;
}

void Connection::sync_log() {
  // SQLite opens the log at the first read of a connection.
  std::ignore = ask("SELECT 1 FROM entry LIMIT 1");
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database_.get(), nullptr, SQLITE_FCNTL_JOURNAL_POINTER,
                       static_cast<void*>(&log));
  if (log == nullptr || log->pMethods == nullptr) return;
  const int code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (code != SQLITE_OK) fail(code, "sync");
}

bool Connection::try_begin_write() {
  patient_ = false;
  const int code = sqlite3_step(statement(begin_immediate));
  sqlite3_reset(statement(begin_immediate));
  patient_ = true;
  if ((code & 0xff) == SQLITE_BUSY) return false;
  if (code != SQLITE_DONE) fail(code, "begin");
  recall();
  return true;
}

void Connection::begin_write() {
  Run{*this, begin_immediate}.step("begin");
  recall();
}

void Connection::recall() noexcept {
  writing_ = true;
  if (version() != version_) known_.clear();
  written_.clear();
}

// SQLite's data version. It changes when this connection commits, and when a transaction here first
// sees the commit of another connection.
std::uint32_t Connection::version() const noexcept {
  std::uint32_t version = 0;
  sqlite3_file_control(database_.get(), nullptr, SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

void Connection::begin_read() { Run{*this, begin}.step("begin"); }

void Connection::commit() {
  const bool gathers = writing_ && mode_ == Mode::full;
  if (gathers) gather_frames(database_.get());
  try {
    Run{*this, end}.step("commit");
  } catch (...) {
    if (gathers) std::ignore = end_frames(database_.get(), false);
    throw;
  }
  if (gathers) {
    // The sync has written all of them.
    if (const int code = end_frames(database_.get(), true); code != SQLITE_OK) fail(code, "commit");
  }
  if (writing_) version_ = version();
  writing_ = false;
}

void Connection::rollback() noexcept {
  if (writing_) known_.clear();
  writing_ = false;
  if (sqlite3_get_autocommit(database_.get()) != 0) return;
  sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

bool Connection::holds(const Guard& guard) {
  if (guard.kind == Guard::Kind::quiet) {
    Run run{*this, guard.range.to.empty() ? quiet : quiet_to};
    run.bytes(1, guard.range.from).revision(3, guard.revision);
    if (!guard.range.to.empty()) run.bytes(2, guard.range.to);
    return !run.step("read");
  }
  if (guard.kind == Guard::Kind::present && writing_ && known_.present(guard.range.from)) {
    return true;
  }
  if (guard.kind == Guard::Kind::unchanged && writing_ &&
      known_.unchanged(guard.range.from, guard.revision)) {
    return true;
  }
  Run run{*this, find};
  const bool found = run.bytes(1, guard.range.from).step("read");
  if (found && writing_) known_.saw(guard.range.from, revision_column(run.get(), 0));
  switch (guard.kind) {
    case Guard::Kind::absent: return !found;
    case Guard::Kind::present: return found;
    default: return found && revision_column(run.get(), 0) == guard.revision;
  }
}

// `before`, skip and limit are applied here and not by SQLite: this process knows a range to be
// empty only if the scan saw all of it, including the entries that `before` excludes.
std::vector<Entry> Connection::read(const Range& range, Revision before) {
  if (writing_ && known_.empty(range, before)) return {};
  const unsigned kind = (range.to.empty() ? 0 : kind_bounded) | (range.reverse ? kind_reverse : 0);
  Run run{*this, first_range + kind};
  run.bytes(1, range.from);
  if (!range.to.empty()) run.bytes(2, range.to);
  std::vector<Entry> entries;
  std::uint32_t skip = range.skip;
  bool nothing = writing_;  // The scan found only entries that this transaction wrote.
  while (run.step("read")) {
    const std::string_view key = bytes_column(run.get(), 0);
    if (before != Revision{} && stamp_of(key) >= before) {
      nothing = nothing && written_.keys().contains(key);
      continue;
    }
    nothing = false;
    if (skip > 0) {
      --skip;
      continue;
    }
    entries.push_back({std::string{key}, text_column(run.get(), 1), revision_column(run.get(), 2),
                       revision_column(run.get(), 3)});
    if (range.limit != 0 && entries.size() == range.limit) break;
  }
  if (nothing) {
    known_.saw_nothing(range);
    const WrittenKeys::Keys& written = written_.keys();
    auto at = written.lower_bound(range.from);
    for (; at != written.end() && range.holds(*at); ++at) known_.keep_own(*at);
  }
  return entries;
}

void Connection::put(std::string_view key, std::string_view value, Revision revision) {
  Run{*this, upsert}.bytes(1, key).bytes(2, value).revision(3, revision).step("write");
  wrote(key, revision);
}

bool Connection::try_insert(std::string_view key, std::string_view value, Revision revision) {
  if (!Run{*this, add}.bytes(1, key).bytes(2, value).revision(3, revision).insert()) return false;
  wrote(key, revision);
  return true;
}

bool Connection::try_insert_joined(std::span<const Insert, joined> rows) {
  {
    Run run{*this, add_joined};
    int parameter = 0;
    for (const Insert& row : rows) {
      run.bytes(parameter + 1, row.key).bytes(parameter + 2, row.value);
      run.revision(parameter + 3, row.revision);
      parameter += 3;
    }
    run.step("write");
  }
  if (sqlite3_changes(database_.get()) != static_cast<int>(joined)) return false;
  for (const Insert& row : rows) wrote(row.key, row.revision);
  return true;
}

void Connection::insert(std::string_view key, std::string_view value, Revision revision) {
  if (!try_insert(key, value, revision)) put(key, value, revision);
}

void Connection::remove(std::string_view key) {
  Run{*this, erase}.bytes(1, key).step("write");
  known_.remove(key);
  written_.remove(key);
}

void Connection::wrote(std::string_view key, Revision revision) {
  known_.put(key, revision);
  written_.put(key);
}

void Connection::fail(int code, std::string_view doing) {
  const int system_error = database_ ? sqlite3_system_errno(database_.get()) : 0;
  const std::string said =
      database_ ? sqlite3_errmsg(database_.get()) : std::string{sqlite3_errstr(code)};
  const int primary = code & 0xff;
  // After an I/O error in COMMIT the transaction may or may not survive a crash.
  const bool unknown =
      doing == "commit" && primary == SQLITE_IOERR && !no_space(primary, system_error);
  throw DatabaseError(advice(primary, system_error, location_.path.string(), said), primary,
                      unknown);
}

}  // namespace tenure::sqlite
