#include "space/local/local_space.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::local {
namespace {

constexpr std::uint64_t number_of(std::uint64_t counter, std::uint8_t shard) noexcept {
  return (counter << shard_bits) | shard;
}

// Whether the line of its group has no room for one more member. While somebody waits for the
// limit, nobody overtakes.
bool full(const Line* line, const Mode& mode) noexcept {
  return line != nullptr && line->limit != 0 &&
         (line->beyond != &line->live || mode.weight() > line->limit - line->inside);
}

// Whether a claim may be held thin: it is of a predefined group, and has no limit.
bool may_be_thin(const Claim& claim) noexcept {
  return claim.mode.kind() != Mode::Kind::named && claim.mode.limit() == 0 && !claim.path.is_root();
}

std::string owner_text(const detail::OwnerRef& owner) {
  return owner == nullptr ? Owner{}.text() : owner->owner.text();
}

}  // namespace

void LocalSpace::throw_forked() {
  throw Error(
      "this space was opened before fork() and belongs to the parent process: open it after "
      "fork(), in the process that uses it");
}

// ---- Asking ----

inline void LocalSpace::begin(Entry& ticket, const detail::OwnerRef& owner, State state) noexcept {
  ticket.state.store(state, std::memory_order_relaxed);
  ticket.since.store(state == State::waiting ? now_coarse() : 0, std::memory_order_relaxed);
  ++table_[ticket.shard].tickets;
  if (owner != nullptr) {
    ticket.owner = owner;
    owner->count(1);
  }
}

// The fast case: one claim without a limit, of a predefined group. Otherwise returns nothing and
// changes nothing.
detail::Grant LocalSpace::request_free(const Claim& claim, const detail::OwnerRef& owner) {
  if (owner != nullptr || !may_be_thin(claim) || forked()) return {};
  Shard& shard = table_[shard_of(claim.path.route())];
  const ShardGuard guard{shard.lock};
  if (shard.no_thin) return {};
  Node* node = shard.find_below_root(claim.path);
  if (node == nullptr) [[unlikely]]
    node = &shard.make_path(claim.path);
  if (!table_.alone(*node) || !Shard::is_free(*node)) return {};
  const std::uint64_t number = number_of(++shard.counter, node->shard);
  shard.take_thin(*node, !claim.mode.is_exclusive(), number);
  return thin_grant(*node, number);
}

bool LocalSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  check_process();
  return followed_.load(std::memory_order_relaxed) ? request_followed(ask, waiter)
                                                   : request_unfollowed(ask, waiter);
}

// Whoever follows the tickets keeps the space alive, and this call keeps whoever follows them.
bool LocalSpace::request_followed(const detail::Ask& ask, detail::Waiter& waiter) {
  const Followers all = followers();
  const bool granted = request_unfollowed(ask, waiter);
  tell(all);
  return granted;
}

bool LocalSpace::request_unfollowed(const detail::Ask& ask, detail::Waiter& waiter) {
  if (ask.held != nullptr) {
    detail::Grant grant;
    const bool granted = request_upgrade(ask, &waiter, grant);
    if (granted) waiter.grant = grant;
    return granted;
  }
  if (ask.owner != nullptr) return request_owned(ask, waiter);
  detail::Grant grant;
  return request_any(ask, waiter, grant);
}

// Once the ticket is queued, the waiter, everything that the ask refers to and even the space may
// be destroyed: only `grant` may be used.
bool LocalSpace::request_any(const detail::Ask& ask, detail::Waiter& waiter, detail::Grant& grant) {
  const Fast fast = ask.claims.size() == 1 ? request_one(ask, &waiter, grant) : Fast::impossible;
  const bool granted =
      fast == Fast::impossible ? request_all(ask, &waiter, grant) : fast == Fast::granted;
  if (granted) waiter.grant = grant;
  return granted;
}

