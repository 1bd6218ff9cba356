// What becomes of tickets of a local space beside their own calls: evicted, asked to leave, past
// their deadline, closed; and what their holders can ask and are told.
#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "space/limit_change.hpp"
#include "space/local/local_space.hpp"
#include "tenure/error.hpp"

namespace tenure::local {
namespace {

std::stop_token stopped() {
  const std::stop_source source;
  source.request_stop();
  return source.get_token();
}

bool is_granted(const Entry* ticket) {
  return ticket != nullptr && ticket->state.load(std::memory_order_relaxed) == State::granted;
}

HoldSignals& signals_of(Entry& ticket) {
  if (ticket.signals == nullptr) ticket.signals = std::make_unique<HoldSignals>();
  return *ticket.signals;
}

}  // namespace

// ---- What a holder asks ----

Shard& LocalSpace::shard_of_hold(const detail::Grant& grant) {
  const Node* const node = thin_node(grant);
  return table_[node != nullptr ? node->shard : static_cast<Entry*>(grant.ticket)->shard];
}

Entry* LocalSpace::entry_of(Shard& shard, const detail::Grant& grant) {
  Node* const node = thin_node(grant);
  if (node == nullptr) return static_cast<Entry*>(grant.ticket);
  shard.thicken();
  return Shard::thickened(*node, grant.token.value);
}

std::stop_token LocalSpace::lost(const detail::Grant& grant) {
  check_process();
  Shard& shard = shard_of_hold(grant);
  const ShardGuard guard{shard.lock};
  Entry* const ticket = entry_of(shard, grant);
  return is_granted(ticket) ? signals_of(*ticket).lost.get_token() : stopped();
}

std::stop_token LocalSpace::asked_to_leave(const detail::Grant& grant) {
  check_process();
  Shard& shard = shard_of_hold(grant);
  const ShardGuard guard{shard.lock};
  Entry* const ticket = entry_of(shard, grant);
  return is_granted(ticket) ? signals_of(*ticket).asked.get_token() : std::stop_token{};
}

std::vector<Claim> LocalSpace::claims(const detail::Grant& grant) {
  check_process();
  if (thin_node(grant) == nullptr) {
    auto& ticket = *static_cast<Entry*>(grant.ticket);
    const ShardSet held = ticket.shards;
    table_.lock(held);
    const LockTable::Unlock guard{table_, held};
    table_.thicken(held);
    if (ticket.bundle) LockTable::unbundle(ticket);
    return claims_of(ticket);
  }
  Shard& shard = shard_of_hold(grant);
  const ShardGuard guard{shard.lock};
  const Entry* const ticket = entry_of(shard, grant);
  return ticket != nullptr ? claims_of(*ticket) : std::vector<Claim>{};
}

std::optional<Instant> LocalSpace::deadline(const detail::Grant& grant) {
  check_process();
  return deadlines_.at(grant.token.value);
}

// With the lock held, so that lost() does not fire for a deadline that is being renewed.
bool LocalSpace::renew(detail::Grant& grant, std::chrono::nanoseconds max_hold) {
  check_process();
  if (max_hold.count() != 0) deadlines_.prepare();
  Shard& shard = shard_of_hold(grant);
  const ShardGuard guard{shard.lock};
  const Node* const node = thin_node(grant);
  if (max_hold.count() == 0 && node != nullptr && node->thin == grant.token.value) {
    return true;
  }
  Entry* const ticket = entry_of(shard, grant);
  if (!is_granted(ticket)) return false;
  if (ticket->signals != nullptr && ticket->signals->is_lost) return false;
  if (ticket->timed) return deadlines_.renew(ticket->number, max_hold);
  if (max_hold.count() == 0) return true;
  ticket->timed = true;
  deadlines_.start(ticket->number, max_hold);
  return true;
}

detail::OwnerRef LocalSpace::on_terms(const detail::OwnerRef& owner, const detail::Terms& terms) {
  check_process();
  if (!terms.anchor.empty() || terms.request_id.has_value() || terms.part != nullptr) {
    throw BadRequest(
        "'local:' has no store for anchors, request ids and transactions: use 'sqlite:PATH' or a "
        "server");
  }
  if (terms.max_hold.count() != 0) deadlines_.prepare();
  auto state = std::make_shared<detail::OwnerState>();
  if (owner != nullptr) {
    state->owner = owner->owner;
    state->parent = owner->parent;
    state->plain = owner->plain != nullptr ? owner->plain : owner;
    state->terms = owner->terms;
  }
  state->terms = detail::merge(std::move(state->terms), terms);
  return state;
}

std::vector<Guard> LocalSpace::guard(const detail::Grant& /*grant*/) {
  throw BadRequest("'local:' has no store, so guard() is not supported: use token() instead");
}

// ---- By others ----

std::optional<LocalSpace::Eviction> LocalSpace::begin_eviction(Entry& ticket) {
  const State state = ticket.state.load(std::memory_order_relaxed);
  const bool waits = state == State::waiting;
  if (waits ? !ticket.waiter->decide() : state != State::granted) return std::nullopt;
  Eviction eviction{.ticket = &ticket, .waits = waits, .lost = {}};
  if (!waits) {
    ticket.state.store(State::evicting, std::memory_order_relaxed);
    if (ticket.signals != nullptr) eviction.lost = ticket.signals->lost;
  }
  return eviction;
}

// Waiters first: each of them is out of the queue before a hold ends, so none of them is granted.
std::size_t LocalSpace::evict_all(const std::vector<Eviction>& evictions) noexcept {
  const detail::ResumeScope scope;  // Coroutines go on when all tickets are gone.
  for (const Eviction& one : evictions) {
    if (!one.waits) continue;
    detail::Waiter& waiter = *one.ticket->waiter;
    detail::Backend* const front = waiter.front;
    withdraw(*one.ticket);
    waiter.done(waiter, detail::WaitOutcome::evicted);
    if (front != nullptr) front->wait_ended();
  }
  for (const Eviction& one : evictions) {
    if (one.lost.has_value()) std::stop_source{*one.lost}.request_stop();  // Before the next grant.
  }
  for (const Eviction& one : evictions) {
    if (!one.waits) end_hold(one);
  }
  return evictions.size();
}

void LocalSpace::end_hold(const Eviction& eviction) noexcept {
  Entry& ticket = *eviction.ticket;
  Aftermath after;
  const ShardSet held = ticket.shards;
  table_.lock(held);
  tell_later(ticket.shard, after);
  take_out_all(ticket, held, after);
  free_rest(ticket);
  if (ticket.state.load(std::memory_order_relaxed) == State::orphaned) {
    free_first(ticket, after);
  } else if (ticket.was_thin) {
    if (ticket.timed) deadlines_.cancel(ticket.number);
    table_[ticket.shard].free_entry(ticket);  // Its Hold knows only the node.
  } else {
    ticket.state.store(State::evicted, std::memory_order_relaxed);
  }
  table_.unlock(held);
  if (!after.empty()) finish(after);
}

bool LocalSpace::evict(Token token, bool /*at_once*/) {
  check_process();
  std::vector<Eviction> evictions;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    Entry* const ticket = find_ticket(token);
    if (ticket == nullptr) return false;
    evictions.reserve(1);
    const std::optional<Eviction> eviction = begin_eviction(*ticket);
    if (!eviction.has_value()) return false;
    evictions.push_back(*eviction);
  }
  return evict_all(evictions) == 1;
}

