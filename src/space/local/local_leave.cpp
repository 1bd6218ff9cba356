// How tickets leave a local space: released, cancelled or downgraded.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "space/local/local_space.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::local {
namespace {

constexpr const char* nothing_to_downgrade = "cannot downgrade: the hold was evicted";

}  // namespace

// A Hold has released its ticket.
inline void LocalSpace::count_out(Shard& shard, Aftermath& after) noexcept {
  --shard.tickets;
  after.ends |= static_cast<std::uint8_t>(shard.abandoned);
}

LocalSpace::Stay::Stay(LocalSpace& space) noexcept : space_(space) {
  const ShardGuard guard{space_.table_[0].lock};
  ++space_.table_[0].tickets;
}

LocalSpace::Stay::~Stay() {
  Aftermath after;
  {
    const ShardGuard guard{space_.table_[0].lock};
    count_out(space_.table_[0], after);
  }
  if (!after.empty()) space_.finish(after);
}

bool LocalSpace::release(const detail::Grant& grant) noexcept {
  if (forked()) [[unlikely]]
    return false;
  Node* const node = thin_node(grant);
  if (node == nullptr) return release_ticket(*static_cast<Entry*>(grant.ticket));
  Shard& shard = table_[node->shard];
  {
    const ShardGuard guard{shard.lock};
    if (node->thin == grant.token.value && !shard.abandoned) [[likely]] {
      shard.give_thin(*node);  // The fast case. Nobody waits for a thin hold.
      return true;
    }
  }
  return release_slowly(*node, grant.token.value);
}

bool LocalSpace::release_slowly(Node& node, std::uint64_t number) noexcept {
  Shard& shard = table_[node.shard];
  Aftermath after;
  bool held = true;
  {
    const ShardGuard guard{shard.lock};
    if (node.thin == number) {
      after.ends |= static_cast<std::uint8_t>(shard.abandoned);
      shard.give_thin(node);
    } else {
      held = release_thickened(shard, node, number, after);
    }
  }
  if (!after.empty()) finish(after);
  return held;
}

bool LocalSpace::release_thickened(Shard& shard, Node& node, std::uint64_t number,
                                   Aftermath& after) noexcept {
  Entry* const ticket = Shard::thickened(node, number);
  if (ticket == nullptr) {
    count_out(shard, after);
    shard.no_longer_used(node);
    return false;
  }
  if (ticket->state.load(std::memory_order_relaxed) != State::granted) {
    release_lost(*ticket, after);
    return false;
  }
  tell_later(node.shard, after);
  remove(*ticket, set_of(ticket->shard), after);
  return true;
}

bool LocalSpace::release_ticket(Entry& ticket) noexcept {
  Aftermath after;
  const ShardSet set = ticket.shards;
  table_.lock(set);
  const bool held = ticket.state.load(std::memory_order_relaxed) == State::granted;
  if (held) {
    tell_later(ticket.shard, after);
    remove(ticket, set, after);
  } else {
    release_lost(ticket, after);
  }
  table_.unlock(set);
  if (!after.empty()) finish(after);
  return held;
}

// The hold was evicted, or is being evicted.
void LocalSpace::release_lost(Entry& ticket, Aftermath& after) noexcept {
  if (ticket.state.load(std::memory_order_relaxed) == State::evicted) {
    free_first(ticket, after);
  } else {
    ticket.state.store(State::orphaned, std::memory_order_relaxed);
  }
}

// Removes a waiting ticket whose outcome the caller has decided.
void LocalSpace::withdraw(Entry& ticket) noexcept {
  ticket.state.store(State::cancelled, std::memory_order_relaxed);
  for (;;) {
    if (ticket.phase.load(std::memory_order_acquire) == Phase::parked) break;
    const std::uint8_t at = ticket.turn_shard.load(std::memory_order_relaxed);
    const std::unique_lock guard{table_[at].lock};
    if (ticket.phase.load(std::memory_order_acquire) == Phase::queued &&
        ticket.turn_shard.load(std::memory_order_relaxed) == at) {
      LockTable::dequeue(ticket);
      break;
    }
    // Another thread is about to queue it elsewhere, or to find that it was cancelled.
    std::this_thread::yield();
  }
  Aftermath after;
  const ShardSet held = ticket.shards;
  table_.lock(held);
  tell_later(ticket.shard, after);
  remove(ticket, held, after);
  table_.unlock(held);
  if (!after.empty()) finish(after);
}

// Removes all claims before any waiter is judged: a ticket leaves as a whole.
void LocalSpace::take_out_all(Entry& ticket, ShardSet held, Aftermath& after) noexcept {
  DueList due;
  if (ticket.bundle) {
    table_.take_out_bundle(ticket, due);
  } else {
    for (Entry* e = &ticket; e != nullptr; e = e->next_claim) table_.take_out(*e, due);
  }
  table_.advance(due, held, after.turns);
}

void LocalSpace::free_rest(Entry& ticket) noexcept {
  for (Entry* e = std::exchange(ticket.next_claim, nullptr); e != nullptr;) {
    Entry& gone = *std::exchange(e, e->next_claim);
    table_[gone.shard].free_entry(gone);
  }
}

