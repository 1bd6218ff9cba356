// sqlite_store.hpp: a store in one SQLite file, for all processes of a machine.
//
//   app.db           the entries; any SQLite tool reads them (views.hpp)
//   app.db-wal, -shm SQLite's own
//   app.db-tenure    counters, doorbells, and the bytes that sessions lock (side_file.hpp)
//
// Sessions and watches keep their store alive.
//
// A session is alive while some process has its open file description. The kernel ends it at once
// when the last such process ends, however it ends, and never earlier. So there are no leases, and
// no clock decides.
//
// A store belongs to the process that opened it. After fork(), every call of the child throws, and
// destroying inherited objects in the child has no effect. The child may open the file again.
//
// Thread safety: all calls, from any thread, at once.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/sqlite/options.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class Executor;
class GroupCommit;
class Watches;

class SqliteStore final : public Store, public std::enable_shared_from_this<SqliteStore> {
 public:
  // Called by open_sqlite().
  SqliteStore(std::shared_ptr<Executor> executor, const SqliteOptions& options);
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;
  ~SqliteStore() override;

  Outcome apply(const Txn& txn) override;
  void post(Txn txn, Posted done) noexcept override;
  void apply_then(Txn txn, Posted done) noexcept override;
  void apply_later(std::shared_ptr<Deferred> what) noexcept override;
  void flush() override;
  [[nodiscard]] std::unique_ptr<Watch> watch(WatchFor what, Notice notice) override;
  [[nodiscard]] std::unique_ptr<Session> open_session(const SessionOptions& options) override;
  [[nodiscard]] bool alive(std::string_view session) override;
  [[nodiscard]] Instant now() override;
  [[nodiscard]] Instant latest_now() noexcept override;
  [[nodiscard]] std::vector<Fact> facts() override;

  [[nodiscard]] bool forked() const noexcept;
  [[nodiscard]] bool intact() noexcept;  // The paths still lead to the open files.

 private:
  class HeldSession;
  class Called;
  struct Parts {
    std::shared_ptr<Executor> executor;
    std::shared_ptr<GroupCommit> commits;
    std::shared_ptr<Watches> watches;
  };
  void check_forked() const;

  std::unique_ptr<Parts> parts_;
  const std::uint64_t generation_;
};

// Creates the file if there is none. Throws StoreError. Two openings of one file by one process
// share one store.
[[nodiscard]] std::shared_ptr<Store> open_sqlite(const std::filesystem::path& path,
                                                 const SqliteOptions& options = {});

}  // namespace tenure::sqlite
