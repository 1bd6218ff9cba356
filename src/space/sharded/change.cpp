#include "space/sharded/change.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "space/sharded/shard_map.hpp"
#include "space/stored/rows.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/detail/reserved_keys.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::sharded {
namespace {

using namespace std::chrono_literals;

constexpr auto drain_look_time = 100ms;
constexpr std::size_t max_named_tickets = 3;

std::string text_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " ") + name;
  return out;
}

// 128 random bits, as hexadecimal digits.
std::string new_id() {
  constexpr std::string_view digits = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int i = 0; i < 32; ++i) id += digits[random() % digits.size()];
  return id;
}

struct OneShard {
  std::shared_ptr<Store> store;
  StoredMap stored;
};

// One attempt to change the map, with all shards that it concerns open.
class Change {
 public:
  Change(const std::vector<ShardSource>& sources, std::vector<std::string> names)
      : sources_(sources), wanted_(std::move(names)) {
    // Any shard may have the map, also one that is not wanted any more.
    std::string silent;
    for (const ShardSource& source : sources_) {
      if (!exists(source)) continue;
      try {
        open(source.name);
      } catch (const StoreError&) {
        silent = source.name;
      }
    }
    find_map();
    // A map that a silent shard has would be made a second time.
    if (map_.version == 0 && !silent.empty()) open(silent);
    for (const auto& needed : std::array{wanted_, map_.names, map_.next}) {
      for (const std::string& name : needed) open(name);
    }
  }

  void run(const SetShards& options, const std::function<void()>& pause) {
    if (map_.version == 0) {
      create();
    } else if (map_.stable() && map_.names == wanted_) {
      publish();  // For shards that an interrupted change did not reach.
    } else if (!map_.stable() && map_.names == wanted_) {
      commit(map_.names);  // Takes the change back.
    } else {
      if (!map_.stable() && map_.next != wanted_) refuse_other_change();
      move_roots(options, pause);
    }
  }

 private:
  void open(const std::string& name) {
    if (shards_.contains(name)) return;
    const auto source = std::ranges::find(sources_, name, &ShardSource::name);
    if (source == sources_.end()) {
      throw Error("shard '" + name + "' is not in the list of shards: add its name and URL");
    }
    try {
      OneShard shard{.store = source->open(), .stored = {}};
      shard.stored = read_map(*shard.store, name);
      shards_.emplace(name, std::move(shard));
    } catch (const Error& error) {
      throw StoreError("the map cannot be changed while shard '" + name + "' (" + source->shown +
                       ") does not answer: " + error.what());
    }
  }

  // The map with the largest version counts.
  void find_map() {
    for (const auto& [name, shard] : shards_) {
      const ShardMap& seen = shard.stored.map;
      if (seen.version == 0) continue;
      if (map_.version != 0 && seen.id != map_.id) {
        throw Error("shard '" + name +
                    "' belongs to another sharded space: a store can be a shard of one only");
      }
      if (seen.version > map_.version) map_ = seen;
    }
  }

  // Guarded on what was read: throws if another operator was faster.
  void write(const std::string& name, const ShardMap& map) {
    OneShard& shard = shards_.at(name);
    Txn txn;
    txn.guards.push_back(shard.stored.guard());
    txn.writes.push_back(Write::put(std::string{reserved::shard_map}, map.text(name)));
    txn.durability = Durability::full;
    bool committed = false;
    try {
      committed = shard.store->apply(txn).committed;
    } catch (const StoreError& error) {
      throw StoreError("the change of the shards was interrupted at shard '" + name +
                       "'; repeat it: " + error.what());
    }
    if (!committed) {
      throw Error("the map was changed by another call at the same time, in shard '" + name +
                  "': run 'tenure shards' to see it, and repeat yours");
    }
    shard.stored = read_map(*shard.store, name);
  }

  // Writes the map where an older one is.
  void write_all(const std::vector<std::string>& names, const ShardMap& map) {
    for (const std::string& name : names) {
      if (shards_.at(name).stored.map.version < map.version) write(name, map);
    }
  }