bool LocalSpace::request_owned(const detail::Ask& ask, detail::Waiter& waiter) {
  const detail::OwnerRef owner = ask.owner;
  const Stay stay{*this};
  detail::Grant grant;
  const bool granted = request_any(ask, waiter, grant);
  if (granted && owner->terms.max_hold.count() != 0) {
    start_deadline(*static_cast<Entry*>(grant.ticket));
  }
  if (granted || !owner->has_more_than(1)) return granted;
  try {
    refuse_deadlock(grant.token.value);
  } catch (const std::bad_alloc&) {
    return false;  // The ticket is queued, and waits without a deadlock search.
  }
  return false;
}

bool LocalSpace::try_request(const detail::Ask& ask, detail::Grant& grant) {
  check_process();
  if (ask.held != nullptr) {
    const bool upgraded = request_upgrade(ask, nullptr, grant);
    if (upgraded && followed_.load(std::memory_order_relaxed)) tell(followers());
    return upgraded;
  }
  const Fast fast = ask.claims.size() == 1 ? request_one(ask, nullptr, grant) : Fast::impossible;
  const bool granted =
      fast == Fast::impossible ? request_all(ask, nullptr, grant) : fast == Fast::granted;
  if (granted && ask.owner != nullptr && ask.owner->terms.max_hold.count() != 0) {
    start_deadline(*static_cast<Entry*>(grant.ticket));
  }
  if (granted && followed_.load(std::memory_order_relaxed)) tell(followers());
  return granted;
}

// Judges a ticket that nobody sees, since all locks of its claims are held meanwhile.
bool LocalSpace::available(const detail::Ask& ask) {
  check_process();
  if (const auto fault = find_fault(ask.claims)) throw BadRequest(*fault);
  const ShardSet held = table_.lock_for(ask.claims, LockTable::own_shards(ask.claims));
  const LockTable::Unlock guard{table_, held};
  const std::uint8_t shard = shard_of(ask.claims[0].path.route());
  if (table_[shard].closed) throw Closed("this space is closed: open it again");
  table_.thicken(held);
  refuse_limit_clash(ask.claims, ask.owner);
  Entry& ticket = table_.append(ask.claims, number_of(table_.next_counter(held), shard));
  table_.raise_counters(held, ticket);
  begin(ticket, nullptr, State::waiting);
  const bool blocked = table_.queue_if_blocked(ticket);
  if (blocked) LockTable::dequeue(ticket);
  Aftermath none;
  remove(ticket, held, none);
  return !blocked;
}

void LocalSpace::start_deadline(Entry& ticket) {
  ticket.timed = true;
  deadlines_.start(ticket.number, ticket.owner->terms.max_hold);
}

LocalSpace::Fast LocalSpace::request_one(const detail::Ask& ask, detail::Waiter* waiter,
                                         detail::Grant& grant) {
  const Claim& claim = ask.claims.front();
  if (claim.path.is_root()) return Fast::impossible;
  Shard& shard = table_[shard_of(claim.path.route())];
  const std::unique_lock guard{shard.lock};
  if (shard.closed) throw Closed("this space is closed: open it again");
  Node& node = shard.node(claim.path);
  if (!table_.alone(node)) return Fast::impossible;
  if (!shard.observed && ask.owner == nullptr && may_be_thin(claim) && Shard::is_free(node)) {
    const std::uint64_t number = number_of(++shard.counter, node.shard);
    shard.take_thin(node, !claim.mode.is_exclusive(), number);
    grant = thin_grant(node, number);
    return Fast::granted;
  }
  shard.thicken();

  const GroupRef group{shard, claim.mode};
  Line* const own = Shard::existing(&node.here, *group);
  if (own != nullptr && own->limit != claim.mode.limit()) {
    refuse_limit_clash(ask.claims, ask.owner);
  }
  // All live tickets are earlier than a ticket without a number.
  const LockTable::WaitLine wait = table_.line_to_wait_in(node, *group, no_number);
  const bool blocked = wait.line != nullptr || full(own, claim.mode);
  if (blocked && waiter == nullptr) return Fast::blocked;

  Entry& entry = shard.make_entry(node, *group, claim.mode.limit());
  entry.weight = claim.mode.weight();
  try {
    shard.place(entry, number_of(shard.counter + 1, node.shard));
  } catch (...) {
    shard.free_entry(entry);
    throw;
  }
  ++shard.counter;
  begin(entry, ask.owner, blocked ? State::waiting : State::granted);
  grant = {.ticket = &entry, .token = Token{entry.number}};
  if (!blocked) return Fast::granted;
  entry.waiter = waiter;
  waiter->grant = {.ticket = &entry, .token = Token{entry.number}};
  LockTable::queue(entry, entry, wait);
  return Fast::blocked;
}