std::size_t LocalSpace::evict_below(const Path& path, bool /*at_once*/) {
  check_process();
  std::vector<Eviction> evictions;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    std::vector<Entry*> below;
    table_.for_each_ticket([&](Entry& ticket) {
      const std::vector<Claim> claims = claims_of(ticket);
      const auto is_below = [&path](const Claim& claim) { return path.covers(claim.path); };
      if (std::ranges::any_of(claims, is_below)) below.push_back(&ticket);
    });
    evictions.reserve(below.size());  // Nothing throws from here on.
    for (Entry* const ticket : below) {
      if (std::optional<Eviction> eviction = begin_eviction(*ticket)) {
        evictions.push_back(*std::move(eviction));
      }
    }
  }
  return evict_all(evictions);
}

bool LocalSpace::ask_to_leave(Token token) {
  check_process();
  std::optional<std::stop_source> asked;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    Entry* const ticket = find_ticket(token);
    if (ticket == nullptr) return false;
    const State state = ticket->state.load(std::memory_order_relaxed);
    if (state != State::granted && state != State::waiting) return false;
    HoldSignals& signals = signals_of(*ticket);
    signals.is_asked = true;
    asked = signals.asked;
  }
  asked->request_stop();
  if (followed_.load(std::memory_order_relaxed)) tell(followers());
  return true;
}

std::size_t LocalSpace::set_limit(const Claim& limit) {
  check_process();
  Aftermath after;
  std::size_t members = 0;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    table_.thicken(all_shards);
    const Snapshot all = snapshot();
    const LimitChange change = space::plan_limit_change(limit, all.tickets);
    members = change.members;
    if (change.changed.empty()) return members;
    Shard& shard = table_[shard_of(limit.path.route())];
    Node& node = *shard.find(limit.path);
    const GroupRef group{shard, limit.mode};
    // Nothing throws from here on.
    for (const Ticket& ticket : change.changed) {
      const auto same = [&ticket](const Entry* e) { return e->number == ticket.number.value; };
      std::size_t claim = 0;
      for (Entry* e = *std::ranges::find_if(all.entries, same); e != nullptr; e = e->next_claim) {
        e->kept = ticket.keeps(claim++);
      }
    }
    tell_later(node.shard, after);
    DueList due;
    Shard::change_limit(*Shard::existing(&node.here, *group), limit.mode.limit(), due);
    table_.advance(due, all_shards, after.turns);
  }
  if (!after.empty()) finish(after);
  return members;
}

