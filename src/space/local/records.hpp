// records.hpp: the records of the lock table of a local space.
//
//   Node    a path that is claimed, or was a moment ago, or that has such paths below it
//   Entry   a claim of a live ticket: linked into one line at its node and at each ancestor
//   Line    at a node, the live claims of one group: those on the node itself ("here") or those
//           below it ("below"), in ticket order; and the entries that wait for their turn there
//   thin    a hold that needs none of this so far: alone at its node and with nothing claimed above
//           or below. It is a number in the node. A request that needs more first turns all thin
//           holds of the shard into entries, so each hold costs that at most once, and most never
//   bundle  a ticket with several claims that are all thin at first. One entry represents it, in no
//           line; its nodes are linked through Node::thin_next
//
// The rule becomes a question with an answer in one step: an entry waits in a line while the line's
// first number is smaller than its own. Waiting entries of a line are in ticket order too, so a
// ticket that leaves looks only at the first of them: a release costs the same with one waiter as
// with ten thousand, however many tickets are above, beside or below.
//
// The lock of a shard guards all of its records.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <stop_token>
#include <string_view>

#include "tenure/claim.hpp"
#include "tenure/detail/backend.hpp"

namespace tenure::local {

inline constexpr std::uint64_t no_number = std::numeric_limits<std::uint64_t>::max();

// An element of a circular list in ticket order. The list's own element has no_number, so "the
// first number" needs no check for emptiness.
struct Link {
  Link* prev;
  Link* next;
  std::uint64_t number;

  void make_list() noexcept {
    prev = next = this;
    number = no_number;
  }
  [[nodiscard]] bool empty() const noexcept { return next == this; }
  void remove() const noexcept {
    prev->next = next;
    next->prev = prev;
  }
  void insert_before(Link& where) noexcept {
    prev = where.prev;
    next = &where;
    prev->next = this;
    where.prev = this;
  }
};

// A mode without its limit. exclusive and shared exist once, and are not counted; other groups live
// in their shard as long as it has entries of them.
struct Group {
  Mode::Kind kind;
  std::string_view name;
  std::uint32_t entries = 0;

  // Also for entries of different shards.
  [[nodiscard]] bool excludes(const Group& other) const noexcept {
    if (this == &other) return kind == Mode::Kind::exclusive;
    return kind != Mode::Kind::named || other.kind != Mode::Kind::named || name != other.name;
  }
};

struct Line {
  Link live;   // Links of entries of `group`.
  Link turns;  // Entries that wait for the first number to pass theirs.
  Group* group;
  Line* more;            // Lines of other groups at the same node.
  Link* beyond;          // The first live link that exceeds the limit, or &live.
  std::uint32_t limit;   // 0: none.
  std::uint32_t inside;  // With a limit: the weights of the links within it, added up.
  std::uint8_t depth;    // Of the node.
  std::uint32_t batch;   // See Shard::thicken.
  Link* last_of_batch;

  void init(std::uint8_t node_depth) noexcept {
    depth = node_depth;
    batch = 0;
    live.make_list();
    turns.make_list();
    group = nullptr;
    more = nullptr;
    beyond = &live;
    limit = 0;
    inside = 0;
  }
  Line& reuse(Group& next) noexcept {
    group = &next;
    limit = 0;
    return *this;
  }
  static Line& of_live(Link& list) noexcept {
    return *reinterpret_cast<Line*>(reinterpret_cast<std::byte*>(&list) - offsetof(Line, live));
  }
};

// An element of a shard's list of nodes that have had a thin hold.
struct ThinLink {
  ThinLink* prev;
  ThinLink* next;

  void make_list() noexcept { prev = next = this; }
  [[nodiscard]] bool empty() const noexcept { return next == this; }
  void remove() const noexcept {
    prev->next = next;
    next->prev = prev;
  }
  void insert_before(ThinLink& where) noexcept {
    prev = where.prev;
    next = &where;
    prev->next = this;
    where.prev = this;
  }
};

struct Entry;

struct alignas(64) Node {
  static constexpr std::size_t pooled_key = 40;

