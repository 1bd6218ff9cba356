#include "store/etcd/proposer.hpp"

#include "store/etcd/numbers.hpp"

namespace tenure::etcd {
namespace {

// After so many lost races an apply also proposes a head far ahead: by as many heads as a round
// trip takes, times the number of lost races, up to `max_further`. A proposal further ahead than
// needed puts all other clients behind, so it is the last resort.
constexpr unsigned patience = 4;
constexpr unsigned max_further = 64;
// For so many commits after a lost race, requests carry several proposals.
constexpr int race_memory = 64;
constexpr unsigned min_reach = 2;

}  // namespace

std::uint64_t Contention::heads_per_round_trip() const noexcept {
  return (round_trip_us_.load() * heads_a_second / 1'000'000) + 1;
}

// A moving mean, weighted towards recent round trips. Two threads may overwrite each other's value;
// that loses one sample and does no harm.
void Contention::took(std::int64_t round_trip_ns) noexcept {
  const std::uint64_t mean = round_trip_us_.load();
  round_trip_us_.store((mean * 7 + static_cast<std::uint64_t>(round_trip_ns) / 1000) / 8);
}

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

Proposal Proposer::propose(const Needs& needs, const Txn& txn, Seen seen) {
  Proposal proposal;
  if (!needs.writes) return proposal;
  proposal.time = shared_.clock.unique_time();
  // A process that has not heard from etcd recently does not know how old the head is.
  const bool knows_age = seen.recently && !needs_head_;
  if (knows_age && rely_on_own_head(needs, txn, seen, proposal)) return proposal;
  if (knows_age && !needs.puts) {
    proposal.shape = Shape::remove;
    proposal.last = shared_.clock.far();
    proposal.oldest = std::max<std::int64_t>(seen.newest - max_age, 0);
    return proposal;
  }
  add_heads(needs, proposal);
  proposal.shape = proposal.heads.size() == 1 ? Shape::one_head : Shape::several_heads;
  proposal.last = proposal.heads.back();
  return proposal;
}

bool Proposer::rely_on_own_head(const Needs& needs, const Txn& txn, Seen seen, Proposal& proposal) {
  if (!needs.only_appends || needs.transactions > 1) return false;
  if (attempts_ > 1 || shared_.contention.racing()) return false;
  auto own = shared_.sole_writer.use(txn);
  if (!own) return false;
  if (needs.puts) {
    proposal.heads.push_back(shared_.clock.propose());
    proposal.last = proposal.heads.back();
  } else {
    if (seen.newest - own->head.put_at >= max_age) return false;
    proposal.last = own->head.revision.value;
  }
  proposal.shape = Shape::sole_writer;
  proposal.own = std::move(own);
  return true;
}

// In a race: the next heads behind the last one that was seen. Each commit then moves the head as
// little as possible, and every client that knows the head of a few commits ago gets through.
// Otherwise one head, taken from the time: it needs no knowledge of earlier commits.
void Proposer::add_heads(const Needs& needs, Proposal& proposal) {
  Clock& clock = shared_.clock;
  if (!shared_.contention.racing() || needs.max_heads <= 1) {
    const std::uint64_t lead = (needs.transactions - 1) * apart;
    proposal.heads.push_back((outrun_ < patience ? clock.propose() : far_ahead()) + lead);
    return;
  }
  const std::size_t count = std::min(shared_.contention.reach(), needs.max_heads);
  const std::uint64_t first = clock.next();
  for (std::size_t i = 0; i < count; ++i) proposal.heads.push_back(first + (i * apart));
  if (outrun_ >= patience) proposal.heads.back() = std::max(far_ahead(), proposal.heads.back());
}

std::uint64_t Proposer::far_ahead() {
  const std::uint64_t lead = shared_.contention.heads_per_round_trip();
  return shared_.clock.propose() + (lead * std::min(outrun_, max_further) * apart);
}

Proposer::Next Proposer::judge(Verdict verdict, const Proposal& proposal, Revision at) {
  if (proposal.shape != Shape::read) count(verdict, proposal, at);
  switch (verdict) {
    case Verdict::committed:
    case Verdict::refused: return Next::finish;
    case Verdict::no_head: return Next::make_head;
    case Verdict::outrun: ++outrun_; break;
    case Verdict::head_too_old: needs_head_ = true; break;
    case Verdict::key_changed:
    case Verdict::guard_unclear:
    case Verdict::head_not_ours: break;
  }
  return Next::retry;
}

void Proposer::count(Verdict verdict, const Proposal& proposal, Revision at) {
  ++shared_.counts.round_trips;
  if (verdict == Verdict::head_not_ours) {
    ++shared_.counts.head_not_ours;
    shared_.sole_writer.was_not_ours();
  } else if (proposal.own) {
    shared_.sole_writer.was_ours();
  }
  if (verdict == Verdict::outrun) shared_.contention.was_outrun();
  if (verdict != Verdict::committed) return;
  ++shared_.counts.commits;
  if (proposal.heads.empty()) return;
  shared_.contention.committed((at.value - proposal.heads.front()) / apart);
}

}  // namespace tenure::etcd
