// keeper.hpp: keeps this process's leases alive, and says when it can't vouch for one any more.
//
//   granted ---- renewed every ttl/5, from a thread of its own ----> ended: revoked
//      '-- not renewed since ttl - ttl/3, or the server says it is gone --> lost, for good
//
// Time is counted on CLOCK_BOOTTIME, from before the renewal was sent: the server began to count
// later, so its lease outlives our trust in it by a third, whatever was delayed, stopped or asleep.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/etcd/engine.hpp"

namespace tenure::etcd {

// One lease.
struct Lease {
  std::int64_t id = 0;
  std::chrono::seconds ttl{0};
  std::atomic<std::int64_t> trusted_until{0};  // On CLOCK_BOOTTIME, nanoseconds.
  std::atomic<std::int64_t> renew_at{0};
  std::atomic<bool> is_lost = false;
  std::stop_source lost;

  // It was granted or renewed by what was sent then.
  void renewed(std::int64_t sent_ns) noexcept;
  // Whether it can be trusted; once not, never again. Tells lost() on a thread of its own.
  bool check();
  void lose() noexcept;
};

class Keeper : public std::enable_shared_from_this<Keeper> {
 public:
  explicit Keeper(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  [[nodiscard]] std::shared_ptr<Lease> open(std::chrono::milliseconds ttl);
  // Stops renewing, and revokes; does not throw.
  void end(const std::shared_ptr<Lease>& lease) noexcept;
  void stop();

 private:
  void start() TENURE_REQUIRES(mutex_);
  void renew_all();
  void watch_all();
  void renew(Lease& lease);
  [[nodiscard]] std::vector<std::shared_ptr<Lease>> leases();

  const std::shared_ptr<Engine> engine_;
  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<Lease>> leases_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread renewer_ TENURE_GUARDED_BY(mutex_);
  std::thread watchdog_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::etcd
