// shards.hpp: "sharded:FILE": one space over several stores, for more locks per second than one
// store can do.
//
//   # /etc/tenure/shards: a name and a URL per line
//   east   etcd://a1,a2,a3/locks
//   west   postgres://db1/locks
//
//   tenure::set_shards("sharded:/etc/tenure/shards", {"east", "west"});   // Once.
//   tenure::Space space = tenure::open("sharded:/etc/tenure/shards");
//
// The first segment of a path (its root) has a home: one of the shards, by rendezvous hashing of
// the root and the names of the shards. The *map*, the list of those names, is stored in every
// shard. The file says where each named shard is; every process may have its own file, with other
// credentials. Names in the file that are not in the map are not used.
//
// What differs from a space in one store
//   - A request on `/`, or with claims whose roots have different homes, throws BadRequest.
//   - A shard that cannot be reached makes requests for its own roots throw StoreError. open()
//     needs one shard that answers. A process opens a shard with its first request there.
//   - The session of a process, and so lost(), is one per shard in use: Hold::lost() is about its
//     own shard, and Space::lost() stops with the first session that is lost. Requests that are
//     made later open a new session.
//   - Tokens of different roots are not comparable. Two shards may use the same number: evict(),
//     ask_to_leave() and find() throw BadRequest for a token that two shards have; evict_below(),
//     and find() with a path, ask the home of the path alone.
//   - inspect() and observe() of `/` join what the shards say, shard by shard, each at a moment of
//     its own. A shard that does not answer is one TicketInfo with number 0, no claims and a fault.
//   - A deadlock is found if all its tickets are in one shard. A cycle through several shards is
//     not: lock roots in one order everywhere, or with a time limit.
//   - anchored(key), with_txn(part) and hold.guard() mean keys of the home of the claims.
//
// The map is changed by set_shards() alone, while programs run. A request that was on its way
// throws ShardsChanged if it cannot be repeated without the caller.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/error.hpp"
#include "tenure/path.hpp"

namespace tenure {

// The map of a sharded space was changed while the request was made. Nothing was left behind:
// repeat the request. Calls that wait for the store (lock(), try_lock()) repeat it themselves.
class ShardsChanged : public Error {
 public:
  using Error::Error;
};

struct ShardInfo {
  std::string name;
  std::string url;            // Without passwords.
  bool in_map = false;        // Roots may have their home there.
  std::uint64_t version = 0;  // Of the map that is stored in this shard; 0: it has none.
  std::string fault;          // Why it cannot be used; empty: it can.
};

struct ShardsInfo {
  std::uint64_t version = 0;          // Grows with every change of the map; 0: there is no map.
  std::vector<std::string> names;     // Of the shards in the map, sorted.
  std::vector<std::string> changing;  // Not empty: a change to these has not been finished.
  std::vector<ShardInfo> shards;      // Those of the file, in its order.
};

// What the shards of a "sharded:" URL say. Throws Error for a URL or a file that is not valid.
[[nodiscard]] ShardsInfo shards(std::string_view url);

// The name of the shard that has `path`. Throws BadRequest for `/`, and what shards() throws.
[[nodiscard]] std::string shard_of(std::string_view url, const Path& path);

struct SetShards {
  // How long to wait until no ticket of a root that moves is left. Requests for these roots throw
  // StoreError meanwhile.
  std::chrono::nanoseconds wait{0};
};
// Makes these shards, by name, the map, or creates the map. Every shard of the old and of the new
// map must answer. Throws Error, and leaves the map as it was, if there are tickets of roots that
// would move, or if tokens of such a root would fall.
//
// A call that was interrupted has changed nothing, or all of it as soon as the same call is
// repeated. Until then requests for roots that move throw StoreError. set_shards() with the old
// names takes the change back, unless it was made already.
void set_shards(std::string_view url, std::vector<std::string> names, SetShards options = {});

}  // namespace tenure
