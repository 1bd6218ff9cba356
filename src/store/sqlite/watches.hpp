// watches.hpp: finds out what all processes write, and runs the thread that calls notices. The
// watches themselves are in a WatchTable.
//
// A watch of one key uses the bucket of the key's hash; a wider range uses the buckets of its first
// bytes, or the bucket of all keys. Buckets decide which processes a commit rings. A process that
// is rung reads the log of written keys from where it stopped, and notifies the watches of those
// keys. An entry of the log counts once its revision is decided; until then the commit is under
// way, and will ring.
//
// If the log is not complete (it was overwritten, a key is too long, another version of Tenure
// writes), buckets decide as well: a watch is due if one of its buckets has a revision r with after
// < r <= decided. Other keys of the bucket then cause a notice without a reason. Neither way reads
// the database.
//
// A ring clears all bits of its bucket, so a process that still watches the bucket sets its bit
// again. Once per second everything is checked without a ring: a writer may have died before it
// rang, or the files may have been replaced. In the latter case every watch is due, and sessions
// are lost.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "store/common/service_thread.hpp"
#include "store/common/watch_table.hpp"
#include "store/sqlite/death_waits.hpp"
#include "store/sqlite/executor.hpp"
#include "store/sqlite/options.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  Watches(std::shared_ptr<Executor> executor, const SqliteOptions& options);

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(const WatchFor& what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // `lost` is stopped, on a thread of its own, when the store can't vouch for its sessions any
  // more.
  void observe(std::weak_ptr<std::stop_source> lost);
  // May be called by a notice.
  void stop();

 private:
  using Lock = base::Mutex::Scoped;
  // After so many checks with nothing to watch, the thread sleeps until it is rung.
  static constexpr int max_idle_checks = 3;

  void start() TENURE_REQUIRES(table_.mutex);
  // The hook of table_: counts which buckets are watched here.
  void count_buckets(const WatchFor& what, bool armed) TENURE_REQUIRES(table_.mutex);
  void await_death(const std::string& session) TENURE_REQUIRES(table_.mutex);
  void session_ended(const std::string& session);
  void wake() noexcept;

  void serve();
  void rung_for(std::uint64_t summary) TENURE_REQUIRES(table_.mutex);
  void rung_here(std::size_t bucket) noexcept;  // Called by a writer of this process.
  void read_log() TENURE_REQUIRES(table_.mutex);
  [[nodiscard]] bool in_log(const WatchFor& what) const;
  void check_all() TENURE_REQUIRES(table_.mutex);
  void check_undecided() TENURE_REQUIRES(table_.mutex);
  void declare_lost() TENURE_REQUIRES(table_.mutex);  // May unlock the mutex meanwhile.
  // How long to sleep; negative: until rung.
  [[nodiscard]] std::int64_t nap_ns() TENURE_REQUIRES(table_.mutex);
  void arm_bucket(std::size_t bucket) const noexcept;
  // Whether a bucket of the watch has a revision after `after` (and after its own `after`), up to
  // `last`.
  [[nodiscard]] bool written_in_buckets(const WatchFor& what, std::uint64_t after,
                                        std::uint64_t last) const;
  void take_slot();

  const std::shared_ptr<Executor> executor_;
  const std::chrono::nanoseconds check_every_;  // One second, except in tests.
  const std::function<void()> on_arming_;       // For tests.
  std::size_t slot_ = 0;                        // Set before the service thread starts.
  bool slot_shared_ = false;  // With another process, which may have taken `summary`.

  stores::WatchTable table_;
  // How many watches use a bucket: by bucket modulo 64, as in a doorbell's summary, then by bucket.
  std::array<std::unordered_map<std::uint32_t, std::size_t>, 64> watched_
      TENURE_GUARDED_BY(table_.mutex);
  // Entries of the log that were read.
  std::uint64_t log_read_ TENURE_GUARDED_BY(table_.mutex) = 0;
  WriteLog::Entry log_entry_ TENURE_GUARDED_BY(table_.mutex);  // The one that is being read.
  // Revisions up to this one were processed.
  std::uint64_t seen_ TENURE_GUARDED_BY(table_.mutex) = 0;
  // The log lacks something up to this revision: until it is decided, buckets decide too.
  std::uint64_t doubted_ TENURE_GUARDED_BY(table_.mutex) = 0;
  std::uint64_t undecided_ TENURE_GUARDED_BY(table_.mutex) = 0;  // At the last check.
  DeathWaits deaths_;
  base::ThreadGroup lost_threads_;  // Threads that fire lost().
  std::vector<std::weak_ptr<std::stop_source>> observed_ TENURE_GUARDED_BY(table_.mutex);
  Instant planned_ TENURE_GUARDED_BY(table_.mutex);  // When the service thread wakes by itself.
  std::int64_t next_check_ TENURE_GUARDED_BY(table_.mutex) = 0;
  int idle_checks_ TENURE_GUARDED_BY(table_.mutex) = 0;
  bool lost_ TENURE_GUARDED_BY(table_.mutex) = false;
  bool stopping_ TENURE_GUARDED_BY(table_.mutex) = false;
  stores::ServiceThread service_;
};

}  // namespace tenure::sqlite