  // The first cache line is all that a free lock touches of a node, unless its key is long.
  Node* bucket;        // Next in the table's bucket.
  std::uint64_t thin;  // The number of the thin hold, or 0.
  Node* parent;        // Null at the root.
  // Live claims here, thin or not. At depth 1, shards of children read the home node's value as
  // well.
  std::atomic<std::uint32_t> live_here;
  std::uint32_t live_below;  // The same, below, in this shard; not maintained at the root.
  std::uint32_t uses;        // Child nodes, entries here, and holds that were thin at first.
  std::uint32_t hash;        // The upper half: the lower one chose the shard.
  std::uint16_t key_bytes;
  std::uint8_t depth;
  std::uint8_t shard;
  bool listed : 1;       // In the idle list.
  bool external : 1;     // The key is too long for a pooled record, and follows it.
  bool thin_shared : 1;  // The mode of a thin hold.
  bool thin_listed : 1;  // `thin_link` is in the shard's list.
  bool replicated : 1;   // `replicas` is not empty.
  // Padded with zeros, as an external key is.
  alignas(std::uint64_t) std::array<char, pooled_key> pooled;

  std::uint64_t replicas;  // Depth 1, at home: the other shards that have active children.
  Node* branch;            // Depth 2 and below: the ancestor of depth 1, in this shard.
  Node* top;    // Depth 1: the node in the path's home shard, or null while dormant (shard.hpp).
  Node* idle;   // Next in the shard's list of nodes that may be forgotten.
  Line* below;  // Null until there is a child.
  ThinLink thin_link;
  Entry* thin_ticket;  // Of a thin hold that belongs to a bundle: the bundle; otherwise null.
  Node* thin_next;     // The next node of the bundle.
  Line here;

  static Node& of_thin(ThinLink& link) noexcept {
    return *reinterpret_cast<Node*>(reinterpret_cast<std::byte*>(&link) -
                                    offsetof(Node, thin_link));
  }
  void set_replicas(std::uint64_t shards) noexcept {
    replicas = shards;
    replicated = shards != 0;
  }
  // Guarded by the lock for writers. A thread that reads 0 without the lock continues after
  // everything that was done under the last claim.
  [[nodiscard]] std::uint32_t claims_here() const noexcept {
    return live_here.load(std::memory_order_acquire);
  }
  void add_claims(int change) noexcept {
    live_here.store(claims_here() + static_cast<std::uint32_t>(change), std::memory_order_release);
    add_below_ancestors(change);
  }
  // The same for a thin hold, which is the only claim here.
  void set_only_claim(bool live) noexcept {
    live_here.store(live ? 1 : 0, std::memory_order_release);
    add_below_ancestors(live ? 1 : -1);
  }
  void add_below_ancestors(int change) const noexcept {
    Node* up = parent;
    for (unsigned k = depth; k > 1; --k, up = up->parent) {
      up->live_below += static_cast<std::uint32_t>(change);
    }
  }
  [[nodiscard]] bool in_use() const noexcept { return uses != 0 || thin != 0; }

  [[nodiscard]] const char* key_data() const noexcept {
    return external ? reinterpret_cast<const char*>(this + 1) : pooled.data();
  }
  [[nodiscard]] std::string_view key() const noexcept { return {key_data(), key_bytes}; }
  [[nodiscard]] bool has_key(const Path& path) const noexcept {
    const std::string_view bytes = path.bytes();
    if (key_bytes != bytes.size()) return false;
    if (bytes.size() > Path::inline_bytes) return key() == bytes;
    const char* const own = key_data();
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t a = 0;
      std::uint64_t b = 0;
      std::memcpy(&a, own + i, sizeof a);
      std::memcpy(&b, bytes.data() + i, sizeof b);
      if (a != b) return false;
    }
    return true;
  }
};
static_assert(offsetof(Node, pooled) == 48 && sizeof(Node) == 256);

