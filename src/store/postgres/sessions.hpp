// sessions.hpp: the sessions of a process: rows with a deadline on the server's clock.
//
//   alive --- renewed in time ---> alive --- not renewed until its deadline ---> dead, for good:
//     whoever finds that its deadline has passed deletes the row, and a renewal of none fails
//
// The owner counts on CLOCK_BOOTTIME from before a renewal was sent, and calls the session lost a
// third of its time before the server can: in `renewed + ttl - ttl/3`. One thread renews, on a
// connection of its own; another only waits for that moment, so that no slow connection delays it;
// callbacks of lost() run on neither.
//
// The server's clock is wall time. If it is set forward, sessions end early: what a hold protects
// should check its token or its guard.
//
// Thread safety: all of it. stop() once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/postgres/engine.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

inline constexpr std::chrono::milliseconds default_ttl{10'000};
inline constexpr std::chrono::milliseconds min_ttl{500};
inline constexpr std::chrono::milliseconds max_ttl{86'400'000};

class Sessions : public std::enable_shared_from_this<Sessions> {
 public:
  explicit Sessions(std::shared_ptr<Engine> engine);

  // A row for a new session, and its renewal from now on. `lost` is stopped when that fails.
  [[nodiscard]] std::string open(std::chrono::milliseconds ttl, std::stop_source lost);
  // Whether it can be vouched for. The clock is looked at, and not the thread that counts down,
  // which may have been asleep with the machine: who gets `false` finds `lost` stopped.
  [[nodiscard]] bool check(const std::string& id);
  // No more renewals, and no row.
  void end(const std::string& id) noexcept;
  // How long it has to live without being renewed; zero or less: it is dead for good.
  [[nodiscard]] std::chrono::nanoseconds left(std::string_view id);
  void stop();

 private:
  using Lock = base::Mutex::Scoped;
  struct Own {
    std::chrono::milliseconds ttl{};
    std::stop_source lost;
    std::int64_t lost_at = 0;  // All on CLOCK_BOOTTIME.
    std::int64_t renew_at = 0;
  };

  void start() TENURE_REQUIRES(mutex_);
  void renew_all();
  void renew(const std::string& id, const Own& own);
  void lose_connection();
  void count_down();
  void lose(const std::string& id) TENURE_REQUIRES(mutex_);
  [[nodiscard]] std::int64_t next_renewal(std::chrono::milliseconds ttl) TENURE_REQUIRES(mutex_);

  const std::shared_ptr<Engine> engine_;
  const Statement insert_;
  const Statement renew_;
  const Statement find_;
  const Statement bury_;
  const Statement end_;
  std::unique_ptr<Connection> connection_;  // The renewing thread's own.

  base::Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Own, std::less<>> own_ TENURE_GUARDED_BY(mutex_);
  std::mt19937_64 random_ TENURE_GUARDED_BY(mutex_);
  bool stopping_ TENURE_GUARDED_BY(mutex_) = false;
  std::thread renewer_ TENURE_GUARDED_BY(mutex_);
  std::thread counter_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::postgres
