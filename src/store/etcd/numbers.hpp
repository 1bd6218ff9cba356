// numbers.hpp: our revisions, and how they relate to etcd's.
//
//   etcd's revision   h        h+1   h+2   …            h'
//   what it is        head H   removals, others' …      head H'
//   ours              H        H+1   H+2   …            H'
//
// Heads differ by at least `apart`, so the numbers between two of them are larger than the first,
// smaller than the second and different for each revision of etcd's. An apply that only removes
// therefore need not move the head, nor race for it: it puts the tail, and a client that reads both
// can compute the newest number from etcd's revisions of them.
//
// Other programs use the cluster too, so any number of etcd's revisions may follow a head. An apply
// that only removes makes sure that there are fewer than `apart`: it requires that the head was
// young a moment ago, and otherwise moves it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tenure/store.hpp"

namespace tenure::etcd {

inline constexpr std::uint64_t apart = std::uint64_t{1} << 17U;
// Heads per second, as long as they follow the time: 32 bits of seconds, 15 bits, and 17 bits.
inline constexpr std::uint64_t heads_a_second = std::uint64_t{1} << 15U;
// The maximum age of a head, in etcd's revisions, for a removal that does not move it.
inline constexpr std::int64_t max_age = apart / 2;

// The revision of ours that was made at etcd's revision `by_etcd`, if `head` was put at `put_at`.
[[nodiscard]] inline Revision revision_at(Revision head, std::int64_t put_at,
                                          std::int64_t by_etcd) noexcept {
  const auto behind = static_cast<std::uint64_t>(std::max<std::int64_t>(by_etcd - put_at, 0));
  return Revision{head.value + std::min(behind, apart - 1)};
}

// Whether that revision belongs to `by_etcd` alone.
[[nodiscard]] inline bool is_exact(std::int64_t put_at, std::int64_t by_etcd) noexcept {
  return by_etcd - put_at < static_cast<std::int64_t>(apart) - 1;
}

}  // namespace tenure::etcd