// The state of a ticket, kept in its first entry.
//
//   state     | means                                        | leaves to
//   ----------+----------------------------------------------+-------------------------------------
//   waiting   | not granted yet                              | granted, cancelled: Waiter::decide()
//   granted   | held                                         | (freed), evicting: under its lock
//   cancelled | the thread that cancelled it removes it      | (freed)
//   evicting  | lost() is being fired                        | evicted, orphaned: under its lock
//   evicted   | in no line; the Hold still has it            | (freed)
//   orphaned  | the Hold ended while lost() was being fired  | (freed)
enum class State : std::uint8_t { waiting, granted, cancelled, evicting, evicted, orphaned };

// Which thread may change a waiting ticket's position in a line's `turns`.
//   queued     the one that holds the lock of `turn_shard`
//   advancing  the one that took it out of a line, and looks where it has to wait next
//   parked     none: it was cancelled meanwhile
enum class Phase : std::uint8_t { queued, advancing, parked };

// What the holder of a ticket can be told. Guarded by the lock of the first entry's shard, but for
// requesting the stop.
struct HoldSignals {
  std::stop_source lost;
  std::stop_source asked;
  bool is_lost = false;   // lost() fires or has fired, before the ticket ends.
  bool is_asked = false;  // The same of asked_to_leave().
};

// As a Link it is the element that waits in a line's `turns`.
struct Entry : Link {
  Node* node;
  Group* group;
  Entry* next_claim;  // The next claim of the same ticket.
  Entry* first;       // The first claim, which represents the ticket.
  std::uint32_t limit;
  std::uint32_t weight;  // How much of the limit it takes.
  std::uint8_t shard;
  std::uint8_t depth;
  bool within;    // Within the limit.
  bool kept;      // Granted before the limit was lowered: does not wait for it (Ticket::kept).
  bool over;      // The ticket waits for this limit; otherwise in a line's `turns`.
  bool was_thin;  // Its Hold knows the node, not the entry.
  bool timed;     // Its ticket has a deadline (deadlines.hpp); in the first entry.
  bool bundle;    // Claims that are no longer thin have entries, but are not linked to this one.
  Entry* next_due;

  // Used in the first entry only.
  std::atomic<State> state;
  std::atomic<Phase> phase;
  std::atomic<std::uint8_t> turn_shard;
  std::uint64_t shards;  // The shards of its claims; only its holder changes it.
  Entry* at;             // The claim that it waits for.
  detail::Waiter* waiter;
  std::atomic<std::int64_t> since;  // CLOCK_REALTIME_COARSE, ns; 0: not recorded.
  detail::OwnerRef owner;
  std::unique_ptr<HoldSignals> signals;  // After the first lost(), asked_to_leave(), or request.
  std::uint64_t replaces;                // Ticket::replaces.

  // links()[k] is the link at the ancestor of depth k; the last one is at the node itself.
  [[nodiscard]] Link* links() noexcept { return reinterpret_cast<Link*>(this + 1); }
  static Entry& of_link(Link& link, std::size_t depth) noexcept {
    return *(reinterpret_cast<Entry*>(&link - depth) - 1);
  }
};
static_assert(alignof(Entry) == alignof(Link) && sizeof(Entry) % alignof(Link) == 0);

// The coarse clock costs a fraction of a lock; the exact clock costs more than a lock.
inline std::int64_t now_coarse() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return (now.tv_sec * std::int64_t{1'000'000'000}) + now.tv_nsec;
}

// Tickets, identified by their first entries: first in, first out.
class DueList {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  void push(Entry& entry) noexcept {
    entry.next_due = nullptr;
    *tail_ = &entry;
    tail_ = &entry.next_due;
  }
  Entry& pop() noexcept {
    Entry& entry = *head_;
    head_ = entry.next_due;
    if (head_ == nullptr) tail_ = &head_;
    return entry;
  }

  DueList() = default;
  DueList(const DueList&) = delete;
  DueList& operator=(const DueList&) = delete;
  ~DueList() = default;

 private:
  Entry* head_ = nullptr;
  Entry** tail_ = &head_;
};

}  // namespace tenure::local
