// keys.hpp: where a ticket's claims stand in the store.
//
//   \x01              path  \0  stamp      an exclusive claim on that path
//   \x02 group flag   path  \0  stamp      a claim in that group; flag: whether it has a limit
//
// A claim is one entry. Its class is the part before the path: what is exclusive, or one group with
// or without a limit. In a path each segment has a \1 in front, so that in a class everything on a
// path is one range (… \0) and everything below it another (… \1), and limit-1 reads find whether
// any of it is in the way. The stamp at the end is the ticket's number.
//
// Tried and rejected: an entry at each ancestor as well. It makes "below" sort by number, but a
// ticket then writes to several pages of the tree, and 50,000 foreign tickets cost half as much
// again.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

inline constexpr std::string_view exclusive_class{"\x01", 1};
inline constexpr std::string_view group_tag{"\x02", 1};

[[nodiscard]] std::string class_of(const Mode& mode);
// The class with the other flag: the same group, on which requests would disagree.
[[nodiscard]] std::string other_limit_class(const Mode& mode);
[[nodiscard]] std::string group_class(std::string_view group, bool limited);

// The class at the front of an entry's key; empty when it is no claim's. That of a class is itself.
[[nodiscard]] std::string_view class_in(std::string_view key) noexcept;
// The group's name in a class; empty for exclusive.
[[nodiscard]] std::string_view group_in(std::string_view cls) noexcept;

// All claims of a class on exactly this path, and below it.
[[nodiscard]] std::string here(std::string_view cls, const Path& path);
[[nodiscard]] std::string below(std::string_view cls, const Path& path);
[[nodiscard]] inline std::string here(const Claim& claim) {
  return here(class_of(claim.mode), claim.path);
}

// What a key says: the claim and the ticket's number. Whether there is a limit is known, but not
// which; the mode then has a limit of 1.
struct RowKey {
  Claim claim;
  Token number;
};
// Nothing: no ticket has such a key.
[[nodiscard]] std::optional<RowKey> parse_key(std::string_view key);

// An entry's key, and the number in it.
[[nodiscard]] std::string row_key(const Claim& claim, Token number);
[[nodiscard]] Token number_in(std::string_view key) noexcept;

}  // namespace tenure::stored
