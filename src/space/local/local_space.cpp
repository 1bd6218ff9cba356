#include "space/local/local_space.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "space/local/block.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::local {
namespace {

constexpr std::uint64_t number_of(std::uint64_t counter, std::uint8_t shard) noexcept {
  return (counter << shard_bits) | shard;
}

std::uint8_t home_of(const Path& path) {
  return path.depth() <= 1 ? shard_of(path.route()) : shard_of(path.prefix(1).route());
}

// Whether the line has no room for one more member of its group.
bool full(const Line* line) noexcept {
  return line != nullptr && line->limit != 0 && line->inside >= line->limit;
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

// The group of a claim that may be held thin: a predefined group without a limit. Null: it may not.
Group* thin_group(const Claim& claim, const detail::OwnerRef& owner) noexcept {
  if (claim.mode.kind() == Mode::Kind::named || claim.mode.limit() != 0 || owner != nullptr) {
    return nullptr;
  }
  return claim.mode.is_exclusive() ? &exclusive_group : &shared_group;
}

std::string owner_text(const detail::OwnerRef& owner) {
  return owner == nullptr ? Owner{}.text() : owner->owner.text();
}

}  // namespace

LocalSpace::LocalSpace() : shards_(static_cast<Shard*>(take_block(sizeof(Shard) * shard_count))) {
  for (std::size_t i = 0; i < shard_count; ++i) {
    new (&shards_[i]) Shard{source_, shards_, static_cast<std::uint8_t>(i)};
  }
}

LocalSpace::~LocalSpace() {
  std::destroy_n(shards_, shard_count);
  give_block(shards_, sizeof(Shard) * shard_count);
}

void LocalSpace::throw_forked() {
  throw Error(
      "this space was opened before fork() and belongs to the parent process: open it after "
      "fork(), in the process that uses it");
}

void LocalSpace::lock(ShardSet set) noexcept {
  for (; set != 0; set &= set - 1) shards_[std::countr_zero(set)].lock.lock();
}

void LocalSpace::unlock(ShardSet set) noexcept {
  for (; set != 0; set &= set - 1) shards_[std::countr_zero(set)].lock.unlock();
}

void LocalSpace::thicken(ShardSet held) {
  for (; held != 0; held &= held - 1) shards_[std::countr_zero(held)].thicken();
}

// ---- Asking ----

inline void LocalSpace::begin(Entry& ticket, const detail::OwnerRef& owner, State state) noexcept {
  ticket.state.store(state, std::memory_order_relaxed);
  ticket.since.store(state == State::waiting ? now_coarse() : 0, std::memory_order_relaxed);
  ++shards_[ticket.shard].tickets;
  if (owner != nullptr) {
    ticket.owner = owner;
    owner->tickets.fetch_add(1, std::memory_order_relaxed);
  }
}

// No claim outside the node's own shard can concern it.
inline bool LocalSpace::alone(const Node& node) const noexcept {
  if (root_wide_.load(std::memory_order_acquire) != 0) return false;
  if (node.depth == 1) return node.replicas == 0;
  const Node* const top = node.branch->top;
  return top != nullptr && top->claims_here() == 0;
}

// The fast case: one claim without a limit, of a predefined group, on a path that was used
// recently. Otherwise returns nothing and changes nothing.
detail::Grant LocalSpace::request_free(const Claim& claim, const detail::OwnerRef& owner) {
  Group* const group = thin_group(claim, owner);
  if (group == nullptr || claim.path.is_root() || forked()) return {};
  Shard& shard = shards_[shard_of(claim.path.route())];
  const ShardGuard guard{shard.lock};
  Node* const node = shard.find(claim.path);
  if (node == nullptr || shard.closed || !alone(*node)) return {};
  const std::uint64_t number = shard.take_thin(*node, *group);
  return number != 0 ? thin_grant(*node, number) : detail::Grant{};
}

bool LocalSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  check_process();
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
  const Fast fast = ask.claims.size() == 1 ? request_one(ask, nullptr, grant) : Fast::impossible;
  return fast == Fast::impossible ? request_all(ask, nullptr, grant) : fast == Fast::granted;
}

LocalSpace::Fast LocalSpace::request_one(const detail::Ask& ask, detail::Waiter* waiter,
                                         detail::Grant& grant) {
  const Claim& claim = ask.claims.front();
  if (claim.path.is_root()) return Fast::impossible;
  Shard& shard = shards_[shard_of(claim.path.route())];
  const std::unique_lock guard{shard.lock};
  if (shard.closed) throw Closed("this space is closed: open it again");
  Node& node = shard.node(claim.path);
  if (!alone(node)) return Fast::impossible;
  if (Group* const known = thin_group(claim, ask.owner)) {
    if (const std::uint64_t number = shard.take_thin(node, *known)) {
      grant = thin_grant(node, number);
      return Fast::granted;
    }
  }
  shard.thicken();

  const GroupRef group{shard, claim.mode};
  Line* const own = Shard::existing(&node.here, *group);
  if (own != nullptr && own->limit != claim.mode.limit()) {
    refuse_limit_clash(ask.claims, ask.owner);
  }
  // All live tickets are earlier than a ticket without a number.
  const WaitLine wait = line_to_wait_in(node, *group, no_number);
  const bool blocked = wait.line != nullptr || full(own);
  if (blocked && waiter == nullptr) return Fast::blocked;

  Entry& entry = shard.make_entry(node, *group, claim.mode.limit());
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
  queue(entry, entry, wait);
  return Fast::blocked;
}

