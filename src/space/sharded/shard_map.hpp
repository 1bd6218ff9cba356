// shard_map.hpp: which shard is the home of a root: the map of a sharded space, as a value and as
// the entry that each shard stores.
//
//   state      version   names   next
//   stable     V         old     none
//   changing   V + 1     old     new     roots with another home among `next` may not be locked
//   stable     V + 2     new     none    or `old` again, if the change was taken back
//
// Invariants
//   1. Maps of one space (`id`) with the same version are equal (change.hpp). So of two maps the
//      one with the larger version counts.
//   2. The home of a root depends on the root and the names alone: the same in every process, on
//      every machine, in every release. A test compares it with fixed values.
//
// Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/path.hpp"
#include "tenure/store.hpp"

namespace tenure::sharded {

inline constexpr std::size_t max_shards = 256;
inline constexpr std::size_t max_name = 64;

// Why this cannot be the name of a shard; empty: it can. Letters, digits, '.', '_' and '-'.
[[nodiscard]] std::string name_fault(std::string_view name);
// Sorts them. Throws Error if there are none, too many, one twice, or one that is no name.
[[nodiscard]] std::vector<std::string> checked_names(std::vector<std::string> names);

// Rendezvous hashing: the root goes to the name with the largest score for it. A name that is added
// takes roots from all others in equal shares; the roots of one that is removed go to all others.
// `names` must not be empty.
[[nodiscard]] const std::string& home_of(std::string_view root,
                                         const std::vector<std::string>& names) noexcept;
// The first segment. Throws BadRequest for `/`, which has no home.
[[nodiscard]] std::string_view root_of(const Path& path);

struct ShardMap {
  std::string id;  // Of the sharded space.
  std::uint64_t version = 0;
  std::vector<std::string> names;  // Sorted.
  std::vector<std::string> next;   // Sorted; empty: stable.

  [[nodiscard]] bool stable() const noexcept { return next.empty(); }
  [[nodiscard]] bool has(std::string_view name) const noexcept;
  // Whether the change that is under way gives the root another home.
  [[nodiscard]] bool moves(std::string_view root) const noexcept;
  // As an entry: JSON, with the name of the shard that stores it.
  [[nodiscard]] std::string text(std::string_view self) const;
  friend bool operator==(const ShardMap&, const ShardMap&) = default;
};

// The entry in one shard.
struct StoredMap {
  ShardMap map;      // Version 0: the shard has none.
  std::string self;  // The shard's name, as the entry says.
  Revision changed;  // Of the entry.

  // Holds as long as the entry is the same, or absent as it was.
  [[nodiscard]] Guard guard() const;
};
// The error says what is wrong with the text.
[[nodiscard]] std::expected<StoredMap, std::string> parse_map(std::string_view text);

// Reads the entry of the shard that is to be `name`. Throws StoreError for an entry that is not
// valid, or of another shard: the file names the wrong store then.
[[nodiscard]] StoredMap read_map(Store& store, std::string_view name);

}  // namespace tenure::sharded
