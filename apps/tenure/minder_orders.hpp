// minder_orders.hpp: what wrapper and minder say to each other, and the minder's side of it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "descriptor.hpp"
#include "minder.hpp"

namespace tenure::cli {

// One packet of a SOCK_SEQPACKET pair; the session's descriptor comes with `launch`.
struct MinderOrder {
  enum class Kind : std::uint8_t { launch, signal, end, leave };
  Kind kind = Kind::leave;
  std::int32_t signal = 0;
  std::int32_t stop = 0;  // Of SIGCONT.
  std::uint64_t token = 0;
  std::int64_t kill_at = 0;  // Of CLOCK_BOOTTIME, in nanoseconds; 0: never.
};
static_assert(std::is_trivially_copyable_v<MinderOrder>);
static_assert(std::is_trivially_copyable_v<MinderReport>);

// In the forked process; returns its exit status.
[[nodiscard]] int mind(const MinderPlan& plan, Descriptor wrapper);

}  // namespace tenure::cli
