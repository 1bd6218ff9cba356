// rates.hpp: so many starts per time.
//
// A limit of N is a ring of N times in the store, and a counter. The k-th start writes its time to
// slot k mod N, and starts no sooner than one period after the time that was there: so no period
// has more than N starts. A start that has to wait gets a later time; nothing queues or polls.
//
// Thread safety: pure functions of the store.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "tenure/store.hpp"

namespace tenure::flow {

struct RateLimitOptions {
  std::uint32_t max = 0;  // 0: no limit.
  std::chrono::nanoseconds per{};
  std::chrono::nanoseconds wait{};  // How much later a start may be.
};

// What a start adds to its transaction. The guard fails where another start was quicker.
struct RateTurn {
  Guard guard;
  Write counter;
  Write slot;
  Instant starts;  // At `wanted` at the soonest.
  bool refused = false;
};
[[nodiscard]] RateTurn take_rate(Store& store, const std::string& slots,
                                 const RateLimitOptions& limit, Instant wanted);

}  // namespace tenure::flow
