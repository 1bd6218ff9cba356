// messages.hpp: what an owner and its guardian send to each other, over a SOCK_SEQPACKET pair.
//
// An order is one packet. The texts of `launch` follow the Order, each with a NUL at its end: the
// directory, the paths of the three targets, the words, the environment. What does not fit into the
// first packet follows in packets of its own. Descriptors come with the first packet: those of
// targets, then the others; for `succeed`, the socket of the successor. An event is one packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "process/command.hpp"
#include "process/guardian.hpp"

namespace tenure::process {

struct Order {
  enum class Kind : std::uint8_t { launch, signal, stop, resume, end, leave, succeed };
  Kind kind = Kind::leave;
  Group group = Group::session;
  std::array<Target::Kind, 3> targets{};
  std::int32_t signal = 0;
  std::int32_t stop = 0;  // For SIGCONT: the stop that it ends.
  std::uint32_t words = 0;
  std::uint32_t variables = 0;
  std::uint64_t text_size = 0;
  std::int64_t kill_at = 0;  // Of CLOCK_BOOTTIME, in nanoseconds; 0: never.
};
static_assert(std::is_trivially_copyable_v<Order>);
static_assert(std::is_trivially_copyable_v<Event>);

inline constexpr std::size_t max_packet_text = 64UL * 1024;
inline constexpr std::size_t max_packet_descriptors = 3 + Command::max_descriptors;

}  // namespace tenure::process
