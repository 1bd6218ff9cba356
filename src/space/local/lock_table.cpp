#include "space/local/lock_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <memory>
#include <new>
#include <utility>

#include "space/local/block.hpp"

namespace tenure::local {
namespace {

std::uint8_t home_of(const Path& path) {
  return path.depth() <= 1 ? shard_of(path.route()) : shard_of(path.prefix(1).route());
}

bool all_empty(const Line* first) noexcept {
  for (; first != nullptr; first = first->more) {
    if (!first->live.empty()) return false;
  }
  return true;
}

// The holder that blocks the line has been doing so since now at the latest.
void stamp(Line& line) noexcept {
  std::atomic<std::int64_t>& since = Entry::of_link(*line.live.next, line.depth).first->since;
  if (since.load(std::memory_order_relaxed) == 0) {
    since.store(now_coarse(), std::memory_order_relaxed);
  }
}

}  // namespace

LockTable::LockTable() : shards_(static_cast<Shard*>(take_block(sizeof(Shard) * shard_count))) {
  for (std::size_t i = 0; i < shard_count; ++i) {
    new (&shards_[i]) Shard{source_, shards_, static_cast<std::uint8_t>(i)};
  }
}

LockTable::~LockTable() {
  std::destroy_n(shards_, shard_count);
  give_block(shards_, sizeof(Shard) * shard_count);
}

void LockTable::lock(ShardSet set) noexcept {
  for (; set != 0; set &= set - 1) shards_[std::countr_zero(set)].lock.lock();
}

void LockTable::unlock(ShardSet set) noexcept {
  for (; set != 0; set &= set - 1) shards_[std::countr_zero(set)].lock.unlock();
}

void LockTable::thicken(ShardSet held) {
  for (; held != 0; held &= held - 1) shards_[std::countr_zero(held)].thicken();
}

// ---- Which shards ----

ShardSet LockTable::own_shards(std::span<const Claim> claims) {
  ShardSet set = 0;
  for (const Claim& claim : claims) {
    if (claim.path.is_root()) return all_shards;
    set |= set_of(shard_of(claim.path.route())) | set_of(home_of(claim.path));
  }
  return set;
}

ShardSet LockTable::lock_for(std::span<const Claim> claims, ShardSet set) {
  for (;;) {
    lock(set);
    ShardSet needed = root_wide_.load(std::memory_order_acquire) != 0 ? set_of(0) : ShardSet{0};
    for (const Claim& claim : claims) {
      if (claim.path.depth() != 1) continue;
      const Node* const node = shards_[home_of(claim.path)].find(claim.path);
      if (node != nullptr) needed |= node->replicas;
    }
    if ((needed & ~set) == 0) return set;
    unlock(set);
    set |= needed;
  }
}

std::uint64_t LockTable::next_counter(ShardSet held) const noexcept {
  std::uint64_t counter = 0;
  for (; held != 0; held &= held - 1) {
    counter = std::max(counter, shards_[std::countr_zero(held)].counter);
  }
  return counter + 1;
}

void LockTable::raise_counters(ShardSet held, const Entry& ticket) noexcept {
  for (; held != 0; held &= held - 1) {
    std::uint64_t& own = shards_[std::countr_zero(held)].counter;
    own = std::max(own, ticket.number >> shard_bits);
  }
}

// ---- Appending and removing ----

Entry& LockTable::append(std::span<const Claim> claims, std::uint64_t number) {
  Entry* first = nullptr;
  Entry** link = &first;
  try {
    for (const Claim& claim : claims) {
      Entry& entry = append_one(claim, number);
      *link = &entry;
      link = &entry.next_claim;
      entry.first = first;
      first->shards |= entry.shards;
    }
  } catch (...) {
    for (Entry* entry = first; entry != nullptr;) {
      Entry& gone = *std::exchange(entry, entry->next_claim);
      DueList nobody;
      take_out(gone, nobody);
      shards_[gone.shard].free_entry(gone);
    }
    throw;
  }
  return *first;
}

Entry& LockTable::append_one(const Claim& claim, std::uint64_t number) {
  Shard& shard = shards_[shard_of(claim.path.route())];
  Node& node = shard.node(claim.path);
  const GroupRef group{shard, claim.mode};
  Entry& entry = shard.make_entry(node, *group, claim.mode.limit());
  entry.weight = claim.mode.weight();
  try {
    if (node.depth >= 2 && node.branch->top == nullptr) {
      shard.wake(*node.branch, shards_[home_of(claim.path)].node(claim.path.prefix(1)));
    }
    shard.place(entry, number);
  } catch (...) {
    shard.free_entry(entry);
    throw;
  }
  if (node.depth == 1) {
    // Copies without claims below need no visit next time.
    for (ShardSet s = node.replicas; s != 0; s &= s - 1) {
      Shard& other = shards_[std::countr_zero(s)];
      Node& copy = *other.find(claim.path);
      if (all_empty(copy.below)) other.put_to_sleep(copy);
    }
  } else if (node.depth == 0) {
    root_wide_.fetch_add(1, std::memory_order_relaxed);
  }
  return entry;
}

Entry* LockTable::append_thin(std::span<const Claim> claims, std::uint64_t number) {
  Entry* ticket = nullptr;
  const auto undo = [&]() noexcept {
    if (ticket == nullptr) return;
    DueList nobody;
    take_out_bundle(*ticket, nobody);
    shards_[ticket->shard].free_entry(*ticket);
  };
  Node* last = nullptr;
  try {
    for (const Claim& claim : claims) {
      Shard& shard = shards_[shard_of(claim.path.route())];
      Node& node = shard.node(claim.path);
      if (!alone(node) || !Shard::is_free(node)) {
        undo();
        return nullptr;
      }
      const bool shared = !claim.mode.is_exclusive();
      if (ticket == nullptr) {
        ticket = &shard.make_entry(node, shared ? shared_group : exclusive_group, 0);
        ticket->number = number;
        ticket->bundle = true;
      } else {
        last->thin_next = &node;
        ticket->shards |= set_of(node.shard);
      }
      last = &node;
      node.thin_ticket = ticket;
      shard.take_thin(node, shared, number);
    }
  } catch (...) {
    undo();
    throw;
  }
  return ticket;
}

void LockTable::take_out_bundle(Entry& ticket, DueList& due) noexcept {
  for (Node* next = ticket.node; next != nullptr;) {
    Node& node = *next;
    next = std::exchange(node.thin_next, nullptr);
    node.thin_ticket = nullptr;
    if (node.thin == ticket.number) [[likely]] {
      shards_[node.shard].give_thin(node);
      continue;
    }
    Entry& entry = *Shard::thickened(node, ticket.number);
    take_out(entry, due);
    if (&entry != &ticket) entry.next_claim = std::exchange(ticket.next_claim, &entry);
  }
}

void LockTable::unbundle(Entry& ticket) noexcept {
  for (const Node* node = ticket.node; node != nullptr; node = node->thin_next) {
    if (node->thin == ticket.number) return;
  }
  ticket.bundle = false;
  Entry** link = &ticket.next_claim;
  for (Node* next = ticket.node; next != nullptr;) {
    Node& node = *next;
    next = std::exchange(node.thin_next, nullptr);
    node.thin_ticket = nullptr;
    if (&node == ticket.node) continue;
    *link = Shard::thickened(node, ticket.number);
    link = &(*link)->next_claim;
  }
}

void LockTable::take_out(Entry& entry, DueList& due) noexcept {
  Shard::take_out(entry, due);
  if (entry.depth == 0) root_wide_.fetch_sub(1, std::memory_order_release);
}

// ---- Judging ----

ShardSet LockTable::touches(const Entry& entry) const noexcept {
  if (entry.depth == 0) return all_shards;
  ShardSet set = set_of(entry.shard);
  if (root_wide_.load(std::memory_order_acquire) != 0) set |= set_of(0);
  if (entry.depth == 1) return set | entry.node->replicas;
  const Node& top = *entry.node->branch->top;  // Awake while it has live claims below.
  return top.claims_here() != 0 ? set | set_of(top.shard) : set;
}

// The shards that must be locked to judge the ticket, as far as the locked ones tell.
ShardSet LockTable::needs(const Entry& ticket, ShardSet held) const noexcept {
  ShardSet set = ticket.shards;
  if ((set & ~held) != 0) return set;
  for (const Entry* e = &ticket; e != nullptr; e = e->next_claim) set |= touches(*e);
  return set;
}

LockTable::WaitLine LockTable::line_to_wait_in(Node& node, const Group& group,
                                               std::uint64_t number) const noexcept {
  // Of several lines, the one of the own group comes first, so that of many exclusive tickets only
  // the first waits elsewhere.
  if (node.here.more != nullptr && group.kind == Mode::Kind::exclusive) {
    Line* const own = Shard::existing(&node.here, group);
    if (own != nullptr && own->live.next->number < number)
      return {.line = own, .shard = node.shard};
  }
  if (Line* const line = Shard::blocking(&node.here, group, number)) {
    return {.line = line, .shard = node.shard};
  }
  const WaitLine above = blocking_line_above(node, group, number);
  return above.line != nullptr ? above : blocking_line_below(node, group, number);
}

LockTable::WaitLine LockTable::blocking_line_above(const Node& node, const Group& group,
                                                   std::uint64_t number) const noexcept {
  if (node.depth >= 2) {
    for (Node* up = node.parent; up->depth >= 2; up = up->parent) {
      if (Line* const line = Shard::blocking(&up->here, group, number)) {
        return {.line = line, .shard = node.shard};
      }
    }
    Node* const top = node.branch->top;
    if (top != nullptr && top->claims_here() != 0) {
      if (Line* const line = Shard::blocking(&top->here, group, number)) {
        return {.line = line, .shard = top->shard};
      }
    }
  }
  if (node.depth >= 1 && root_wide_.load(std::memory_order_acquire) != 0) {
    return {.line = Shard::blocking(&shards_[0].root().here, group, number), .shard = 0};
  }
  return {};
}

LockTable::WaitLine LockTable::blocking_line_below(const Node& node, const Group& group,
                                                   std::uint64_t number) const noexcept {
  if (node.depth >= 1) {
    if (Line* const line = Shard::blocking(node.below, group, number)) {
      return {.line = line, .shard = node.shard};
    }
  }
  for (ShardSet s = node.depth == 0 ? all_shards : node.replicas; s != 0; s &= s - 1) {
    const auto index = static_cast<std::uint8_t>(std::countr_zero(s));
    const Node* const copy = node.depth == 0 ? &shards_[index].root() : shards_[index].find(node);
    assert(copy != nullptr);  // Home knows of it.
    if (Line* const line = Shard::blocking(copy->below, group, number)) {
      return {.line = line, .shard = index};
    }
  }
  return {};
}

void LockTable::queue(Entry& ticket, Entry& entry, WaitLine wait) noexcept {
  ticket.at = &entry;
  if (wait.line == nullptr) {
    entry.over = true;
    wait.shard = entry.shard;
  } else {
    stamp(*wait.line);
    // A new waiter is last, unless others in this line waited elsewhere before.
    Link* where = &wait.line->turns;
    while (where->prev != &wait.line->turns && where->prev->number > entry.number) {
      where = where->prev;
    }
    entry.insert_before(*where);
  }
  ticket.turn_shard.store(wait.shard, std::memory_order_relaxed);
  ticket.phase.store(Phase::queued, std::memory_order_release);
}

bool LockTable::queue_if_blocked(Entry& ticket) const noexcept {
  for (Entry* e = &ticket; e != nullptr; e = e->next_claim) {
    WaitLine wait;
    const bool fits = e->within || e->kept;
    if (fits) wait = line_to_wait_in(*e->node, *e->group, e->number);
    if (wait.line == nullptr && fits) continue;
    queue(ticket, *e, wait);
    return true;
  }
  return false;
}

void LockTable::dequeue(Entry& ticket) noexcept {
  Entry& entry = *ticket.at;
  if (!std::exchange(entry.over, false)) entry.Link::remove();
  ticket.phase.store(Phase::parked, std::memory_order_relaxed);
}

void LockTable::advance(DueList& due, ShardSet held, Turns& turns) const noexcept {
  while (!due.empty()) {
    Entry& ticket = due.pop();
    if ((needs(ticket, held) & ~held) == 0) {
      grant_or_queue(ticket, turns.granted);
    } else {
      ticket.phase.store(Phase::advancing, std::memory_order_release);
      turns.unjudged.push(ticket);
    }
  }
}

void LockTable::grant_or_queue(Entry& ticket, DueList& granted) const noexcept {
  if (queue_if_blocked(ticket)) return;
  ticket.since.store(now_coarse(), std::memory_order_relaxed);
  if (ticket.waiter->decide()) {
    ticket.state.store(State::granted, std::memory_order_relaxed);
    granted.push(ticket);
  } else {
    ticket.phase.store(Phase::parked, std::memory_order_release);
  }
}

void LockTable::judge_rest(Turns& turns) noexcept {
  while (!turns.unjudged.empty()) {
    Entry& ticket = turns.unjudged.pop();
    ShardSet set = ticket.shards;
    for (;;) {
      lock(set);
      const ShardSet needed = needs(ticket, set);
      if ((needed & ~set) == 0) break;
      unlock(set);
      set |= needed;
    }
    grant_or_queue(ticket, turns.granted);
    unlock(set);
  }
}

}  // namespace tenure::local
