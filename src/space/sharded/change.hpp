// change.hpp: how the map of a sharded space is created and changed, while programs use it.
//
//   step     | write, in the order of names               | after it
//   ---------+--------------------------------------------+------------------------------------
//   freeze   | V + 1, changing: every shard of the old map| no program appends a ticket of a root
//            |                                            | that moves: its gate is shut
//   drain    | none: until no such ticket is left         | the roots that move are free
//   commit   | V + 2, stable: the first shard of the old  | the change is made
//            | map                                        |
//   publish  | V + 2: all others, old and new             | programs lock the roots at new homes
//
// Every write is guarded on the entry as it was read, so of two operators one gets an error. The
// first shard of the old map decides: freeze and commit begin there, and so does taking a change
// back, which writes V + 2 with the old names. Before the commit no shard has V + 2, after it no
// shard lets a ticket of a moved root in at its old home.
//
// An interrupted change is finished, or taken back, by the next call, as the versions say.
//
// Tokens of a root must not fall when it moves: a shard that gets roots must have used larger
// numbers than those that give them away. Numbers begin with the time at which a store was made
// (seconds, shifted), so a store that is made for the change has larger ones.
//
// Thread safety: all calls.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "space/sharded/shard_list.hpp"
#include "tenure/shards.hpp"

namespace tenure::sharded {

[[nodiscard]] ShardsInfo look_at_shards(const std::vector<ShardSource>& sources);

// As tenure::set_shards(). `pause` is called between two looks at tickets that must go first.
void change_map(const std::vector<ShardSource>& sources, std::vector<std::string> names,
                const SetShards& options, const std::function<void()>& pause);

}  // namespace tenure::sharded