ShardSet LocalSpace::own_shards(std::span<const Claim> claims) {
  ShardSet set = 0;
  for (const Claim& claim : claims) {
    if (claim.path.is_root()) return all_shards;
    set |= set_of(shard_of(claim.path.route())) | set_of(home_of(claim.path));
  }
  return set;
}

ShardSet LocalSpace::lock_for(std::span<const Claim> claims, ShardSet set) {
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

bool LocalSpace::request_all(const detail::Ask& ask, detail::Waiter* waiter, detail::Grant& grant) {
  if (const auto fault = find_fault(ask.claims)) throw BadRequest(*fault);
  const ShardSet held = lock_for(ask.claims, own_shards(ask.claims));
  const Unlock guard{*this, held};
  if (shards_[std::countr_zero(held)].closed) throw Closed("this space is closed: open it again");
  thicken(held);
  refuse_limit_clash(ask.claims, ask.owner);

  std::uint64_t counter = 0;
  for (ShardSet s = held; s != 0; s &= s - 1) {
    counter = std::max(counter, shards_[std::countr_zero(s)].counter);
  }
  ++counter;
  Entry& ticket = append(ask.claims, number_of(counter, shard_of(ask.claims[0].path.route())));
  for (ShardSet s = held; s != 0; s &= s - 1) shards_[std::countr_zero(s)].counter = counter;
  begin(ticket, ask.owner, State::waiting);
  grant = {.ticket = &ticket, .token = Token{ticket.number}};

  ticket.waiter = waiter;
  if (waiter != nullptr) waiter->grant = grant;
  if (!queue_if_blocked(ticket)) {
    ticket.state.store(State::granted, std::memory_order_relaxed);
    ticket.since.store(0, std::memory_order_relaxed);
    return true;
  }
  if (waiter == nullptr) {
    // All locks were held since the ticket was appended, so no other thread has seen it.
    dequeue(ticket);
    Aftermath none;
    remove(ticket, held, none);
  }
  return false;
}

Entry& LocalSpace::append(std::span<const Claim> claims, std::uint64_t number) {
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

Entry& LocalSpace::append_one(const Claim& claim, std::uint64_t number) {
  Shard& shard = shards_[shard_of(claim.path.route())];
  Node& node = shard.node(claim.path);
  const GroupRef group{shard, claim.mode};
  Entry& entry = shard.make_entry(node, *group, claim.mode.limit());
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

void LocalSpace::refuse_limit_clash(std::span<const Claim> claims, const detail::OwnerRef& owner,
                                    const Entry* own) {
  for (const Claim& claim : claims) {
    if (claim.mode.is_exclusive()) continue;
    Shard& shard = shards_[shard_of(claim.path.route())];
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
                        "; use the same limit everywhere");
  }
}

// ---- Judging ----

ShardSet LocalSpace::touches(const Entry& entry) const noexcept {
  if (entry.depth == 0) return all_shards;
  ShardSet set = set_of(entry.shard);
  if (root_wide_.load(std::memory_order_acquire) != 0) set |= set_of(0);
  if (entry.depth == 1) return set | entry.node->replicas;
  const Node& top = *entry.node->branch->top;  // Awake while it has live claims below.
  return top.claims_here() != 0 ? set | set_of(top.shard) : set;
}

// The shards that must be locked to judge the ticket, as far as the locked ones tell.
ShardSet LocalSpace::needs(const Entry& ticket, ShardSet held) const noexcept {
  ShardSet set = ticket.shards;
  if ((set & ~held) != 0) return set;
  for (const Entry* e = &ticket; e != nullptr; e = e->next_claim) set |= touches(*e);
  return set;
}

LocalSpace::WaitLine LocalSpace::line_to_wait_in(Node& node, const Group& group,
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

LocalSpace::WaitLine LocalSpace::blocking_line_above(const Node& node, const Group& group,
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

LocalSpace::WaitLine LocalSpace::blocking_line_below(const Node& node, const Group& group,
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

// Makes the ticket wait for `entry`, one of its claims: for its limit if there is no line.
void LocalSpace::queue(Entry& ticket, Entry& entry, WaitLine wait) noexcept {
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

bool LocalSpace::queue_if_blocked(Entry& ticket) noexcept {
  for (Entry* e = &ticket; e != nullptr; e = e->next_claim) {
    WaitLine wait;
    if (e->within) wait = line_to_wait_in(*e->node, *e->group, e->number);
    if (wait.line == nullptr && e->within) continue;
    queue(ticket, *e, wait);
    return true;
  }
  return false;
}

}  // namespace tenure::local