void LocalSpace::free_first(Entry& ticket, Aftermath& after) noexcept {
  Shard& shard = table_[ticket.shard];
  if (ticket.owner != nullptr) ticket.owner->count(-1U);
  if (ticket.timed) deadlines_.cancel(ticket.number);
  count_out(shard, after);
  if (ticket.was_thin) shard.no_longer_used(*ticket.node);
  shard.free_entry(ticket);
}

void LocalSpace::remove(Entry& ticket, ShardSet held, Aftermath& after) noexcept {
  take_out_all(ticket, held, after);
  if (ticket.next_claim != nullptr) free_rest(ticket);
  free_first(ticket, after);
}

// NOLINTNEXTLINE(misc-no-recursion): tell_followers() calls it with nobody to tell.
void LocalSpace::finish(Aftermath& after) noexcept {
  if (after.leaving()) {  // Nobody waits in an abandoned space.
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    return;
  }
  table_.judge_rest(after.turns);
  // From here on the space may be destroyed: a waiter that is notified may be its last user.
  const detail::ResumeScope scope;
  while (!after.turns.granted.empty()) {
    Entry& ticket = after.turns.granted.pop();
    if (ticket.owner != nullptr && ticket.owner->terms.max_hold.count() != 0) {
      start_deadline(ticket);
    }
    ticket.waiter->done(*ticket.waiter, detail::WaitOutcome::granted);
  }
  if (after.observed() != 0) tell_followers(after.observed());
}

// ---- Less than before ----

void LocalSpace::downgrade(detail::Grant& grant, std::span<const Claim> claims) {
  check_process();
  if (const auto fault = find_fault(claims)) throw BadRequest(*fault);
  if (Node* const node = thin_node(grant)) {
    Shard& shard = table_[node->shard];
    const ShardGuard guard{shard.lock};
    shard.thicken();
    Entry* const ticket = Shard::thickened(*node, grant.token.value);
    if (ticket == nullptr) throw Evicted(nothing_to_downgrade);
    ticket->was_thin = false;
    shard.no_longer_used(*node);
    grant.ticket = ticket;
  }
  auto& old = *static_cast<Entry*>(grant.ticket);
  const ShardSet held = table_.lock_for(claims, old.shards | LockTable::own_shards(claims));
  Aftermath after;
  {
    const LockTable::Unlock guard{table_, held};
    table_.thicken(held);
    if (old.bundle) LockTable::unbundle(old);
    if (old.state.load(std::memory_order_relaxed) != State::granted) {
      throw Evicted(nothing_to_downgrade);
    }
    if (const auto fault = find_downgrade_fault(claims_of(old), claims)) throw BadRequest(*fault);
    refuse_limit_clash(claims, old.owner, &old);
    tell_later(old.shard, after);
    grant.ticket = &replace(old, claims, held, after);
  }
  if (!after.empty()) finish(after);
}

// Claims that stay keep their entries: a limit counts them once.
Entry& LocalSpace::replace(Entry& old, std::span<const Claim> claims, ShardSet held,
                           Aftermath& after) {
  std::vector<Claim> fresh;
  std::vector<Entry*> kept;
  std::vector<Entry*> dropped;
  for (const Claim& claim : claims) {
    Entry* same = nullptr;
    for (Entry* e = &old; e != nullptr; e = e->next_claim) {
      if (claim_of(*e) == claim) same = e;
    }
    if (same != nullptr) {
      kept.push_back(same);
    } else {
      fresh.push_back(claim);
    }
  }
  for (Entry* e = &old; e != nullptr; e = e->next_claim) {
    if (std::ranges::find(kept, e) == kept.end()) dropped.push_back(e);
  }
  if (!fresh.empty()) {
    // May throw; nothing has changed yet.
    for (Entry* e = &table_.append(fresh, old.number); e != nullptr; e = e->next_claim) {
      e->kept = std::ranges::any_of(dropped, [e](const Entry* from) {
        return from->kept && from->node == e->node && from->group == e->group;
      });
      kept.push_back(e);
    }
    // A later ticket in a shard that this one was not in must get a larger number.
    table_.raise_counters(held, old);
  }

  Entry& first = *kept.front();
  if (&first != &old) {
    first.state.store(State::granted, std::memory_order_relaxed);
    first.since.store(old.since.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.owner = std::move(old.owner);
    first.signals = std::move(old.signals);
    first.timed = std::exchange(old.timed, false);
    first.replaces = old.replaces;
    first.shards = 0;
    --table_[old.shard].tickets;
    ++table_[first.shard].tickets;
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    kept[i]->first = &first;
    first.shards |= set_of(kept[i]->shard);
    kept[i]->next_claim = i + 1 < kept.size() ? kept[i + 1] : nullptr;
  }
  DueList due;
  for (Entry* e : dropped) table_.take_out(*e, due);
  table_.advance(due, held, after.turns);
  for (Entry* e : dropped) table_[e->shard].free_entry(*e);
  return first;
}

void LocalSpace::abandon() noexcept {
  if (forked()) return;
  std::size_t tickets = 1;  // This call counts as well.
  table_.lock(all_shards);
  for (std::size_t i = 0; i < shard_count; ++i) {
    tickets += table_[i].tickets + table_[i].thin_holds();
    table_[i].abandoned = true;
  }
  remaining_.store(tickets, std::memory_order_release);
  table_.unlock(all_shards);
  Aftermath after;
  after.ends = 1;
  finish(after);
}

}  // namespace tenure::local
