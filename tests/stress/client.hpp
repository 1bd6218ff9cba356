// client.hpp: one thread of a worker: asks, holds, gives back, and writes down each step.
//
// Thread safety: stop_waiting() from any thread; the rest is for the thread that runs it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tenure/space.hpp"
#include "tests/stress/event.hpp"
#include "tests/stress/progress.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::stress {

class Client {
 public:
  struct Place {
    const Space& space;
    const Log& log;
    std::atomic<std::uint64_t>& grants;  // Counted for the driver.
    std::int64_t clock_base;             // The store's clock less CLOCK_BOOTTIME, at most.
  };
  Client(const Place& place, unsigned thread, std::string owner, std::uint64_t seed);

  void round();  // One request, and what is asked for while it is held.
  void stop_waiting();

 private:
  enum class Way : std::uint8_t { lock, lock_stop, try_lock, try_lock_for, try_lock_for_stop };
  struct Ask {
    std::uint64_t number = 0;
    Way way = Way::lock;
    std::vector<Claim> claims;
    std::chrono::nanoseconds max_hold{0};
  };
  void ask(const Locker& locker, bool as_owner, std::size_t held);
  [[nodiscard]] Ask random_ask();
  [[nodiscard]] std::optional<Hold> call(const Locker& locker, const Ask& ask);
  [[nodiscard]] std::optional<Hold> get(const Locker& locker, const Ask& ask);
  void keep(Hold& hold, const Ask& ask);
  void log_deadline(const Hold& hold, const Ask& ask);
  void narrow(Hold& hold, const Ask& ask);
  void hold_for_a_while(const Ask& ask, const std::stop_token& lost);
  void give_back(Hold hold, const Ask& ask);
  void write(std::uint64_t request, Event::Kind kind, std::uint64_t a = 0, std::string word = {},
             std::vector<Claim> claims = {}, std::uint64_t b = 0);

  Place place_;
  unsigned thread_;
  Locker owner_;
  Random random_;
  std::uint64_t requests_ = 0;
  std::mutex mutex_;
  std::stop_source stop_;  // Of the request that is under way.
};

}  // namespace tenure::stress
