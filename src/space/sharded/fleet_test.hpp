// fleet_test.hpp: for tests: shards in memory that can be switched off, and programs that use them.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "space/sharded/change.hpp"
#include "space/sharded/shard_list.hpp"
#include "space/sharded/shard_map.hpp"
#include "space/sharded/sharded_space.hpp"
#include "space/stored/rows.hpp"
#include "tenure/memory_store.hpp"
#include "tenure/shards.hpp"
#include "tenure/space.hpp"

namespace tenure::sharded {

class Fleet {
 public:
  explicit Fleet(const std::vector<std::string>& names) {
    for (const std::string& name : names) add(name);
  }

  // Its numbers are larger than those of all others, as if it was made now.
  void add(const std::string& name) {
    Revision newest;
    for (const auto& [other, one] : shards_)
      newest = std::max(newest, one.store->apply({}).revision);
    const auto store = std::make_shared<MemoryStore>();
    Txn put;
    put.writes.push_back(Write::put("x", ""));
    while (store->apply(put).revision.value <= newest.value + 100) {
    }
    shards_.emplace(name, One{.store = store});
  }

  [[nodiscard]] MemoryStore& store(const std::string& name) { return *shards_.at(name).store; }
  // Stores of a shard that is down cannot be opened; those that are open fail every apply.
  void set_down(const std::string& name, bool down) {
    shards_.at(name).down->store(down);
    store(name).before_apply(down ? [](const Txn& /*txn*/) { throw StoreError("it is down"); }
                                  : std::function<void(const Txn&)>{});
  }
  // Called by each thread that opens the store of a shard.
  using OnOpen = std::function<void(const std::string& name)>;
  void on_open(OnOpen call) { *on_open_ = std::move(call); }

  [[nodiscard]] std::vector<ShardSource> sources() {
    std::vector<ShardSource> out;
    for (const auto& item : shards_) {
      out.push_back({.name = item.first,
                     .url = {},
                     .shown = "memory:" + item.first,
                     .open = [item, call = on_open_]() -> std::shared_ptr<Store> {
                       if (*call != nullptr) (*call)(item.first);
                       if (item.second.down->load()) throw StoreError("it is down");
                       return item.second.store;
                     }});
    }
    return out;
  }
  void set(
      std::vector<std::string> names, SetShards options = {},
      const std::function<void()>& pause = [] {}) {
    change_map(sources(), std::move(names), options, pause);
  }
  [[nodiscard]] Space open() {
    return detail::SpaceAccess::make(ShardedSpace::open(sources(), SessionOptions{}));
  }

  // The paths that are locked in one shard's store: "book film".
  [[nodiscard]] std::string locked(const std::string& name) {
    Txn read;
    read.reads.push_back(stored::rows_range());
    std::string out;
    for (const stored::Seen& seen :
         stored::read_rows(std::move(store(name).apply(read).reads.front())).tickets) {
      for (const Claim& claim : seen.row.claims) out += (out.empty() ? "" : " ") + claim.text();
    }
    return out;
  }
  [[nodiscard]] std::size_t sessions(const std::string& name) {
    Txn read;
    read.reads.push_back(Range::prefix(std::string{session_prefix}));
    return store(name).apply(read).reads.front().size();
  }

 private:
  struct One {
    std::shared_ptr<MemoryStore> store;
    std::shared_ptr<std::atomic<bool>> down = std::make_shared<std::atomic<bool>>(false);
  };
  std::map<std::string, One> shards_;
  std::shared_ptr<OnOpen> on_open_ = std::make_shared<OnOpen>();
};

// The first of r0, r1, … whose home is `name`, and with more names `then` another one.
inline std::string root_in(const std::string& name, const std::vector<std::string>& names,
                           const std::string& then = {},
                           const std::vector<std::string>& later = {}) {
  for (int i = 0;; ++i) {
    std::string root = "r" + std::to_string(i);
    if (home_of(root, names) != name) continue;
    if (later.empty() || home_of(root, later) == then) return root;
  }
}

}  // namespace tenure::sharded
