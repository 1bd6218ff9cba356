// executor.hpp: applies, each in one round trip, on a few connections that a process shares.
//
// What a lost connection means for the apply that was on it:
//
//   nothing was sent, or it only reads   made again, on another connection
//   it was sent, and writes              its fate is decided, so that it can't still happen; then
//                                        StoreError, unknown()
//
// How a fate is decided. The backend of a connection of our own holds an advisory lock of the
// connection's random number: the backend that holds it is terminated, and has ended when nobody
// holds it. Behind a pooler we terminate nothing, because a backend works for other programs too.
// There each write is guarded: no entry voids its connection. Writing that entry makes every write
// of the connection fail that has not been committed by then. While a fate can't be decided, the
// next apply decides it first: no read of this process runs before that.
//
// A connection that something on the way has forgotten is not lost for the kernel: what is sent is
// acknowledged, and no answer ever comes. After Target::silence the server is asked, by another
// connection, whether it still works on it; if not, the connection counts as lost.
//
// Removes may be relaxed, and a server that crashes may lose them: the last ones are remembered
// until something durable follows, and made again with the first connection after a loss. A key
// that was put again since is left alone.
//
// Thread safety: all of it.
#pragma once

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
#include "store/postgres/clock.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/url.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Executor {
 public:
  // Makes the schema where there is none. Throws StoreError.
  explicit Executor(Target target);

  [[nodiscard]] Outcome apply(const Txn& txn);
  // In order, and as many as can be in one transaction of the server's. Durable.
  void apply_all(std::span<stores::Posting> postings);
  // All that was committed is on the disk, relaxed commits too.
  void flush();
  // Anything that may be done twice, on a connection of the pool.
  Result ask(const Statement& statement, const Params& params);
  Result ask(const std::string& sql);
  // One of the caller's own, not counted in the pool. Throws StoreError when there is none after
  // `limit`.
  [[nodiscard]] std::unique_ptr<Connection> connect(std::chrono::milliseconds limit);

  // A connection of the caller's own was lost: the server may have crashed. A process that only
  // renews its session notices nowhere else, and what it released would stay.
  void doubt();

  [[nodiscard]] Instant now();
  // Without asking the server, if it ever was.
  [[nodiscard]] Instant estimate() { return clock_.known() ? clock_.now() : now(); }
  // It has been asked: whoever has a session has asked.
  [[nodiscard]] Instant latest_now() const noexcept { return clock_.latest(); }
  void saw_clock(std::int64_t server, std::int64_t sent) noexcept {
    clock_.saw(server, sent, boot_ns());
  }
  [[nodiscard]] const Target& target() const noexcept { return *target_; }
  [[nodiscard]] bool pooled() const noexcept { return pooled_.load(); }
  [[nodiscard]] std::string channel() const;  // Of notifications.
  [[nodiscard]] std::int64_t schema_number() const noexcept { return schema_number_; }
  [[nodiscard]] std::uint64_t round_trips() const noexcept { return round_trips_.load(); }

  // How long an apply waits for a server that is being restarted.
  static constexpr std::chrono::milliseconds patience{15'000};

 private:
  static constexpr std::size_t max_connections = 8;
  static constexpr std::size_t max_remembered = 10'000;

  class Borrowed;
  class Writing;
  struct Removed {
    std::string key;
    std::uint64_t revision;
  };
  using Lock = base::Mutex::Scoped;

  std::unique_ptr<Connection> borrow();
  void give_back(std::unique_ptr<Connection> connection);
  void drop_stale();
  // On a connection of the pool, and on others if it breaks. `again`: it may be made twice.
  template <typename Call>
  auto perform(bool again, const Call& call);
  Result call(const Statement& statement, const Params& params, bool again);
  Answer make(const Txn& txn, bool alone);
  void apply_each(std::span<stores::Posting> postings);
  bool apply_together(std::span<stores::Posting> postings);
  void made_together(std::span<stores::Posting> postings, const Result& result);
  // If this is the newest revision still, the guard of an append holds, and it reads nothing.
  [[nodiscard]] std::optional<Revision> foreseen(const Txn& txn);
  void own(const Txn& txn, const Answer& answer);
  [[nodiscard]] std::string why_silent(const Connection& connection);
  [[noreturn]] static void throw_for(const Failed& failed);
  // A connection that was lost with a write on it.
  struct UnknownCommit {
    std::int64_t connection_id = 0;
    bool pooled = false;
  };
  void add_unknown_commit(const UnknownCommit& lost);
  // Decides the fates of all that were lost. Throws StoreError when it can't.
  void resolve_unknown_commits(std::chrono::milliseconds limit);
  void resolve_unknown_commit(Connection& connection, const UnknownCommit& lost);
  // While there is such an entry, a pooled connection of that id commits nothing.
  [[nodiscard]] static std::string void_key(std::int64_t connection_id);
  void void_writes(Connection& connection, std::int64_t connection_id);
  void remember(const Txn& txn, const Outcome& outcome);
  void forget_removed(Revision before);
  void remove_again(Connection& connection);

  const std::shared_ptr<const Target> target_;
  const Statement look_;
  const Statement change_;
  const Statement change_all_;
  // So often in a row a batch was refused, and its transactions one by one were not: an older
  // schema may not have the routine.
  static constexpr int most_refused = 3;
  std::atomic<int> refused_{0};
  std::int64_t schema_number_ = 0;
  std::unique_ptr<const Batches> batches_;  // Since the schema is there.
  std::atomic<bool> pooled_{false};
  std::atomic<std::uint64_t> round_trips_{0};
  std::atomic<int> writing_{0};            // Applies of this process that are about to write.
  std::atomic<std::uint64_t> written_{0};  // The last revision of this process's.
  std::atomic<bool> alone_{false};         // The one before that was its own too.
  struct Head {
    Revision revision;
  };
  stores::SoleWriter<Head> own_;
  ServerClock clock_;

  base::Mutex mutex_;
  std::condition_variable_any returned_;
  std::vector<std::unique_ptr<Connection>> idle_ TENURE_GUARDED_BY(mutex_);
  std::size_t out_ TENURE_GUARDED_BY(mutex_) = 0;
  std::vector<UnknownCommit> unknown_commits_ TENURE_GUARDED_BY(mutex_);
  std::deque<Removed> removed_ TENURE_GUARDED_BY(mutex_);
  bool doubt_ TENURE_GUARDED_BY(mutex_) = false;  // A connection was lost since they were made.
};

}  // namespace tenure::postgres
