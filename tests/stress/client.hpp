// client.hpp: one thread of a worker: requests, holds, releases, and logs each step.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tenure/space.hpp"
#include "tests/stress/event.hpp"
#include "tests/stress/progress.hpp"
#include "tests/stress/recorder.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::stress {

class Client : public Recorder {
 public:
  struct Setup {
    const Space& space;
    const Log& log;
    std::atomic<std::uint64_t>& grants;  // Counted for the driver.
    std::int64_t clock_base;             // Upper bound of the store's clock minus CLOCK_BOOTTIME.
  };
  Client(const Setup& setup, unsigned thread, std::string owner, std::uint64_t seed);

  void round();  // One request, and further requests while it is held.

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
  [[nodiscard]] std::optional<Hold> call(const Locker& locker, const Ask& ask,
                                         const std::stop_token& stop);
  [[nodiscard]] std::optional<Hold> get(const Locker& locker, const Ask& ask,
                                        const std::stop_token& stop);
  void keep(Hold& hold, const Ask& ask);
  void log_deadline(const Hold& hold, const Ask& ask);
  void narrow(Hold& hold, const Ask& ask);
  Hold hold_again(Hold hold);
  void hold_for_a_while(const Ask& ask, const std::stop_token& lost);

  Setup setup_;
  Locker owner_;
  std::uint64_t requests_ = 0;
};

}  // namespace tenure::stress
