// numbers.hpp: our revisions, and the orders that they are in.
//
//   32 bits: seconds since 1970 | 15 bits: the part of the second | 5 bits: 0 | 12 bits: an order
//
// The first 47 bits are a *slot*: about the time, but larger than all slots before it in the same
// order. The last 12 bits are an order that the apply is in (scope.hpp). Every number with those
// bits moves the head of that order, and heads only rise: so no revision is used twice, although
// orders do not know of each other.
#pragma once

#include <cstdint>

#include "tenure/store.hpp"

namespace tenure::etcd {

using OrderId = std::uint16_t;
// The distance of two slots.
inline constexpr unsigned slot_shift = 17;
inline constexpr std::uint64_t apart = std::uint64_t{1} << slot_shift;
// Slots per second, as long as they follow the time. Not more: in a race clients propose a few
// slots in a row (proposer.hpp), which must reach beyond those that others take from the time.
inline constexpr std::uint64_t heads_a_second = std::uint64_t{1} << (32U - slot_shift);
inline constexpr OrderId order_count = OrderId{1} << 12U;

// Tickets on the path /, which is in every root.
inline constexpr OrderId top_order = 0;
// All keys that are not those of tickets.
inline constexpr OrderId other_order = 1;
// Roots share the orders from here on, by their hashes. Nothing is in the first one: its head is
// there so that a comparison of all of them finds at least one.
inline constexpr OrderId no_root = 2;
inline constexpr OrderId first_root = 3;
inline constexpr OrderId root_orders = order_count - first_root;

[[nodiscard]] constexpr std::uint64_t slot_of(Revision revision) noexcept {
  return revision.value >> slot_shift;
}

}  // namespace tenure::etcd
