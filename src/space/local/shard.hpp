// shard.hpp: one part of the lock table, with its lock.
//
// The first two segments of a path choose its shard, so that siblings below one name (`book/1`,
// `book/2`) are in different shards, while everything from depth 2 downwards is in one shard with
// what is below it. Nodes above depth 2 are in several shards:
//
//   node       | at home (the shard of the path itself)    | in another shard that has children
//   -----------+-------------------------------------------+-----------------------------------
//   the root   | shard 0: `here`; every shard: its `below` |
//   depth 1    | `here`, `live_here`, `replicas`, `below`  | its `below`, and `top`: the one at
//              |                                           | home
//   depth >= 2 | all                                       | never
//
// A child reads `top->live_here` under the lock of its own shard only. A claim on the name raises
// it and visits, with all locks held, each shard in `replicas`. So either the claim sees the child,
// or the child sees the claim. A copy whose `top` is null is dormant: home does not know of it, and
// the first child wakes it with both locks held. Each shard assigns numbers; a thread that holds
// several locks takes the largest counter and writes it back to all. A copy that becomes dormant
// writes its shard's counter to home, and one that wakes writes home's counter to its shard. So of
// two conflicting tickets the later one has the larger number, and tickets that do not conflict
// share nothing.
//
// Thread safety: `lock` guards everything; `live_here` may also be read by others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "space/local/records.hpp"
#include "space/local/shard_lock.hpp"
#include "space/local/slab.hpp"
#include "space/local/table.hpp"

namespace tenure::local {

inline constexpr std::size_t shard_count = 32;  // At most 64: sets of shards are bit masks.
// Bits of a number that identify the shard that assigned it.
inline constexpr unsigned shard_bits = 6;
using ShardSet = std::uint64_t;
inline constexpr ShardSet all_shards = (ShardSet{1} << shard_count) - 1;

constexpr std::uint8_t shard_of(std::uint32_t route) noexcept {
  return static_cast<std::uint8_t>(route % shard_count);
}
constexpr ShardSet set_of(std::uint8_t shard) noexcept { return ShardSet{1} << shard; }

// The same in every space, and never freed.
inline constinit Group exclusive_group{.kind = Mode::Kind::exclusive, .name = {}};
inline constinit Group shared_group{.kind = Mode::Kind::shared, .name = {}};

// The lock and what a free lock touches come first, together; the rest of the padding keeps shards
// apart. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
class alignas(128) Shard {
 public:
  // Idle nodes that are kept per shard, so that a path in use is not rebuilt each time.
  static constexpr std::size_t max_idle = 96;

  // `shards` are all shards of the space, including this one.
  Shard(SlabSource& source, Shard* shards, std::uint8_t index);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard();

  ShardLock lock;

  // The rest requires `lock`.
  [[nodiscard]] Node* find(const Path& path) const noexcept {
    return path.is_root() ? const_cast<Node*>(&root_) : table_.find(path);
  }
  [[nodiscard]] Node* find_below_root(const Path& path) const noexcept { return table_.find(path); }
  // Finds or creates the node and its ancestors. A new node of depth 1 away from home is dormant.
  [[nodiscard]] Node& node(const Path& path);
  // The same where find() has found none.
  [[nodiscard]] Node& make_path(const Path& path);
  // This shard's copy of a node of depth 1, which must exist.
  [[nodiscard]] Node* find(const Node& other) const noexcept { return table_.find(other); }
  [[nodiscard]] Node& root() noexcept { return root_; }

  // The group of `mode` in this shard; created if it is new. GroupRef returns it.
  [[nodiscard]] Group& group(const Mode& mode);
  void forget_if_unused(const Group& group) noexcept {
    if (group.kind == Mode::Kind::named && group.entries == 0) {
      groups_.erase(groups_.find(std::string{group.name}));
    }
  }

  // A new entry in no line. place() sets its number and position.
  [[nodiscard]] Entry& make_entry(Node& node, Group& group, std::uint32_t limit);
  // Links the entry into its lines, in order. Throws std::bad_alloc; the entry is then in no line.
  void place(Entry& entry, std::uint64_t number);
  // Removes it from all its lines; adds the entries whose turn has come there to `due`.
  static void take_out(Entry& entry, DueList& due) noexcept;
  void free_entry(Entry& entry) noexcept;