// Several claims that nothing is in the way of.
bool LocalSpace::request_bundle(const detail::Ask& ask, detail::Grant& grant) {
  if (ask.owner != nullptr || ask.claims.size() < 2 || ask.claims.size() > max_claims) return false;
  ShardSet set = 0;
  for (const Claim& claim : ask.claims) {
    if (!may_be_thin(claim)) return false;
    set |= set_of(shard_of(claim.path.route()));
  }
  table_.lock(set);
  const LockTable::Unlock guard{table_, set};
  const std::uint8_t shard = shard_of(ask.claims[0].path.route());
  if (table_[shard].no_thin) return false;
  Entry* const ticket = table_.append_thin(ask.claims, number_of(table_.next_counter(set), shard));
  if (ticket == nullptr) return false;
  table_.raise_counters(set, *ticket);
  begin(*ticket, ask.owner, State::granted);
  grant = {.ticket = ticket, .token = Token{ticket->number}};
  return true;
}

bool LocalSpace::request_all(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant) {
  if (request_bundle(ask, grant)) return true;
  if (const auto fault = find_fault(ask.claims)) throw BadRequest(*fault);
  const ShardSet held = table_.lock_for(ask.claims, LockTable::own_shards(ask.claims));
  const LockTable::Unlock guard{table_, held};
  const std::uint8_t shard = shard_of(ask.claims[0].path.route());
  if (table_[shard].closed) throw Closed("this space is closed: open it again");
  table_.thicken(held);
  refuse_limit_clash(ask.claims, ask.owner);

  Entry& ticket = table_.append(ask.claims, number_of(table_.next_counter(held), shard));
  table_.raise_counters(held, ticket);
  begin(ticket, ask.owner, State::waiting);
  grant = {.ticket = &ticket, .token = Token{ticket.number}};

  ticket.waiter = waiter;
  if (waiter != nullptr) waiter->grant = grant;
  if (!table_.queue_if_blocked(ticket)) {
    ticket.state.store(State::granted, std::memory_order_relaxed);
    ticket.since.store(0, std::memory_order_relaxed);
    return true;
  }
  if (waiter == nullptr) {
    // All locks were held since the ticket was appended, so no other thread has seen it.
    LockTable::dequeue(ticket);
    Aftermath none;
    remove(ticket, held, none);
  }
  return false;
}

Entry& LocalSpace::upgradable(detail::Grant& held) {
  Node* const node = thin_node(held);
  Entry* const ticket = node != nullptr ? Shard::thickened(*node, held.token.value)
                                        : static_cast<Entry*>(held.ticket);
  if (ticket == nullptr || ticket->state.load(std::memory_order_relaxed) != State::granted) {
    throw Evicted("cannot upgrade: the hold was evicted");
  }
  if (node != nullptr) {
    ticket->was_thin = false;
    table_[node->shard].no_longer_used(*node);
    held.ticket = ticket;
  }
  if (ticket->bundle) LockTable::unbundle(*ticket);
  return *ticket;
}

