#include "bench/stored/sqlite.hpp"

#include <sqlite3.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace tenure::bench::stored {
namespace {

constexpr int busy_timeout_ms = 60'000;
constexpr std::chrono::milliseconds poll_interval{100};
constexpr std::int64_t ticket = 1;

std::runtime_error failed(sqlite3* database) {
  return std::runtime_error(std::string{"SQLite: "} + sqlite3_errmsg(database));
}

void execute(sqlite3* database, const char* text) {
  if (sqlite3_exec(database, text, nullptr, nullptr, nullptr) != SQLITE_OK) throw failed(database);
}

const Database& with_tickets(const Database& database) {
  execute(database.get(),
          "CREATE TABLE IF NOT EXISTS tickets(path BLOB, ticket INTEGER, value BLOB, "
          "PRIMARY KEY(path, ticket)) WITHOUT ROWID");
  return database;
}

const Database& with_queue(const Database& database) {
  execute(database.get(), "CREATE TABLE IF NOT EXISTS queue(id INTEGER PRIMARY KEY AUTOINCREMENT)");
  return database;
}

const Database& with_synced_rows(const Database& database) {
  execute(database.get(), "PRAGMA synchronous=FULL");
  execute(database.get(), "CREATE TABLE row(key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID");
  return database;
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  sqlite3_finalize(statement);
}

Statement::Statement(sqlite3* database, std::string_view text) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v3(database, text.data(), static_cast<int>(text.size()),
                                        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (result != SQLITE_OK) throw failed(database);
  statement_.reset(statement);
}

Statement& Statement::bind(int place, std::string_view value) {
  sqlite3_bind_blob(statement_.get(), place, value.data(), static_cast<int>(value.size()),
                    SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind(int place, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), place, value);
  return *this;
}

std::int64_t Statement::run() {
  std::int64_t first = 0;
  int result = SQLITE_ROW;
  for (bool row = true; row;) {
    result = sqlite3_step(statement_.get());
    row = result == SQLITE_ROW;
    if (row) first = sqlite3_column_int64(statement_.get(), 0);
  }
  sqlite3_reset(statement_.get());
  if (result != SQLITE_DONE) throw failed(sqlite3_db_handle(statement_.get()));
  return first;
}

void Database::Close::operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }

Database::Database(const std::filesystem::path& file) {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(file.c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (result != SQLITE_OK) throw failed(database);
  sqlite3_busy_timeout(database, busy_timeout_ms);
  execute(database, "PRAGMA page_size=1024; PRAGMA journal_mode=WAL");
  execute(database, "PRAGMA synchronous=NORMAL");
}

Tickets::Tickets(const std::filesystem::path& file)
    : database_(file),
      begin_(with_tickets(database_).get(), "BEGIN IMMEDIATE"),
      commit_(database_.get(), "COMMIT"),
      insert_(database_.get(), "INSERT INTO tickets VALUES(?1, ?2, x'00')"),
      remove_(database_.get(), "DELETE FROM tickets WHERE path = ?1 AND ticket = ?2"),
      read_(database_.get(), "SELECT ticket FROM tickets WHERE path = ?1 LIMIT 1") {}

void Tickets::write(Statement& statement, std::string_view path) {
  begin_.run();
  statement.bind(1, path).bind(2, ticket).run();
  commit_.run();
}

void Tickets::insert(std::string_view path) { write(insert_, path); }
void Tickets::remove(std::string_view path) { write(remove_, path); }
bool Tickets::has(std::string_view path) { return read_.bind(1, path).run() == ticket; }

SyncedRows::SyncedRows(const std::filesystem::path& file)
    : database_(file),
      put_(with_synced_rows(database_).get(), "INSERT OR REPLACE INTO row VALUES(?1, ?2)") {}

void SyncedRows::put() {
  const std::string key = "row/" + std::to_string(next_++ % durable_rows);
  put_.bind(1, key).bind(2, value_).run();
}

double SyncedRows::put_ns(std::size_t count) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) put();
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  return time.count() / static_cast<double>(count);
}

PollingQueue::PollingQueue(const std::filesystem::path& file)
    : database_(file),
      insert_(with_queue(database_).get(), "INSERT INTO queue DEFAULT VALUES RETURNING id"),
      first_(database_.get(), "SELECT min(id) FROM queue"),
      remove_(database_.get(), "DELETE FROM queue WHERE id = ?1") {}

void PollingQueue::lock() {
  ticket_ = insert_.run();
  while (first_.run() != ticket_) std::this_thread::sleep_for(poll_interval);
}

void PollingQueue::unlock() { remove_.bind(1, ticket_).run(); }

}  // namespace tenure::bench::stored
