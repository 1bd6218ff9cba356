// orders.hpp: the order that a key belongs to, if a store orders the applies of each root by
// themselves: by the name of the root for the key of a ticket, by the key for every other one.
//
// The path / is in every root. A ticket there, and a read of all that is below /, belong to all
// orders.
//
// The layout of the keys of tickets is that of space/stored/keys.hpp: a region, then \0 for the
// path /, or \1 and the first segment.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tenure/store.hpp"

namespace tenure::stores {

// Of tickets on the path /, and of all that is below it.
inline constexpr std::string_view all_orders = "/";

[[nodiscard]] std::string order_of_key(std::string_view key);
// The order that a range is in. Null: none; it tells what is there at the moment.
[[nodiscard]] std::optional<std::string> order_of(const Range& range);

}  // namespace tenure::stores