  // Whether nothing is claimed at the node, above it in this shard or below it.
  [[nodiscard]] static bool is_free(const Node& node) noexcept {
    if (node.claims_here() != 0 || node.live_below != 0) return false;
    const Node* up = node.parent;
    for (unsigned k = node.depth; k > 2; --k, up = up->parent) {
      if (up->claims_here() != 0) return false;
    }
    return true;
  }
  // Makes and ends a thin hold. Requires that the node is free, and that the hold is there.
  void take_thin(Node& node, bool shared, std::uint64_t number) noexcept;
  void give_thin(Node& node) noexcept;
  // Thin holds that belong to no bundle.
  [[nodiscard]] std::size_t thin_holds() const noexcept;
  // Turns all thin holds into entries.
  void thicken() {
    if (!thin_.empty()) thicken_all();
  }
  // The entry that was made from the thin hold with this number, or null if it is gone.
  [[nodiscard]] static Entry* thickened(Node& node, std::uint64_t number) noexcept;
  void no_longer_used(Node& node) noexcept;

  // The line at `first` in which an entry of `group` and `number` waits, or null.
  static Line* blocking(Line* first, const Group& group, std::uint64_t number) noexcept {
    for (Line* line = first; line != nullptr; line = line->more) {
      if (line->live.next->number < number && line->group->excludes(group)) return line;
    }
    return nullptr;
  }
  // The line of `group` at `first` if it has live entries, or null.
  static Line* existing(Line* first, const Group& group) noexcept;

  // Puts an entry without a limit behind all others in its lines, as if it had this number there.
  static void move_behind(Entry& entry, std::uint64_t number) noexcept;
  // Counts the entries of a line under another limit; adds those that now fit to `due`.
  static void change_limit(Line& line, std::uint32_t limit, DueList& due) noexcept;

  // Makes a copy of a name in this shard dormant that has no live claims below it. Requires the
  // lock of `home`.
  void put_to_sleep(Node& copy) noexcept;
  // Registers the copy with home. Requires the lock of `home`.
  void wake(Node& copy, Node& top) noexcept;

  // The largest number that was assigned or seen, without the shard bits.
  std::uint64_t counter = 0;
  std::size_t tickets = 0;  // Live tickets whose first entry is here, without thin holds.
  bool closed = false;
  bool observed = false;  // Tickets are being followed, so each one has an entry.
  bool no_thin = false;   // One of these.
  bool abandoned = false;

 private:
  static constexpr std::size_t entry_pools = 4;
  static constexpr std::array<std::size_t, entry_pools> pool_links = {4, 8, 16,
                                                                      Path::max_depth + 1};

  static std::size_t pool_for(std::size_t depth) noexcept {
    if (depth < pool_links[0]) [[likely]]
      return 0;
    std::size_t pool = 1;
    while (pool_links[pool] <= depth) ++pool;
    return pool;
  }
  Node& make_node(Node& parent, const Path& path);
  void free_node(Node& node) noexcept;
  void enlist(Node& node) noexcept;
  void append_idle(Node& node) noexcept;
  void trim(const Node& keep) noexcept;
  void forget(Node& node) noexcept;
  Line& line(Line& first, Group& group) {
    if (first.more == nullptr) [[likely]] {
      if (first.live.empty()) return first.reuse(group);
      if (first.group == &group) return first;
    }
    return line_of_several(first, group);
  }
  Line& line_of_several(Line& first, Group& group);
  Line& below(Node& node);
  void free_lines(Line* first) noexcept;
  void insert_in_order(Line& line, Link& link) const noexcept {
    Link& list = line.live;
    Link* where = &list;
    // New tickets have the largest number; others search for their position.
    if (list.prev != &list && list.prev->number > link.number) [[unlikely]] {
      where = line.batch == batch_ ? line.last_of_batch->next : list.next;
      // A downgrade places its new claim behind the one that it replaces.
      while (where->number <= link.number) where = where->next;
    }
    link.insert_before(*where);
  }
  void thicken_all();
  void thicken(Node& node);
  static void undo_place(Entry& entry, std::size_t from) noexcept;
  static void call_turns(Line& line, DueList& due) noexcept;
  static void enter_limit(Line& line, Entry& entry) noexcept;
  static void leave_limit(Line& line, Entry& entry, DueList& due) noexcept;
  static void admit(Line& line, DueList& due) noexcept;

