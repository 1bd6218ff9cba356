// watches.hpp: the watches of a process, and the thread that calls their notices.
//
//   armed --- rung, its time, a death, or once a second ---> ready --- service thread ---> running
//     '---- destroyed ------------------------------------------'---> gone
//
// A watch of one key hangs on the bucket of its hash, a wider one on the buckets of first bytes, or
// on the one of all keys. It is due when a bucket of its has a revision r with after < r <=
// settled. Where r is behind `settled` the commit is still under way: the watch stays, its bit is
// set, and the commit rings. Nothing is read from the database, so a key that is absent and stays
// so costs no notice; other keys of the bucket cost one for no reason.
//
// Whoever rings has taken all bits of the bucket, so a watch that is not due sets its bit again.
// Once a second everything is looked at without being rung: a writer may have died before ringing,
// or the files may have been replaced, in which case every watch is due and sessions are lost.
//
// A death is waited for by one thread a session, blocked in the kernel on the session's byte. It
// can't be stopped, so it shares nothing but the description, and may outlive the store.
//
// Thread safety: all of it. Notices are called and destroyed with the mutex free.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/sqlite/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::sqlite {

class Watches : public std::enable_shared_from_this<Watches> {
 public:
  explicit Watches(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  // `keep` lives as long as the handle.
  [[nodiscard]] std::unique_ptr<Watch> add(WatchFor what, Store::Notice notice,
                                           std::shared_ptr<Store> keep);
  // Is stopped, on a thread of its own, when the store can't vouch for its sessions any more.
  void observe(std::weak_ptr<std::stop_source> lost);
  // May be called by a notice.
  void stop();

 private:
  struct Armed {
    std::uint64_t id = 0;
    WatchFor what;
    Store::Notice notice;
    std::vector<std::uint32_t> buckets;
    std::uint64_t unsettled = 0;  // What the last check of once a second found ahead of `settled`.
  };
  class Handle;
  using Lock = base::Mutex::Scoped;
  using Ids = std::vector<std::uint64_t>;
  // With nothing to watch, so many more checks; then the thread sleeps until it is rung.
  static constexpr int max_idle_checks = 3;

  void remove(std::uint64_t id) noexcept;
  void start() TENURE_REQUIRES(mutex_);
  void link(Armed& armed) TENURE_REQUIRES(mutex_);
  void unlink(const Armed& armed) TENURE_REQUIRES(mutex_);
  void make_ready(std::uint64_t id) TENURE_REQUIRES(mutex_);
  void await_death(const std::string& session) TENURE_REQUIRES(mutex_);
  void session_ended(const std::string& session);
  void wake() noexcept;

  void serve();
  void run_ready() TENURE_REQUIRES(mutex_);
  void look(std::uint64_t summary) TENURE_REQUIRES(mutex_);
  void look_at(std::uint32_t bucket, const Ids& ids, Ids& found) TENURE_REQUIRES(mutex_);
  void rung_here(std::size_t bucket) noexcept;  // By a writer of this process.
  void look_at_timers() TENURE_REQUIRES(mutex_);
  void check_all() TENURE_REQUIRES(mutex_);
  void declare_lost() TENURE_REQUIRES(mutex_);
  // How long to sleep; negative: until rung.
  [[nodiscard]] std::int64_t nap_ns() TENURE_REQUIRES(mutex_);
  void arm_bucket(std::size_t bucket) const noexcept;
  [[nodiscard]] bool due(const Armed& armed) const noexcept;
  void take_slot();

  const std::shared_ptr<Engine> engine_;
  std::size_t slot_ = 0;      // Set before the service thread starts.
  bool slot_shared_ = false;  // With another process: then `summary` may have been taken by it.

  base::Mutex mutex_;
  std::condition_variable_any ran_;
  std::uint64_t last_id_ TENURE_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Armed>> armed_ TENURE_GUARDED_BY(mutex_);
  // By bucket modulo 64, as a doorbell's summary has them, then by bucket.
  std::array<std::unordered_map<std::uint32_t, Ids>, 64> by_bucket_ TENURE_GUARDED_BY(mutex_);
  std::multimap<Instant, std::uint64_t> timers_ TENURE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Ids> by_session_ TENURE_GUARDED_BY(mutex_);
  std::unordered_set<std::string> awaited_ TENURE_GUARDED_BY(mutex_);
  std::deque<std::unique_ptr<Armed>> ready_ TENURE_GUARDED_BY(mutex_);
  std::uint64_t running_ TENURE_GUARDED_BY(mutex_) = 0;
  std::vector<std::weak_ptr<std::stop_source>> observed_ TENURE_GUARDED_BY(mutex_);
  Instant planned_ TENURE_GUARDED_BY(mutex_);  // When the service thread wakes by itself.
  std::int64_t next_check_ TENURE_GUARDED_BY(mutex_) = 0;
  int idle_checks_ TENURE_GUARDED_BY(mutex_) = 0;
  bool lost_ TENURE_GUARDED_BY(mutex_) = false;
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread service_ TENURE_GUARDED_BY(mutex_);
  std::thread::id service_id_ TENURE_GUARDED_BY(mutex_);  // Known when service_ was given away.
};

}  // namespace tenure::sqlite
