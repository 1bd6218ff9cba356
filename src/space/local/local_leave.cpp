// How tickets leave a local space: released, cancelled, evicted, closed, or downgraded.
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

std::stop_token stopped() {
  const std::stop_source source;
  source.request_stop();
  return source.get_token();
}

}  // namespace

// A Hold has released its ticket.
inline void LocalSpace::count_out(Shard& shard, Aftermath& after) noexcept {
  --shard.tickets;
  after.leaving = shard.abandoned;
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
  Aftermath after;
  bool held = true;
  {
    const ShardGuard guard{shard.lock};
    if (node->thin.number == grant.token.value) [[likely]] {
      count_out(shard, after);  // The fast case. Nobody waits for a thin hold.
      shard.give_thin(*node);
    } else {
      held = release_thickened(shard, *node, grant.token.value, after);
    }
  }
  if (!after.empty()) [[unlikely]]
    finish(after);
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
  remove(*ticket, set_of(ticket->shard), after);
  return true;
}

bool LocalSpace::release_ticket(Entry& ticket) noexcept {
  Aftermath after;
  const ShardSet set = ticket.shards;
  table_.lock(set);
  const bool held = ticket.state.load(std::memory_order_relaxed) == State::granted;
  if (held) {
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
  remove(ticket, held, after);
  table_.unlock(held);
  if (!after.empty()) finish(after);
}

// Removes all claims before any waiter is judged: a ticket leaves as a whole.
void LocalSpace::take_out_all(Entry& ticket, ShardSet held, Aftermath& after) noexcept {
  DueList due;
  for (Entry* e = &ticket; e != nullptr; e = e->next_claim) table_.take_out(*e, due);
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
  if (ticket.owner != nullptr) ticket.owner->tickets.fetch_sub(1, std::memory_order_relaxed);
  count_out(shard, after);
  if (ticket.was_thin) shard.no_longer_used(*ticket.node);
  shard.free_entry(ticket);
}

void LocalSpace::remove(Entry& ticket, ShardSet held, Aftermath& after) noexcept {
  take_out_all(ticket, held, after);
  if (ticket.next_claim != nullptr) free_rest(ticket);
  free_first(ticket, after);
}

void LocalSpace::finish(Aftermath& after) noexcept {
  if (after.leaving) {  // Nobody waits in an abandoned space.
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    return;
  }
  table_.judge_rest(after.turns);
  // From here on the space may be destroyed: a waiter that is notified may be its last user.
  const detail::ResumeScope scope;
  while (!after.turns.granted.empty()) {
    const Entry& ticket = after.turns.granted.pop();
    ticket.waiter->done(*ticket.waiter, detail::WaitOutcome::granted);
  }
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
    if (old.state.load(std::memory_order_relaxed) != State::granted) {
      throw Evicted(nothing_to_downgrade);
    }
    if (const auto fault = find_downgrade_fault(claims_of(old), claims)) throw BadRequest(*fault);
    refuse_limit_clash(claims, old.owner, &old);
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
    for (Entry* e = &table_.append(fresh, old.number); e != nullptr; e = e->next_claim)
      kept.push_back(e);
    // A later ticket in a shard that this one was not in must get a larger number.
    table_.raise_counters(held, old);
  }

  Entry& first = *kept.front();
  if (&first != &old) {
    first.state.store(State::granted, std::memory_order_relaxed);
    first.since.store(old.since.load(std::memory_order_relaxed), std::memory_order_relaxed);
    first.owner = std::move(old.owner);
    first.lost = std::move(old.lost);
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

// ---- By others ----

std::stop_token LocalSpace::lost(const detail::Grant& grant) {
  check_process();
  Node* const node = thin_node(grant);
  auto* ticket = node == nullptr ? static_cast<Entry*>(grant.ticket) : nullptr;
  Shard& shard = table_[node == nullptr ? ticket->shard : node->shard];
  const ShardGuard guard{shard.lock};
  if (node != nullptr) {
    shard.thicken();
    ticket = Shard::thickened(*node, grant.token.value);
  }
  if (ticket == nullptr || ticket->state.load(std::memory_order_relaxed) != State::granted) {
    return stopped();
  }
  if (ticket->lost == nullptr) ticket->lost = std::make_unique<std::stop_source>();
  return ticket->lost->get_token();
}

// There is no lease to renew; returns whether the hold is still held.
bool LocalSpace::renew(detail::Grant& grant) {
  check_process();
  Node* const node = thin_node(grant);
  const auto* ticket = node == nullptr ? static_cast<const Entry*>(grant.ticket) : nullptr;
  const ShardGuard guard{table_[node == nullptr ? ticket->shard : node->shard].lock};
  if (node != nullptr) {
    if (node->thin.number == grant.token.value) return true;
    ticket = Shard::thickened(*node, grant.token.value);
  }
  return ticket != nullptr && ticket->state.load(std::memory_order_relaxed) == State::granted;
}

detail::OwnerRef LocalSpace::on_terms(const detail::OwnerRef& /*owner*/,
                                      const detail::Terms& /*terms*/) {
  throw BadRequest(
      "'local:' supports neither max_hold, labels, anchors nor transactions: use 'sqlite:PATH' or "
      "a "
      "server");
}

std::vector<Guard> LocalSpace::guard(const detail::Grant& /*grant*/) {
  throw BadRequest("'local:' has no store, so guard() is not supported: use token() instead");
}

bool LocalSpace::evict(Token token, bool /*at_once*/) {
  check_process();
  Entry* ticket = nullptr;
  std::optional<std::stop_source> told;
  bool waits = false;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    ticket = find_ticket(token);
    if (ticket == nullptr) return false;
    const State state = ticket->state.load(std::memory_order_relaxed);
    waits = state == State::waiting;
    if (waits ? !ticket->waiter->decide() : state != State::granted) return false;
    if (!waits) {
      ticket->state.store(State::evicting, std::memory_order_relaxed);
      if (ticket->lost != nullptr) told = *ticket->lost;
    }
  }
  if (waits) {
    const detail::ResumeScope scope;  // The holder is notified before the next tickets are granted.
    detail::Waiter& waiter = *ticket->waiter;
    withdraw(*ticket);
    waiter.done(waiter, detail::WaitOutcome::evicted);
    return true;
  }
  if (told.has_value()) told->request_stop();  // lost() fires before the next grant.
  Aftermath after;
  const ShardSet held = ticket->shards;
  table_.lock(held);
  take_out_all(*ticket, held, after);
  free_rest(*ticket);
  if (ticket->state.load(std::memory_order_relaxed) == State::orphaned) {
    free_first(*ticket, after);
  } else if (ticket->was_thin) {
    table_[ticket->shard].free_entry(*ticket);  // Its Hold knows only the node.
  } else {
    ticket->state.store(State::evicted, std::memory_order_relaxed);
  }
  table_.unlock(held);
  if (!after.empty()) finish(after);
  return true;
}

void LocalSpace::close() noexcept {
  if (forked()) return;
  detail::Waiter* waiting = nullptr;
  detail::Waiter** last = &waiting;
  table_.lock(all_shards);
  for (std::size_t i = 0; i < shard_count; ++i) table_[i].closed = true;
  table_.for_each_ticket([&](Entry& ticket) {
    if (ticket.state.load(std::memory_order_relaxed) != State::waiting) return;
    if (!ticket.waiter->decide()) return;
    *last = ticket.waiter;
    last = &ticket.waiter->next;
  });
  table_.unlock(all_shards);
  const detail::ResumeScope scope;
  while (waiting != nullptr) {
    detail::Waiter& waiter = *std::exchange(waiting, waiting->next);
    withdraw(*static_cast<Entry*>(waiter.grant.ticket));
    waiter.done(waiter, detail::WaitOutcome::closed);
  }
}

void LocalSpace::abandon() noexcept {
  if (forked()) return;
  std::size_t tickets = 1;  // This call counts as well.
  table_.lock(all_shards);
  for (std::size_t i = 0; i < shard_count; ++i) {
    tickets += table_[i].tickets;
    table_[i].abandoned = true;
  }
  remaining_.store(tickets, std::memory_order_release);
  table_.unlock(all_shards);
  Aftermath after;
  after.leaving = true;
  finish(after);
}

}  // namespace tenure::local