bool LocalSpace::request_upgrade(const detail::Ask& ask, detail::Waiter* waiter,
                                 detail::Grant& grant) {
  const Stay stay{*this};
  if (!append_upgrade(ask, waiter, grant)) return false;
  Entry& ticket = *static_cast<Entry*>(grant.ticket);
  if (ticket.owner != nullptr && ticket.owner->terms.max_hold.count() != 0) start_deadline(ticket);
  return true;
}

// The rule judges the new ticket. If it waits, the held one moves behind it in all lines, so that
// the new one need not pass it over when its turn comes. That changes nothing for others: whatever
// conflicts with the held ticket and came after it conflicts with the new one, too, which would be
// a deadlock; and whatever comes later waits for both.
bool LocalSpace::append_upgrade(const detail::Ask& ask, detail::Waiter* waiter,
                                detail::Grant& grant) {
  table_.lock(all_shards);
  const LockTable::Unlock guard{table_, all_shards};
  const std::uint8_t shard = ask.claims.empty() ? 0 : shard_of(ask.claims[0].path.route());
  if (table_[shard].closed) throw Closed("this space is closed: open it again");
  table_.thicken(all_shards);
  Entry& held = upgradable(*ask.held);
  if (const auto fault = find_upgrade_fault(claims_of(held), ask.claims)) throw BadRequest(*fault);
  refuse_limit_clash(ask.claims, held.owner, &held);
  Snapshot all = snapshot();
  const Ticket wanted{.number = Token{number_of(table_.next_counter(all_shards), shard)},
                      .claims = {ask.claims.begin(), ask.claims.end()},
                      .owner = held.owner == nullptr ? Owner{} : held.owner->owner,
                      .replaces = Token{held.number}};
  const bool blocked = !granted(wanted, all.tickets);
  if (blocked && waiter == nullptr) return false;
  if (blocked) {
    all.tickets.push_back(wanted);
    const std::vector<Wait> cycle = find_cycle(all.tickets, wanted.number);
    if (!cycle.empty()) {
      throw Deadlock("deadlock: " + describe_cycle(cycle, all.tickets) +
                     "; release the held lock, and lock again");
    }
  }
  Entry& ticket = table_.append(ask.claims, wanted.number.value);
  table_.raise_counters(all_shards, ticket);
  begin(ticket, held.owner, blocked ? State::waiting : State::granted);
  ticket.replaces = held.number;
  grant = {.ticket = &ticket, .token = wanted.number};
  if (!blocked) return true;
  for (Entry* e = &held; e != nullptr; e = e->next_claim) {
    Shard::move_behind(*e, wanted.number.value);
  }
  ticket.waiter = waiter;
  waiter->grant = grant;
  table_.queue_if_blocked(ticket);
  return false;
}

void LocalSpace::refuse_limit_clash(std::span<const Claim> claims, const detail::OwnerRef& owner,
                                    const Entry* own) {
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    Shard& shard = table_[shard_of(claim.path.route())];
    Node* const node = shard.find(claim.path);
    if (node == nullptr) continue;
    const GroupRef group{shard, claim.mode};
    const Line* const line = Shard::existing(&node->here, *group);
    if (line == nullptr || line->limit == claim.mode.limit()) continue;
    Link* link = line->live.next;
    if (Entry::of_link(*link, node->depth).first == own) link = link->next;
    if (link == &line->live) continue;
    const Entry& live = Entry::of_link(*link, node->depth);
    const auto limit = [](std::uint32_t n) {
      return n == 0 ? std::string{"no limit"} : "limit " + std::to_string(n);
    };
    throw LimitMismatch("group '" + std::string{claim.mode.name()} + "' of '" + claim.path.text() +
                        "' is used with different limits: " + owner_text(owner) + " asks for " +
                        limit(claim.mode.limit()) + ", " + owner_text(live.first->owner) +
                        " (ticket " + std::to_string(live.number) + ") has " + limit(line->limit) +
                        "; use the same limit everywhere, or change it with set_limit() or "
                        "'tenure limit'");
  }
}

}  // namespace tenure::local
