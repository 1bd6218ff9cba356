#include "store/etcd/orders.hpp"

#include <algorithm>

namespace tenure::etcd {
namespace {

// For so many commits after a lost race, requests carry several proposals.
constexpr int race_memory = 64;
constexpr unsigned min_reach = 2;

}  // namespace

void Contention::was_outrun() noexcept {
  if (race_.exchange(race_memory) > 0) adapt_reach(reach_.load() * 2);
}

void Contention::committed(std::uint64_t ahead) noexcept {
  if (ahead > 0) {
    race_.store(race_memory);
  } else if (racing()) {
    race_.fetch_sub(1);
  }
  adapt_reach(static_cast<unsigned>(std::min<std::uint64_t>(ahead, max_reach)));
}

// Rises at once and falls slowly.
void Contention::adapt_reach(unsigned ahead) noexcept {
  const unsigned old = reach_.load();
  const unsigned wanted = ahead + (ahead / 4) + min_reach;
  const unsigned next = wanted >= old ? wanted : old - ((old - wanted + 15) / 16);
  reach_.store(std::min<unsigned>(next, max_reach));
}

Order& Orders::operator[](OrderId id) {
  const base::Mutex::Scoped lock{mutex_};
  return orders_[id];
}

// The orders whose heads a write in the scope compares.
template <typename Visit>
void Orders::visit(const Scope& scope, const Visit& visit) const {
  if (scope.all) {
    for (const auto& [id, state] : orders_) {
      if (id != other_order || scope.other) visit(state);
    }
    return;
  }
  const auto one = [&](OrderId id) TENURE_REQUIRES(mutex_) {
    if (const auto at = orders_.find(id); at != orders_.end()) visit(at->second);
  };
  if (scope.below_top()) one(top_order);
  if (scope.other) one(other_order);
  for (const OrderId root : scope.roots) one(root);
}

std::uint64_t Orders::heads_per_round_trip() const noexcept {
  return (round_trip_us_.load() * heads_a_second / 1'000'000) + 1;
}

// A moving mean, weighted towards recent round trips. Two threads may overwrite each other's value;
// that loses one sample and does no harm.
void Orders::took(std::int64_t round_trip_ns) noexcept {
  const std::uint64_t mean = round_trip_us_.load();
  round_trip_us_.store((mean * 7 + static_cast<std::uint64_t>(round_trip_ns) / 1000) / 8);
}

std::uint64_t Orders::propose(const Scope& scope, std::uint64_t now) {
  const base::Mutex::Scoped lock{mutex_};
  std::uint64_t slot = now;
  visit(scope, [&](const State& state) { slot = std::max(slot, state.newest + 1); });
  for (const OrderId id : scope.moved()) orders_[id].newest = slot;
  return slot;
}

std::uint64_t Orders::next(const Scope& scope) const {
  const base::Mutex::Scoped lock{mutex_};
  std::uint64_t seen = 0;
  visit(scope, [&](const State& state) { seen = std::max(seen, state.seen); });
  return seen + 1;
}

void Orders::see(OrderId id, Revision head) {
  const base::Mutex::Scoped lock{mutex_};
  State& state = orders_[id];
  state.seen = std::max(state.seen, slot_of(head));
  state.newest = std::max(state.newest, state.seen);
}

void Orders::moved(OrderId id, const SoleWriter::Commit& commit) {
  const base::Mutex::Scoped lock{mutex_};
  State& state = orders_[id];
  state.sole_writer.moved(commit);
  if (state.owned) return;
  state.owned = true;
  owned_.push_back(id);
  if (owned_.size() <= max_owned) return;
  State& oldest = orders_[owned_.front()];
  oldest.owned = false;
  oldest.sole_writer.forget();
  owned_.pop_front();
}

void Orders::forget(const Scope& scope) {
  const base::Mutex::Scoped lock{mutex_};
  for (auto& [id, state] : orders_) {
    const bool below = scope.all || scope.top;
    const bool in_scope = id == other_order
                              ? scope.other
                              : below || std::ranges::find(scope.roots, id) != scope.roots.end();
    if (in_scope) state.sole_writer.forget();
  }
}

}  // namespace tenure::etcd