// Looks at the deadline again with the locks held: it may just have been renewed.
void LocalSpace::tell_lost(std::uint64_t number) noexcept {
  std::optional<std::stop_source> lost;
  {
    table_.lock(all_shards);
    const LockTable::Unlock guard{table_, all_shards};
    Entry* const ticket = find_ticket(Token{number});
    if (!is_granted(ticket) || ticket->signals == nullptr || !deadlines_.is_due(number)) return;
    ticket->signals->is_lost = true;
    lost = ticket->signals->lost;
  }
  lost->request_stop();
}

// ---- Followers ----

void LocalSpace::Follower::call() {
  const base::Mutex::Scoped lock{mutex};
  if (changed) changed();
}

LocalSpace::Followers LocalSpace::followers() {
  const base::Mutex::Scoped lock{followers_mutex_};
  return followers_;
}

void LocalSpace::tell(const Followers& followers) {
  for (const auto& follower : followers) follower->call();
}

// Requires the lock.
void LocalSpace::tell_later(std::uint8_t shard, Aftermath& after) noexcept {
  if (!table_[shard].observed) return;
  ++table_[shard].tickets;
  after.ends |= static_cast<std::uint8_t>((shard + 1U) << 1U);
}

// As tell_later() has set it.
// NOLINTNEXTLINE(misc-no-recursion): `after` is observed only once.
void LocalSpace::tell_followers(std::uint8_t shard) noexcept {
  tell(followers());
  Aftermath after;
  {
    Shard& own = table_[shard - 1U];
    const ShardGuard guard{own.lock};
    --own.tickets;
    after.ends = static_cast<std::uint8_t>(own.abandoned);
  }
  if (!after.empty()) finish(after);
}

// The space outlives it: an Observer shares the space.
class LocalSpace::Following final : public detail::TicketWatch {
 public:
  Following(LocalSpace& space, Path path, std::function<void()> changed)
      : space_(space), path_(std::move(path)) {
    {
      const base::Mutex::Scoped lock{own_->mutex};
      own_->changed = std::move(changed);
    }
    {
      const base::Mutex::Scoped lock{space_.followers_mutex_};
      space_.followers_.push_back(own_);
    }
    set();
  }
  Following(const Following&) = delete;
  Following& operator=(const Following&) = delete;
  ~Following() override {
    {
      const base::Mutex::Scoped lock{own_->mutex};
      own_->changed = nullptr;
    }
    {
      const base::Mutex::Scoped lock{space_.followers_mutex_};
      std::erase(space_.followers_, own_);
    }
    set();
  }

  [[nodiscard]] std::vector<TicketInfo> look() override {
    if (space_.table_[0].closed) throw Closed("this space is closed: open it again");
    return space_.inspect(path_);
  }

 private:
  // While anybody follows the tickets, each one has an entry, and each call that changes one says
  // so.
  void set() {
    if (space_.forked()) return;
    space_.table_.lock(all_shards);
    const LockTable::Unlock guard{space_.table_, all_shards};
    const bool observed = !space_.followers().empty();
    for (std::size_t i = 0; i < shard_count; ++i) {
      Shard& shard = space_.table_[i];
      shard.observed = observed;
      shard.no_thin = observed || shard.closed;
    }
    if (observed) space_.table_.thicken(all_shards);
    space_.followed_.store(observed, std::memory_order_relaxed);
  }

  LocalSpace& space_;
  const Path path_;
  const std::shared_ptr<Follower> own_ = std::make_shared<Follower>();
};

std::unique_ptr<detail::TicketWatch> LocalSpace::watch(const Path& path,
                                                       std::function<void()> changed) {
  check_process();
  return std::make_unique<Following>(*this, path, std::move(changed));
}

// ---- The end ----

void LocalSpace::close() noexcept {
  if (forked()) return;
  end_waits_if(true, nullptr);
  tell(followers());
}

void LocalSpace::close_waits_of(const detail::Backend* front) noexcept {
  if (!forked()) end_waits_if(false, front);
}

// All waits, after which the space is closed, or those that came through `front`.
void LocalSpace::end_waits_if(bool all, const detail::Backend* front) noexcept {
  detail::Waiter* waiting = nullptr;
  detail::Waiter** last = &waiting;
  table_.lock(all_shards);
  for (std::size_t i = 0; all && i < shard_count; ++i) {
    table_[i].closed = true;
    table_[i].no_thin = true;
  }
  table_.for_each_ticket([&](Entry& ticket) {
    if (ticket.state.load(std::memory_order_relaxed) != State::waiting) return;
    if (!all && ticket.waiter->front != front) return;
    if (!ticket.waiter->decide()) return;
    *last = ticket.waiter;
    last = &ticket.waiter->next;
  });
  table_.unlock(all_shards);
  const detail::ResumeScope scope;
  while (waiting != nullptr) {
    detail::Waiter& waiter = *std::exchange(waiting, waiting->next);
    detail::Backend* const through = waiter.front;
    withdraw(*static_cast<Entry*>(waiter.grant.ticket));
    waiter.done(waiter, detail::WaitOutcome::closed);
    if (through != nullptr) through->wait_ended();
  }
}

}  // namespace tenure::local
