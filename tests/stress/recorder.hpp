// recorder.hpp: what each worker thread of a run has: random numbers, the stop of the request under
// way, and a log of every step. Client (here) and FaultClient (tests/faults) are the two kinds.
//
// Thread safety: stop_waiting() from any thread; the rest is for the thread that runs it.
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
  void stop_waiting();  // Stops the request under way, where it can be stopped.

 protected:
  // `grants` are counted for the driver.
  Recorder(const Log& log, std::atomic<std::uint64_t>& grants, unsigned thread, std::uint64_t seed)
      : random_(seed), log_(log), grants_(grants), thread_(thread) {}
  ~Recorder() = default;

  void write(std::uint64_t request, Event::Kind kind, std::uint64_t a = 0, std::string word = {},
             std::vector<Claim> claims = {}, std::uint64_t b = 0) const;
  void write_grant(std::uint64_t request, const Hold& hold) const;
  [[nodiscard]] std::stop_token new_stop();  // Of the next request.
  // Releases the hold or drops it. Returns false where it was lost before that. Where the store may
  // fail, a StoreError is no finding: the hold is released as soon as it can be.
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