  Shard* shards_;
  ThinLink thin_;            // Nodes that have had a thin hold since thicken_all(), in any order.
  std::uint32_t batch_ = 1;  // Of thicken_all(); lines have 0 or an older one.
  std::uint8_t index_;
  Node root_;
  NodeTable table_;
  Pool nodes_;
  Pool lines_;
  std::array<Pool, entry_pools> entries_;
  std::unordered_map<std::string, Group> groups_;
  Node* oldest_idle_ = nullptr;
  Node** newest_idle_ = &oldest_idle_;
  std::size_t idle_ = 0;
};

inline Entry& Shard::make_entry(Node& node, Group& group, std::uint32_t limit) {
  auto* const entry = new (entries_[pool_for(node.depth)].take()) Entry;
  entry->node = &node;
  entry->group = &group;
  entry->next_claim = nullptr;
  entry->first = entry;
  entry->limit = limit;
  entry->weight = 1;  // Whoever makes a larger one sets that before place().
  entry->shard = index_;
  entry->shards = set_of(index_);
  entry->depth = node.depth;
  entry->within = true;
  entry->kept = false;
  entry->over = false;
  entry->was_thin = false;
  entry->timed = false;
  entry->bundle = false;
  entry->replaces = 0;
  ++node.uses;
  if (group.kind == Mode::Kind::named) ++group.entries;
  return *entry;
}

inline void Shard::free_entry(Entry& entry) noexcept {
  const std::size_t pool = pool_for(entry.depth);
  Group& group = *entry.group;
  no_longer_used(*entry.node);
  entry.~Entry();
  entries_[pool].give(&entry);
  if (group.kind == Mode::Kind::named) {
    --group.entries;
    forget_if_unused(group);
  }
}

inline void Shard::no_longer_used(Node& node) noexcept {
  if (--node.uses == 0 && !node.listed && node.depth > 0) enlist(node);
}

inline void Shard::place(Entry& entry, std::uint64_t number) {
  entry.number = number;
  Link* const links = entry.links();
  Node* node = entry.node;
  std::size_t k = entry.depth;
  Line* at = &line(node->here, *entry.group);
  try {
    for (;; at = &line(*node->below, *entry.group)) {
      links[k].number = number;
      insert_in_order(*at, links[k]);
      if (k == entry.depth) {
        at->limit = entry.limit;  // All have the same, but for one that is being downgraded.
        if (entry.limit != 0) enter_limit(*at, entry);
      }
      if (k == 0) break;
      --k;
      node = node->parent;
    }
  } catch (...) {
    undo_place(entry, k + 1);
    throw;
  }
  if (entry.depth > 0) entry.node->add_claims(1);
}

inline void Shard::take_thin(Node& node, bool shared, std::uint64_t number) noexcept {
  node.thin = number;
  node.thin_shared = shared;
  node.set_only_claim(true);
  if (!node.thin_listed) [[unlikely]] {
    node.thin_listed = true;
    node.thin_link.insert_before(thin_);
  }
}

inline void Shard::give_thin(Node& node) noexcept {
  node.thin = 0;
  node.set_only_claim(false);
  if (node.uses == 0 && !node.listed) [[unlikely]]
    enlist(node);
}

inline void Shard::take_out(Entry& entry, DueList& due) noexcept {
  Link* const links = entry.links();
  if (entry.limit != 0) leave_limit(*existing(&entry.node->here, *entry.group), entry, due);
  for (std::size_t k = 0; k <= entry.depth; ++k) {
    links[k].remove();
    Link& list = *links[k].prev;
    if (list.number != no_number) continue;  // It was not the first.
    if (Line& line = Line::of_live(list); !line.turns.empty()) [[unlikely]]
      call_turns(line, due);
  }
  if (entry.depth > 0) entry.node->add_claims(-1);
}

// A reference to a group while a request uses it; a group with entries stays afterwards.
class GroupRef {
 public:
  GroupRef(Shard& shard, const Mode& mode) : shard_(shard), group_(shard.group(mode)) {}
  GroupRef(const GroupRef&) = delete;
  GroupRef& operator=(const GroupRef&) = delete;
  ~GroupRef() { shard_.forget_if_unused(group_); }
  Group& operator*() const noexcept { return group_; }

 private:
  Shard& shard_;
  Group& group_;
};

}  // namespace tenure::local
