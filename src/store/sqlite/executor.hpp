// executor.hpp: reads and writes the files of a store: connections, the gate, revisions, and the
// doorbells that a commit rings.
//
//   a batch   BEGIN IMMEDIATE - each apply, with its revision - COMMIT - raise `decided`, ring
//
// SQLite's own lock keeps writers apart, but it is no queue: it is polled, and starves. So whoever
// meets another writer says that there is a crowd, and while that was not long ago all queue at the
// gate first. Alone, a writer does not pay for it.
//
// Invariants
//   1. An apply's revision is counted inside the write transaction, before its first write.
//   2. Before COMMIT every bucket of a written key has the revision; after it, or after the
//      rollback, `decided` passes it, then the bells ring. A process that dies in between leaves
//      buckets ahead of `decided`: the watchers' check of once a second finds those.
//   3. A batch that fails is rolled back, and its applies are made one by one: one that can't be
//      done fails alone.
//
// Thread safety: write() one thread at a time; the rest, any.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/sqlite/checkpoints.hpp"
#include "store/sqlite/fork.hpp"
#include "store/sqlite/opening.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

// One apply on its way.
struct Job {
  const Txn* txn = nullptr;
  Outcome outcome;
  std::exception_ptr error;
};

class AtGate;

class Executor final : public ForkAware {
 public:
  Executor(Opened opened, std::uint32_t max_pages);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor() override;

  void write(std::span<Job*> batch);
  [[nodiscard]] Outcome read(const Txn& txn);
  // All that was committed is on the disk, relaxed commits too.
  void sync();
  std::string ask(const char* sql);  // On a connection of its own, for facts().

  [[nodiscard]] SideFile& side() const noexcept { return *side_; }
  [[nodiscard]] const DatabaseLocation& location() const noexcept { return location_; }
  [[nodiscard]] Instant now() const noexcept;

  // The bell of this process: with it comes who looks, on the writer's thread, whether a bucket
  // concerns anybody here. Most writes of a process touch what only it has watched, and would wake
  // its thread for nothing. Once.
  using Look = std::function<void(std::size_t bucket)>;
  void own_doorbell(std::size_t slot, Look look);

  // Whether the paths still lead to the files that are open. Once false, always false.
  [[nodiscard]] bool intact() noexcept;

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;

 private:
  void write_together(std::span<Job*> batch);
  void perform(Connection& connection, Job& job);
  void change(Connection& connection, const Write& write, Revision revision);
  void touch(std::string_view key, std::uint64_t revision);
  void begin(Connection& connection, AtGate& gate);
  int checkpoint_beside() noexcept;
  void announce_decided() noexcept;
  void ring(std::size_t bucket) noexcept;
  void check_intact_sometimes();
  void throw_if_replaced() const;
  Connection& writer(bool full);
  [[nodiscard]] std::unique_ptr<Connection> open(Connection::Mode mode) const;
  [[nodiscard]] std::unique_ptr<Connection> borrow();
  void give_back(std::unique_ptr<Connection> connection);

  const DatabaseLocation location_;
  const FileId file_;
  const std::shared_ptr<SideFile> side_;
  const std::uint32_t max_pages_;
  std::atomic<bool> replaced_{false};
  static constexpr std::size_t no_slot = doorbells;
  Look own_look_;  // Set before the slot is.
  std::atomic<std::size_t> own_slot_{no_slot};

  Traffic traffic_;
  // Of the thread that is in write().
  std::unique_ptr<Connection> writer_;
  std::vector<std::uint32_t> touched_;  // Buckets, of this batch.
  std::uint64_t given_ = 0;             // The last revision of this batch, or the one before it.
  std::string key_;                     // Of an append.
  std::int64_t next_check_ = 0;

  std::unique_ptr<Connection> checkpointer_;  // Of the thread of checkpoints_.
  Checkpoints checkpoints_{[this] { return checkpoint_beside(); }};

  base::Mutex pool_mutex_;
  std::vector<std::unique_ptr<Connection>> pool_ TENURE_GUARDED_BY(pool_mutex_);
};

// A slot's bell, from any process.
void ring_doorbell(Doorbell& bell, std::uint64_t summary) noexcept;

}  // namespace tenure::sqlite
