// recorder.hpp: the base of worker threads: random numbers, a stop for the current request, and a
// log of every step. Client (here) and FaultClient (tests/faults) derive from it.
//
// Thread safety: stop_waiting() from any thread; the rest only from the thread that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/hold.hpp"
#include "tests/stress/event.hpp"
#include "tests/stress/tree.hpp"

namespace tenure::stress {

class Recorder {
 public:
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  void stop_waiting();  // Stops the current request, if it can be stopped.

 protected:
  // `grants` are counted for the driver.
  Recorder(const Log& log, std::atomic<std::uint64_t>& grants, unsigned thread, std::uint64_t seed)
      : random_(seed), log_(log), grants_(grants), thread_(thread) {}
  ~Recorder() = default;

  void write(std::uint64_t request, Event::Kind kind, std::uint64_t a = 0, std::string word = {},
             std::vector<Claim> claims = {}, std::uint64_t b = 0) const;
  void write_grant(std::uint64_t request, const Hold& hold) const;
  [[nodiscard]] std::stop_token new_stop();  // For the next request.
  // Releases the hold or drops it. Returns false if it was lost before that. If the store may fail,
  // a StoreError is not a violation: the hold is released as soon as possible.
  [[nodiscard]] bool give_back(std::uint64_t request, Hold hold, bool store_may_fail);

  Random random_;

 private:
  const Log& log_;
  std::atomic<std::uint64_t>& grants_;
  const unsigned thread_;
  std::mutex mutex_;
  std::stop_source stop_;  // Guarded by mutex_.
};

// The text of an error as one word of a log.
[[nodiscard]] std::string one_word(std::string_view text);

}  // namespace tenure::stress
