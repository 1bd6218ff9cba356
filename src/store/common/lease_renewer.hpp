// lease_renewer.hpp: renews the leases of this process, and reports those it can't vouch for.
//
//   granted ---- renewed in time, on a thread of its own ----> removed
//      '-- not renewed for ttl - ttl/3, or the server says that it is gone --> lost, for good
//
// Time is counted on CLOCK_BOOTTIME from before the renewal was sent. The server begins to count
// later, so its lease outlives our trust in it by a third of the TTL, whatever was delayed, stopped
// or asleep. A second thread waits for the end of the trust, so that no slow connection delays
// lost(). Callbacks of lost() run on threads of their own, and stop() waits for them. A callback
// may call stop().
//
// Thread safety: all of it. stop() once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "base/thread_group.hpp"
#include "store/common/service_thread.hpp"

namespace tenure::stores {

struct Lease {
  std::string session;
  std::chrono::milliseconds ttl{0};
  std::atomic<std::int64_t> trusted_until{0};  // On CLOCK_BOOTTIME, nanoseconds.
  std::atomic<std::int64_t> renew_at{0};
  std::atomic<bool> is_lost = false;
  std::stop_source lost;
  // Threads that fire lost(). All leases of a renewer share them.
  std::shared_ptr<base::ThreadGroup> lost_threads = std::make_shared<base::ThreadGroup>();

  // The lease was granted or renewed by a request that was sent at `sent`.
  void renewed(std::int64_t sent) noexcept;
  // Whether the lease can be trusted. If not, it never can again, and lost() has fired when this
  // returns.
  bool check();
  // Fires lost() on a thread of its own.
  void lose() noexcept;
};

class LeaseRenewer : public std::enable_shared_from_this<LeaseRenewer> {
 public:
  // Returns how long the lease lives from now on; zero: it is gone. Throws Error if the server
  // can't be asked.
  using Renew = std::function<std::chrono::milliseconds(const Lease&)>;
  struct Timing {
    // When to renew, as shares of the TTL: at a random moment in between, so that clients that
    // started together do not renew together for ever.
    double earliest = 0;
    double latest = 0;
    std::chrono::milliseconds retry{0};  // After a failed renewal; less for short leases.
  };
  LeaseRenewer(Timing timing, Renew renew) : timing_(timing), renew_(std::move(renew)) {}

  // Call it before a lease is granted. Throws if no thread can be started to renew it.
  void start();
  // `sent`: when the request for the lease was sent, on CLOCK_BOOTTIME.
  [[nodiscard]] std::shared_ptr<Lease> add(std::string session, std::chrono::milliseconds ttl,
                                           std::int64_t sent);
  void remove(const std::shared_ptr<Lease>& lease) noexcept;
  void stop();

 private:
  using Due = std::atomic<std::int64_t> Lease::*;
  void plan_renewal(Lease& lease, std::int64_t sent) const;
  void try_renew(Lease& lease);
  // Calls `act` for each lease whose moment has come, until stop().
  template <typename Act>
  void serve(Due due, const Act& act);

  const Timing timing_;
  const Renew renew_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Lease>> leases_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  const std::shared_ptr<base::ThreadGroup> lost_threads_ = std::make_shared<base::ThreadGroup>();
  ServiceThread renewer_;
  ServiceThread watchdog_;
};

}  // namespace tenure::stores
