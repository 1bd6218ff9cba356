// keys.hpp: where a ticket's claims stand in the store.
//
//   \x01      path \0              stamp      an exclusive claim on that path
//   \x02\x01  path \0              stamp      a shared claim without a limit
//   \x02\x02  path \0  group flag  stamp      a claim in any other group; flag: it has a limit
//
// A claim is one entry, in one of three regions: the part before the path. In a path each segment
// has a \1 in front, so that in a region everything on a path is one range (… \0) and everything
// below it another (… \1), whatever the groups, and limit-1 reads find whether any of it is in the
// way. A group is the length of its name in two bytes, then the name. The stamp at the end is the
// ticket's number. The entries that share all that is before the stamp are a line.
//
// Tried and rejected:
//   An entry at each ancestor as well. It makes "below" sort by number, but a ticket then writes to
//   several pages of the tree, and 50,000 foreign tickets cost half as much again.
//   The group before the path. Every line then sorts by number, but a request has to read for each
//   group that is alive anywhere. Shared claims keep a region of their own for that order: they are
//   the group that exclusive claims meet most.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

inline constexpr std::string_view exclusive_region = reserved::exclusive_claims;
inline constexpr std::string_view shared_region = reserved::shared_claims;
inline constexpr std::string_view group_region = reserved::group_claims;

// What all claims of a region on exactly this path begin with, and all below it.
[[nodiscard]] std::string here(std::string_view region, const Path& path);
[[nodiscard]] std::string below(std::string_view region, const Path& path);
// In group_region: what all claims in a group on this path begin with, limited or not.
[[nodiscard]] std::string here(const Path& path, std::string_view group);

// The line that the claim's entries are in: all but the stamp.
[[nodiscard]] std::string line_of(const Claim& claim);
// That of the same group, but with a limit if this one has none: requests would disagree.
[[nodiscard]] std::string other_limit_line(const Claim& claim);

// The group of the claim with that key; empty: it has none, or no claim has such a key.
[[nodiscard]] std::string_view group_in(std::string_view key) noexcept;

// What a key says: the claim and the ticket's number. Whether there is a limit is known, but not
// which; the mode then has a limit of 1.
struct RowKey {
  Claim claim;
  Token number;
};
// Nothing: no ticket has such a key.
[[nodiscard]] std::optional<RowKey> parse_key(std::string_view key);

// All tickets with an owner, by owner: \x06 owner \0 stamp, with the ticket's first claim as the
// value; the owner is written as a path is. Long segments are cut, so the entries of other owners
// may be among those of one. What all entries of an owner begin with, and all of its descendants:
[[nodiscard]] std::string owner_line(const Owner& owner);
[[nodiscard]] std::string below_owner(const Owner& owner);

// An entry's key, and the number in it.
[[nodiscard]] std::string row_key(const Claim& claim, Token number);
[[nodiscard]] Token number_in(std::string_view key) noexcept;

}  // namespace tenure::stored