  void create() {
    map_ = {.id = new_id(), .version = 1, .names = wanted_, .next = {}};
    write_all(wanted_, map_);
  }

  void publish() {
    std::vector<std::string> all;
    for (const auto& [name, shard] : shards_) {
      if (map_.has(name) || shard.stored.map.version != 0) all.push_back(name);
    }
    write_all(all, map_);
  }

  // Of a map that is frozen. The first shard of the old map decides.
  void commit(std::vector<std::string> names) {
    const std::string first = map_.names.front();
    map_ = {.id = map_.id, .version = map_.version + 1, .names = std::move(names), .next = {}};
    write(first, map_);
    publish();
  }

  void move_roots(const SetShards& options, const std::function<void()>& pause) {
    const bool frozen_before = !map_.stable();
    ShardMap frozen = map_;
    if (!frozen_before) {
      frozen.next = wanted_;
      ++frozen.version;
      // Before anything is written: a call that would fail anyway disturbs nobody.
      check_tokens(frozen);
      if (options.wait <= 0ns) refuse_tickets(frozen);
    }
    map_ = frozen;
    write_all(frozen.names, frozen);
    try {
      drain(frozen, options, pause);
      check_tokens(frozen);
    } catch (const StoreError&) {
      throw;  // A shard does not answer: the call is to be repeated.
    } catch (const Error&) {
      commit(frozen.names);
      throw;
    }
    commit(wanted_);
  }

  void drain(const ShardMap& frozen, const SetShards& options, const std::function<void()>& pause) {
    const auto end = detail::saturating_add(std::chrono::steady_clock::now(), options.wait);
    while (std::chrono::steady_clock::now() < end) {
      if (tickets_that_move(frozen).empty()) return;
      pause();
    }
    refuse_tickets(frozen);
  }

  // Live tickets with a claim on a root that moves, as text. Removes dead ones.
  [[nodiscard]] std::vector<std::string> tickets_that_move(const ShardMap& frozen) const {
    std::vector<std::string> out;
    for (const std::string& name : frozen.names) {
      Store& store = *shards_.at(name).store;
      Txn read;
      read.reads.push_back(stored::rows_range());
      const stored::Rows rows = stored::read_rows(std::move(store.apply(read).reads.front()));
      const auto add = [&](Token number, const std::vector<Claim>& claims) {
        const auto moving = std::ranges::find_if(claims, [&](const Claim& claim) {
          // A ticket on `/`, by a program that does not know the shards, covers all roots.
          return claim.path.is_root() || frozen.moves(root_of(claim.path));
        });
        if (moving == claims.end()) return;
        out.push_back("'" + moving->path.text() + "' in shard '" + name + "' (ticket " +
                      std::to_string(number.value) + ")");
      };
      stored::Hints hints;
      const stored::Tickets tickets{store, hints};
      for (const stored::Seen& seen : rows.tickets) {
        const bool gone = tickets.overdue(seen.row)
                              ? tickets.remove(seen)
                              : !tickets.alive(seen.row) && tickets.remove_dead(seen);
        if (!gone) add(seen.number, seen.row.claims);
      }
      for (const stored::Unreadable& found : rows.unreadable) add(found.number, found.claims);
    }
    return out;
  }

  void refuse_tickets(const ShardMap& frozen) const {
    const std::vector<std::string> tickets = tickets_that_move(frozen);
    if (tickets.empty()) return;
    std::string listed;
    for (std::size_t i = 0; i < std::min(tickets.size(), max_named_tickets); ++i) {
      listed += (i == 0 ? "" : ", ") + tickets[i];
    }
    if (tickets.size() > max_named_tickets) listed += ", …";
    throw Error("the map was not changed: " + std::to_string(tickets.size()) +
                " live tickets are of roots that would move to another shard: " + listed +
                ". Wait until they are released ('tenure shards set --wait DURATION'), or evict "
                "them");
  }

