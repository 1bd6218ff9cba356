// executor.hpp: runs applies, each in one round trip, on a few connections that a process shares.
//
// What a lost connection means for the apply that was running on it:
//
//   nothing was sent, or it only reads   retried on another connection
//   it was sent, and writes              the unknown commit is resolved, so that it can't still
//                                        happen later; then StoreError, unknown()
//
// How an unknown commit is resolved. The backend of a direct connection holds an advisory lock of
// the connection's random number. That backend is terminated, and has ended when nobody holds the
// lock. Behind a pooler nothing is terminated, because a backend serves other programs too. There
// each write has a guard: no entry voids its connection. Writing that entry makes every write of
// the connection fail that has not committed by then. If an unknown commit can't be resolved, the
// next apply resolves it first: no read of this process runs before that.
//
// A connection that a router has forgotten looks alive to the kernel: data is acknowledged, but no
// answer ever comes. After Target::silence the process asks the server, over another connection,
// whether it still works on the call. If not, the connection counts as lost.
//
// Removes may be relaxed, and a server that crashes may lose them. The last ones are remembered
// until a durable commit follows, and are made again with the first connection after a loss. A key
// that was put again since is left alone.
//
// Thread safety: all of it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/post_queue.hpp"
#include "store/common/sole_writer.hpp"
#include "store/postgres/batch.hpp"
#include "store/postgres/buckets.hpp"
#include "store/postgres/clock.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/url.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Executor {
 public:
  // Creates the schema if there is none. Throws StoreError.
  explicit Executor(Target target);

  // `own_session`: as in buckets_of().
  [[nodiscard]] Outcome apply(const Txn& txn, bool own_session = false);
  // In order, and as many as possible in one transaction of the server. Durable.
  void apply_all(std::span<stores::Posting> postings);
  // Returns when everything that was committed is on the disk, including relaxed commits.
  void flush();
  // For a call that may be made twice, on a connection of the pool.
  Result ask(const Statement& statement, const Params& params);
  Result ask(const std::string& sql);
  // The newest revision of each bucket.
  [[nodiscard]] std::vector<Revision> heads();
  // Opens a connection for the caller, not counted in the pool. Throws StoreError if there is none
  // after `limit`.
  [[nodiscard]] std::unique_ptr<Connection> connect(std::chrono::milliseconds limit);

  // A connection outside of the pool was lost, so the server may have crashed. Without this, a
  // process that only renews its session would not notice, and removes that the crash lost would
  // stay lost.
  void doubt();

  [[nodiscard]] Instant now();
  // Asks the server only if it was never asked before.
  [[nodiscard]] Instant estimate() { return clock_.known() ? clock_.now() : now(); }
  // Valid after the first call to the server; a process that has a session has made one.
  [[nodiscard]] Instant latest_now() const noexcept { return clock_.latest(); }
  void saw_clock(std::int64_t server, std::int64_t sent) noexcept {
    clock_.saw(server, sent, boot_ns());
  }
  [[nodiscard]] const Target& target() const noexcept { return *target_; }
  [[nodiscard]] bool pooled() const noexcept { return pooled_.load(); }
  [[nodiscard]] std::int64_t schema_number() const noexcept { return schema_number_; }
  [[nodiscard]] std::uint64_t round_trips() const noexcept { return round_trips_.load(); }

  // How long an apply waits for a server that is restarting.
  static constexpr std::chrono::milliseconds patience{15'000};

 private:
  static constexpr std::size_t max_connections = 8;
  static constexpr std::size_t max_remembered = 10'000;
  static constexpr std::size_t max_known_ranges = 128;  // In each order.

  class Borrowed;
  class Writing;
  struct Removed {
    std::string key;
    std::uint64_t revision;
    std::uint64_t serial;
  };
  struct Head {
    Revision revision;
  };
  // What this process knows about the order of a bucket.
  struct Order {
    std::atomic<int> writing{0};            // Applies of this process that are about to write.
    std::atomic<std::uint64_t> written{0};  // The last revision that this process made.
    std::atomic<bool> alone{false};         // This process made the revision before that too.
    stores::SoleWriter<Head> own{max_known_ranges};
  };
  using Lock = base::Mutex::Scoped;

  std::unique_ptr<Connection> borrow();
  void give_back(std::unique_ptr<Connection> connection);
  void drop_stale();
  // Makes the call on a connection of the pool, and on others if it breaks. `again`: the call may
  // be made twice.
  template <typename Call>
  auto perform(bool again, const Call& call);
  Result call(const Statement& statement, const Params& params, bool again);
  // `order`: that of the only bucket, or null.
  Answer make(const Txn& txn, const Buckets& buckets, Order* order, bool alone);
  [[nodiscard]] Answer change(const Txn& txn, const Buckets& buckets);
  void apply_each(std::span<stores::Posting> postings);
  bool apply_together(std::span<stores::Posting> postings);
  void made_together(std::span<stores::Posting> postings, const Buckets& buckets,
                     const Result& result);
  [[nodiscard]] Order& order_of(int bucket) {
    return orders_->at(static_cast<std::size_t>(bucket));
  }
  // A revision; if it is still the newest in its order, the guard of the append holds and its
  // ranges are empty.
  [[nodiscard]] static std::optional<Revision> foreseen(const Txn& txn, Order& order);
  static void own(const Txn& txn, const Answer& answer, Order& order);
  // This process moved the heads of several orders at once.
  void moved(const Buckets& buckets, Revision revision);
  [[nodiscard]] std::string why_silent(const Connection& connection);
  [[noreturn]] static void throw_for(const Failed& failed);
  // A write whose connection was lost before the answer came.
  struct UnknownCommit {
    std::int64_t connection_id = 0;
    bool pooled = false;
  };
  void add_unknown_commit(const UnknownCommit& lost);
  // Resolves all unknown commits. Throws StoreError if it can't.
  void resolve_unknown_commits(std::chrono::milliseconds limit);
  void resolve_unknown_commit(Connection& connection, const UnknownCommit& lost);
  // While this entry exists, a pooled connection with that id commits nothing.
  [[nodiscard]] static std::string void_key(std::int64_t connection_id);
  void void_writes(Connection& connection, std::int64_t connection_id);
  void remember(const Txn& txn, const Outcome& outcome, std::uint64_t removals);
  // A durable commit was begun after so many removals.
  void forget_removed(std::uint64_t removals);
  [[nodiscard]] std::uint64_t removals();
  void remove_again(Connection& connection);

  const std::shared_ptr<const Target> target_;
  const Statement look_;
  const Statement change_;
  const Statement change_all_;
  // After a batch was refused so often in a row while its transactions succeeded one by one,
  // batches are not used: an older schema may not have the routine.
  static constexpr int most_refused = 3;
  std::atomic<int> refused_{0};
  std::int64_t schema_number_ = 0;
  std::unique_ptr<const Batches> batches_;  // Set once the schema exists.
  std::atomic<bool> pooled_{false};
  std::atomic<std::uint64_t> round_trips_{0};
  using Orders = std::array<Order, bucket_count>;
  const std::unique_ptr<Orders> orders_ = std::make_unique<Orders>();
  ServerClock clock_;

  base::Mutex mutex_;
  std::condition_variable_any returned_;
  std::vector<std::unique_ptr<Connection>> idle_ TENURE_GUARDED_BY(mutex_);
  std::size_t out_ TENURE_GUARDED_BY(mutex_) = 0;
  std::vector<UnknownCommit> unknown_commits_ TENURE_GUARDED_BY(mutex_);
  std::deque<Removed> removed_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t removals_ TENURE_GUARDED_BY(mutex_) = 0;  // All that were ever remembered.
  // A connection was lost since those removes were made.
  bool doubt_ TENURE_GUARDED_BY(mutex_) = false;
};

}  // namespace tenure::postgres
