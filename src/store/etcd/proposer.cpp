#include "store/etcd/proposer.hpp"

#include "store/etcd/numbers.hpp"

namespace tenure::etcd {
namespace {

// After so many lost races an apply also proposes a head far ahead: by as many heads as a round
// trip takes, times the number of lost races, up to `max_further`. A proposal further ahead than
// needed puts all other clients behind, so it is the last resort.
constexpr unsigned patience = 4;
constexpr unsigned max_further = 64;

}  // namespace

Proposal Proposer::propose(const Needs& needs, const Txn& txn) {
  Proposal proposal;
  if (!needs.writes) return proposal;
  proposal.time = shared_.clock.unique_time();
  proposal.order = needs.scope.first();
  if (rely_on_own_head(needs, txn, proposal)) return proposal;
  add_heads(needs, proposal);
  proposal.shape = proposal.heads.size() == 1 ? Shape::one_head : Shape::several_heads;
  return proposal;
}

bool Proposer::rely_on_own_head(const Needs& needs, const Txn& txn, Proposal& proposal) {
  if (!needs.only_appends || needs.transactions > 1 || !needs.scope.single()) return false;
  Order& order = shared_.orders[proposal.order];
  if (attempts_ > 1 || order.contention.racing()) return false;
  auto own = order.sole_writer.use(txn);
  if (!own) return false;
  proposal.heads.push_back((by_time(needs.scope) * apart) + proposal.order);
  proposal.shape = Shape::sole_writer;
  proposal.own = std::move(own);
  return true;
}

// In a race: the next heads behind the last one that was seen. Each commit then moves the head as
// little as possible, and every client that knows the head of a few commits ago gets through.
// Otherwise one head, taken from the time: it needs no knowledge of earlier commits.
void Proposer::add_heads(const Needs& needs, Proposal& proposal) {
  const Contention& contention = shared_.orders[proposal.order].contention;
  const auto add = [&](std::uint64_t slot) {
    proposal.heads.push_back((slot * apart) + proposal.order);
  };
  if (!contention.racing() || needs.max_heads <= 1) {
    const std::uint64_t lead = needs.transactions - 1;
    add((outrun_ < patience ? by_time(needs.scope) : far_ahead(needs.scope)) + lead);
    return;
  }
  const std::size_t count = std::min(contention.reach(), needs.max_heads);
  const std::uint64_t first = shared_.orders.next(needs.scope);
  const std::uint64_t last = first + count - 1;
  for (std::uint64_t slot = first; slot < last; ++slot) add(slot);
  add(outrun_ < patience ? last : std::max(last, far_ahead(needs.scope)));
}

// Taken from the time, not from how far other clients went: a proposal far ahead must not move all
// later ones forward.
std::uint64_t Proposer::by_time(const Scope& scope) {
  return shared_.orders.propose(scope, shared_.clock.slot());
}

std::uint64_t Proposer::far_ahead(const Scope& scope) {
  const std::uint64_t lead = shared_.orders.heads_per_round_trip();
  return by_time(scope) + (lead * std::min(outrun_, max_further));
}

Proposer::Next Proposer::judge(Verdict verdict, const Proposal& proposal, Revision at) {
  if (proposal.shape != Shape::read) count(verdict, proposal, at);
  switch (verdict) {
    case Verdict::committed:
    case Verdict::refused: return Next::finish;
    case Verdict::no_head: return Next::make_head;
    case Verdict::outrun: ++outrun_; break;
    case Verdict::key_changed:
    case Verdict::guard_unclear:
    case Verdict::head_not_ours: break;
  }
  return Next::retry;
}

void Proposer::count(Verdict verdict, const Proposal& proposal, Revision at) {
  ++shared_.counts.round_trips;
  Order& order = shared_.orders[proposal.order];
  if (verdict == Verdict::head_not_ours) {
    ++shared_.counts.head_not_ours;
    order.sole_writer.was_not_ours();
  } else if (proposal.own) {
    order.sole_writer.was_ours();
  }
  if (verdict == Verdict::outrun) order.contention.was_outrun();
  if (verdict != Verdict::committed) return;
  ++shared_.counts.commits;
  order.contention.committed((at.value - proposal.heads.front()) / apart);
}

}  // namespace tenure::etcd