  // The largest number that the store has used.
  [[nodiscard]] Revision newest(const std::string& name) const {
    Txn txn;
    // Always true. It makes the store answer with a revision that covers all roots.
    txn.guards.push_back(Guard::quiet(stored::rows_range(), this_apply));
    return shards_.at(name).store->apply(txn).revision;
  }

  void check_tokens(const ShardMap& frozen) const {
    const auto differ = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
      std::vector<std::string> out;
      std::ranges::set_difference(a, b, std::back_inserter(out));
      return out;
    };
    const std::vector<std::string> added = differ(frozen.next, frozen.names);
    const std::vector<std::string> removed = differ(frozen.names, frozen.next);
    const std::vector<std::string>& givers = added.empty() ? removed : frozen.names;
    const std::vector<std::string>& takers = removed.empty() ? added : frozen.next;
    for (const std::string& giver : givers) {
      const Revision used = newest(giver);
      for (const std::string& taker : takers) {
        if (taker == giver || newest(taker) >= used) continue;
        refuse_fall(giver, taker);
      }
    }
  }

  [[noreturn]] static void refuse_fall(const std::string& giver, const std::string& taker) {
    throw Error("the map was not changed: roots would move from shard '" + giver + "' to shard '" +
                taker +
                "', which issues smaller tokens, so fences would refuse the new holders. Move them "
                "to a store that is made now instead: a new database, schema, prefix or file, "
                "under a new name in the list of shards");
  }

  [[noreturn]] void refuse_other_change() const {
    throw Error("a change of the shards to '" + text_of(map_.next) +
                "' has not been finished: repeat it, or take it back with 'tenure shards set " +
                text_of(map_.names) + "'");
  }

  const std::vector<ShardSource>& sources_;
  const std::vector<std::string> wanted_;
  std::map<std::string, OneShard> shards_;
  ShardMap map_;
};

}  // namespace

ShardsInfo look_at_shards(const std::vector<ShardSource>& sources) {
  ShardsInfo out;
  out.shards.resize(sources.size());
  std::vector<StoredMap> maps(sources.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      ShardInfo& info = out.shards[i];
      info.name = sources[i].name;
      info.url = sources[i].shown;
      if (!exists(sources[i])) continue;
      threads.emplace_back([&source = sources[i], &info, &stored = maps[i]] {
        try {
          stored = read_map(*source.open(), source.name);
          info.version = stored.map.version;
        } catch (const std::exception& error) {
          info.fault = error.what();
        }
      });
    }
  }
  std::string id;
  for (const StoredMap& one : maps) {
    if (one.map.version <= out.version) continue;
    id = one.map.id;
    out.version = one.map.version;
    out.names = one.map.names;
    out.changing = one.map.next;
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    ShardInfo& info = out.shards[i];
    info.in_map = std::ranges::binary_search(out.names, info.name);
    if (!info.fault.empty()) continue;
    if (info.version != 0 && maps[i].map.id != id) {
      info.fault = "it belongs to another sharded space";
    } else if (info.in_map && info.version != out.version) {
      info.fault = "its map has version " + std::to_string(info.version) + ", others have " +
                   std::to_string(out.version) + ": repeat 'tenure shards set'";
    }
  }
  return out;
}

void change_map(const std::vector<ShardSource>& sources, std::vector<std::string> names,
                const SetShards& options, const std::function<void()>& pause) {
  Change{sources, checked_names(std::move(names))}.run(options, pause);
}

}  // namespace tenure::sharded

namespace tenure {

ShardsInfo shards(std::string_view url) {
  return sharded::look_at_shards(sharded::read_sources(url));
}

std::string shard_of(std::string_view url, const Path& path) {
  const std::string_view root = sharded::root_of(path);
  const ShardsInfo info = shards(url);
  if (info.names.empty()) {
    throw Error("'" + shown_url(url) + "' has no map that can be read: run 'tenure shards'");
  }
  return sharded::home_of(root, info.names);
}

void set_shards(std::string_view url, std::vector<std::string> names, SetShards options) {
  sharded::change_map(sharded::read_sources(url), std::move(names), options,
                      [] { std::this_thread::sleep_for(sharded::drain_look_time); });
}

}  // namespace tenure
