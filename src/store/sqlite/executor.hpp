// executor.hpp: reads and writes the files of a store: connections, the gate, revisions, and the
// doorbells that a commit rings.
//
//   a batch   BEGIN IMMEDIATE - each apply, with its revision - COMMIT - raise `decided`, ring
//
// SQLite's own lock excludes other writers, but it is not a queue: waiters poll it, and may starve.
// So a writer that meets another one marks the store as crowded, and while the mark is recent all
// writers queue at the gate first. A writer that is alone does not pay for the gate.
//
// Invariants
//   1. The revision of an apply is counted inside the write transaction, before its first write.
//   2. Before COMMIT, the bucket of every written key has the revision. After it, or after the
//      rollback, `decided` passes the revision, and then the doorbells ring. A process that dies in
//      between leaves buckets ahead of `decided`; watchers find them in their check once per
//      second.
//   3. A batch that fails is rolled back, and its applies run one by one, so that only the failing
//      one fails.
//   4. Keys that must be new are inserted together, later in the batch. An apply that guards,
//      writes or reads one of them inserts them first. If one exists, the batch is rolled back,
//      and made again without this.
//
// Thread safety: write() is called by one thread at a time, all other functions by any thread.
#pragma once

#include <array>
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

// One apply that is queued or running.
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
  // Returns when everything that was committed is on the disk, including relaxed commits.
  void sync();
  std::string ask(const char* sql);  // Uses a connection of its own. For facts().

  [[nodiscard]] SideFile& side() const noexcept { return *side_; }
  [[nodiscard]] const DatabaseLocation& location() const noexcept { return location_; }
  [[nodiscard]] Instant now() const noexcept;

  // Sets the doorbell slot of this process, and a function that the writer's thread calls instead
  // of ringing it: the function looks whether a bucket concerns any watch of this process. Most
  // writes of a process touch keys that only the process itself watches, and would wake its service
  // thread for nothing. Called once.
  using OnRing = std::function<void(std::size_t bucket)>;
  void own_doorbell(std::size_t slot, OnRing on_ring);

  // Whether the paths still lead to the open files. Once false, always false.
  [[nodiscard]] bool intact() noexcept;

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;

 private:
  void write_together(std::span<Job*> batch);
  void perform(Connection& connection, Job& job);
  // Inserts `put`, or leaves that to insert_waiting(). False: the key exists.
  [[nodiscard]] bool insert_new(Connection& connection, const Write& put, Revision revision,
                                bool may_wait);
  void insert_waiting(Connection& connection);
  [[nodiscard]] bool needs_waiting(const Txn& txn) const;
  void change(Connection& connection, const Write& write, Revision revision);
  void touch(std::string_view key, std::uint64_t revision);
  void touch_broad() noexcept;
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
  OnRing on_own_ring_;  // Set before own_slot_.
  std::atomic<std::size_t> own_slot_{no_slot};

  Traffic traffic_;
  // Used only by the thread that is in write().
  std::unique_ptr<Connection> writer_;
  std::vector<std::uint32_t> touched_;  // Buckets of this batch; of those below each one once.
  // Of buckets of many keys: the last revision, until it is stored; zero: none.
  std::array<std::uint64_t, buckets - key_buckets> touched_broad_{};
  std::uint64_t given_ = 0;  // The last revision of this batch, or of the one before it.
  std::string key_;          // The key of an append.
  bool joins_ = false;       // Whether inserts of this batch may wait.
  std::vector<Connection::Insert> waiting_;
  std::vector<std::uint64_t> waiting_prints_;  // fingerprint() of each key.
  std::int64_t next_check_ = 0;

  std::unique_ptr<Connection> checkpointer_;  // Used only by the thread of checkpoints_.
  Checkpoints checkpoints_{[this] { return checkpoint_beside(); }};

  base::Mutex pool_mutex_;
  std::vector<std::unique_ptr<Connection>> pool_ TENURE_GUARDED_BY(pool_mutex_);
};

// Rings the doorbell of a slot; called by any process.
void ring_doorbell(Doorbell& bell, std::uint64_t summary) noexcept;

}  // namespace tenure::sqlite
