// lock_table.hpp: all shards of a space: sets of them are locked together, and tickets are judged
// across them.
//
// A waiting ticket is in one line. The thread that makes the line's first number pass the ticket's
// own looks for the next line in which the ticket has to wait; if it does not hold the necessary
// locks, it does so after unlocking (Turns).
//
// Thread safety: the locks of the shards, which the caller takes, in ascending order. Unless a
// comment says otherwise, a function requires the locks of all shards that the ticket's claims
// touch.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <span>

#include "space/local/records.hpp"
#include "space/local/shard.hpp"
#include "space/local/slab.hpp"
#include "tenure/claim.hpp"

namespace tenure::local {

class LockTable {
 public:
  LockTable();
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;
  ~LockTable();

  [[nodiscard]] Shard& operator[](std::size_t shard) const noexcept { return shards_[shard]; }

  // Lock and unlock sets of shards in ascending order.
  void lock(ShardSet set) noexcept TENURE_LOCKS_A_SET;
  void unlock(ShardSet set) noexcept TENURE_LOCKS_A_SET;
  class Unlock {
   public:
    Unlock(LockTable& table, ShardSet set) noexcept : table_(table), set_(set) {}
    Unlock(const Unlock&) = delete;
    Unlock& operator=(const Unlock&) = delete;
    ~Unlock() { table_.unlock(set_); }

   private:
    LockTable& table_;
    ShardSet set_;
  };
  // The shards of the paths themselves.
  [[nodiscard]] static ShardSet own_shards(std::span<const Claim> claims);
  // Locks `set` and all other shards that the claims touch. Returns what it has locked.
  [[nodiscard]] ShardSet lock_for(std::span<const Claim> claims, ShardSet set);

  // Turns all thin holds of the shards into entries. Requires their locks.
  void thicken(ShardSet held);
  // No claim outside the node's own shard can concern it. Requires the lock of that shard.
  [[nodiscard]] bool alone(const Node& node) const noexcept {
    if (root_wide_.load(std::memory_order_acquire) != 0) return false;
    if (node.depth == 1) return !node.replicated;
    const Node* const top = (node.depth == 2 ? node.parent : node.branch)->top;
    return top != nullptr && top->claims_here() == 0;
  }

  // Counters: the number of a new ticket is larger than all that its shards have assigned or seen.
  [[nodiscard]] std::uint64_t next_counter(ShardSet held) const noexcept;
  void raise_counters(ShardSet held, const Entry& ticket) noexcept;

  // Appends a ticket. Throws std::bad_alloc, and has then changed nothing.
  Entry& append(std::span<const Claim> claims, std::uint64_t number);
  // Appends a bundle: claims of predefined groups without limits, below the root. Requires the
  // locks of their own shards only. Null if anything is in the way; has then changed nothing.
  Entry* append_thin(std::span<const Claim> claims, std::uint64_t number);
  // Removes a bundle as take_out() does; what is left of it are its entries, linked.
  void take_out_bundle(Entry& ticket, DueList& due) noexcept;
  // Links the entries of a bundle, which is an ordinary ticket then. Requires that no claim of it
  // is thin; otherwise does nothing.
  static void unbundle(Entry& ticket) noexcept;
  // Removes one claim from its lines; adds the tickets whose turn has come there to `due`.
  void take_out(Entry& entry, DueList& due) noexcept;

  // The line that a ticket must wait in, and the shard whose lock guards it. Null: in none.
  struct WaitLine {
    Line* line = nullptr;
    std::uint8_t shard = 0;
  };
  [[nodiscard]] WaitLine line_to_wait_in(Node& node, const Group& group,
                                         std::uint64_t number) const noexcept;
  // Makes the ticket wait for `entry`, one of its claims: for its limit if there is no line.
  static void queue(Entry& ticket, Entry& entry, WaitLine wait) noexcept;
  bool queue_if_blocked(Entry& ticket) const noexcept;
  // Requires the lock of turn_shard only.
  static void dequeue(Entry& ticket) noexcept;

  // Tickets whose turn has come in one line: those that must be judged under other locks, and those
  // that are granted, whose waiters must be notified.
  struct Turns {
    DueList unjudged;
    DueList granted;
    [[nodiscard]] bool empty() const noexcept { return unjudged.empty() && granted.empty(); }
  };
  // Each ticket of `due` waits in another line, is granted, or is judged later.
  void advance(DueList& due, ShardSet held, Turns& turns) const noexcept;
  // Judges the unjudged. Requires that the calling thread holds no lock.
  void judge_rest(Turns& turns) noexcept;

  // Visits the first entry of each ticket that has entries only. Requires all locks.
  template <class F>
  void for_each_ticket(F&& visit) {
    const auto visit_lines = [&](Line* first) {
      for (Line* line = first; line != nullptr; line = line->more) {
        for (Link* link = line->live.next; link != &line->live;) {
          Entry& entry = Entry::of_link(*link, 0);
          link = link->next;
          if (entry.first != &entry) continue;
          if (entry.bundle) unbundle(entry);
          visit(entry);
        }
      }
    };
    visit_lines(&shards_[0].root().here);
    for (std::size_t i = 0; i < shard_count; ++i) visit_lines(shards_[i].root().below);
  }

 private:
  Entry& append_one(const Claim& claim, std::uint64_t number);
  [[nodiscard]] ShardSet touches(const Entry& entry) const noexcept;
  [[nodiscard]] ShardSet needs(const Entry& ticket, ShardSet held) const noexcept;
  [[nodiscard]] WaitLine blocking_line_above(const Node& node, const Group& group,
                                             std::uint64_t number) const noexcept;
  [[nodiscard]] WaitLine blocking_line_below(const Node& node, const Group& group,
                                             std::uint64_t number) const noexcept;
  void grant_or_queue(Entry& ticket, DueList& granted) const noexcept;

  SlabSource source_;
  Shard* shards_;  // shard_count of them, constructed in place: each knows the others.
  std::atomic<std::uint32_t> root_wide_ = 0;  // Live claims on the root.
};

}  // namespace tenure::local
