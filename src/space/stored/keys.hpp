// keys.hpp: the keys of a ticket's claims in the store.
//
//   \x01      path \0              stamp      an exclusive claim on that path
//   \x02\x01  path \0              stamp      a shared claim without a limit
//   \x02\x02  path \0  group flag  stamp      a claim in any other group; flag: it has a limit
//
// A claim is one entry in one of three regions; the bytes before the path name the region. Each
// segment of a path has a \1 in front. So within a region all claims on a path are one range (… \0)
// and all claims below it another (… \1), whatever their groups, and a limit-1 read finds whether
// any of them conflicts. A group is the length of its name in two bytes, then the name. The stamp
// at the end is the ticket's number. Entries that are equal up to the stamp form a line.
//
// A claim that takes more than 1 of its limit has a second entry, its shadow, in the line of the
// same group without a limit. Programs that know no weights would count the claim as 1. The shadow
// keeps them out: they guard each append with a limit on that line being empty, and refuse the
// format of the entry that they find there (row.hpp).
//
// Tried and rejected:
//   An entry at each ancestor as well. It makes "below" sort by number, but a ticket then writes to
//   several pages of the tree, and 50,000 foreign tickets cost half as much again.
//   The group before the path. Every line then sorts by number, but a request must read once per
//   group that is alive anywhere. Shared claims have a region of their own to keep that order:
//   exclusive claims meet no other group as often.
//   Claims with weights in a line of their own. A limit then has two lines to read, and programs
//   that do not know that line would take its entries for damaged ones.
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

// The prefix of all claims of a region on exactly this path, and of all claims below it.
[[nodiscard]] std::string here(std::string_view region, const Path& path);
[[nodiscard]] std::string below(std::string_view region, const Path& path);
// In group_region: the prefix of all claims in a group on this path, with or without a limit.
[[nodiscard]] std::string here(const Path& path, std::string_view group);

// The line of the claim: its key without the stamp.
[[nodiscard]] std::string line_of(const Claim& claim);
// The line of the same group with a limit if this claim has none, and the other way round. Requests
// in both would disagree on the limit.
[[nodiscard]] std::string other_limit_line(const Claim& claim);
// The line of the claim's shadow; empty: it has none.
[[nodiscard]] std::string shadow_line(const Claim& claim);

// The group in a claim's key; empty if the claim has none, or the key is not that of a claim.
[[nodiscard]] std::string_view group_in(std::string_view key) noexcept;

// The contents of a key: the claim and the ticket's number. The key tells only whether there is a
// limit; if so, the mode has the limit 1 here.
struct RowKey {
  Claim claim;
  Token number;
};
// Null: not the key of a ticket.
[[nodiscard]] std::optional<RowKey> parse_key(std::string_view key);

// The index of owners has an entry for each ticket with an owner: \x06 owner \0 stamp, with the
// ticket's first claim as the value. The owner is written like a path. Long segments are cut, so a
// range of one owner may contain entries of another. The prefix of all entries of an owner, and of
// its descendants:
[[nodiscard]] std::string owner_line(const Owner& owner);
[[nodiscard]] std::string below_owner(const Owner& owner);

// An entry's key, and the number in it.
[[nodiscard]] std::string row_key(const Claim& claim, Token number);
[[nodiscard]] std::string shadow_key(const Claim& claim, Token number);  // Empty: none.
[[nodiscard]] Token number_in(std::string_view key) noexcept;

}  // namespace tenure::stored
