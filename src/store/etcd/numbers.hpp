// numbers.hpp: our revisions, and how they hang together with etcd's.
//
//   etcd's revision   h        h+1   h+2   …            h'
//   what it is        head H   removals, others' …      head H'
//   ours              H        H+1   H+2   …            H'
//
// Heads are `apart` apart at least, so what lies between two of them is larger than the first,
// smaller than the second and different for each of etcd's revisions. An apply that only removes
// therefore need not move the head, nor race for it: it puts the tail, and who reads both knows
// from etcd's revisions of them which number is the newest.
//
// Others use the cluster too, so any number of etcd's revisions may lie behind a head. An apply
// that only removes makes sure that it is not more than `apart` (plan.hpp): it asks that the head
// was young a moment ago, and else moves it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tenure/store.hpp"

namespace tenure::etcd {

inline constexpr std::uint64_t apart = std::uint64_t{1} << 17U;
// Heads a second, for as long as they follow the time: 32 bits of seconds, 15, and 17.
inline constexpr std::uint64_t heads_a_second = std::uint64_t{1} << 15U;
// How old a head may have been, in etcd's revisions, for a removal not to move it.
inline constexpr std::int64_t max_age = apart / 2;

// The revision of ours that was made at etcd's, when `head` was put at etcd's `put_at`.
[[nodiscard]] inline Revision revision_at(Revision head, std::int64_t put_at,
                                          std::int64_t by_etcd) noexcept {
  const auto behind = static_cast<std::uint64_t>(std::max<std::int64_t>(by_etcd - put_at, 0));
  return Revision{head.value + std::min(behind, apart - 1)};
}

// Whether that revision is its own.
[[nodiscard]] inline bool is_exact(std::int64_t put_at, std::int64_t by_etcd) noexcept {
  return by_etcd - put_at < static_cast<std::int64_t>(apart) - 1;
}

}  // namespace tenure::etcd
