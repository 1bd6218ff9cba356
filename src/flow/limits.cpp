// The limits of a start: a place or a seat in the queue, and the rate. All of it is taken in the
// transaction that stores the start.
#include <set>
#include <utility>

#include "flow/start_call.hpp"

namespace tenure::flow {
namespace {

std::string key_of(const std::function<std::string(std::string_view)>& key,
                   const std::string& input) {
  return key ? key(input) : std::string{};
}

}  // namespace

// Throws RateLimit.
void Core::find_rate(StartCall& call) {
  if (call.rate.empty()) return;
  const detail::Definition& limit = *call.definition;
  call.rate_turn = take_rate(
      *store_, call.rate, {.max = limit.rate_max, .per = limit.rate_per, .wait = limit.rate_wait},
      call.wanted);
  if (call.rate_turn->refused) {
    throw RateLimit(call.record.type, key_of(limit.rate_key, call.record.input), limit.rate_max,
                    call.rate_turn->starts - call.wanted);
  }
  call.record.starts = call.rate_turn->starts;
}

// Reserves one of `max` numbers under `numbered`; reads which are taken unless that is known.
bool Core::reserve_number(StartCall& call, const std::string& numbered, std::uint32_t max) {
  for (const bool known : {admission_.knows(numbered), false}) {
    if (!known) {
      Txn txn;
      txn.reads.push_back(Range::prefix(numbered));
      std::set<std::uint32_t> taken;
      const Outcome outcome = store_->apply(txn);
      for (const Entry& entry : outcome.reads.front()) taken.insert(keys::place_of(entry.key));
      admission_.refresh(numbered, taken);
    }
    if (const std::optional<std::uint32_t> number = admission_.reserve(numbered, max)) {
      call.numbered = numbered;
      call.number = *number;
      return true;
    }
  }
  return false;
}

// Throws ConcurrencyLimit, QueueFull.
void Core::find_place(StartCall& call) {
  if (call.places.empty()) return;
  using Mode = StartCall::Mode;
  const detail::Definition& limit = *call.definition;
  call.record.state = FlowState::running;
  call.record.admission.clear();
  call.record.seat.clear();
  call.mode = Mode::join;
  if (!queues_.queueing(call.places) || limit.queue == 0) {
    const bool queueing = limit.queue == 0 && queues_.queueing(call.places);  // Another program's.
    if (!queueing && reserve_number(call, call.places, limit.max)) {
      call.mode = Mode::place;
      call.record.admission = keys::place(call.places, call.number);
      return;
    }
    const bool stored = read(keys::queue_state(call.places)).has_value();
    queues_.saw(call.places, stored);
    if (limit.queue == 0) {
      throw ConcurrencyLimit(call.record.type, key_of(limit.key, call.record.input), limit.max);
    }
    if (!stored) call.mode = Mode::begin_queue;
  }
  if (!reserve_number(call, keys::seats(call.places), limit.queue)) {
    throw QueueFull(call.record.type, key_of(limit.key, call.record.input), limit.queue);
  }
  call.record.state = FlowState::queued;
  call.record.seat = keys::place(call.numbered, call.number);
}

void Core::give_back_place(StartCall& call) {
  if (!call.numbered.empty()) admission_.free(call.numbered, call.number);
  call.numbered.clear();
}

void Core::add_limits(const StartCall& call, Txn& txn) {
  using Mode = StartCall::Mode;
  if (call.rate_turn) {
    txn.guards.push_back(call.rate_turn->guard);
    txn.writes.push_back(call.rate_turn->counter);
    txn.writes.push_back(call.rate_turn->slot);
  }
  if (call.places.empty()) return;
  const std::string state = keys::queue_state(call.places);
  const std::string numbered = keys::place(call.numbered, call.number);
  txn.guards.push_back(call.mode == Mode::join ? Guard::present(state) : Guard::absent(state));
  txn.guards.push_back(Guard::absent(numbered));
  txn.writes.push_back(Write::put(numbered, call.id));
  if (call.mode == Mode::place) return;
  if (call.mode == Mode::begin_queue) {
    for (std::uint32_t i = 0; i < call.definition->max; ++i) {
      txn.guards.push_back(Guard::present(keys::place(call.places, i)));
    }
    txn.writes.push_back(Write::put(state, ""));
  }
  txn.writes.push_back(Write::append(keys::queue(call.places),
                                     encode(QueueEntry{.seat = call.number, .id = call.id})));
}

// The start was refused. Keeps what it reserved where that was not the reason.
void Core::look_again(StartCall& call, const Outcome& outcome) {
  if (call.places.empty()) return;
  using Mode = StartCall::Mode;
  const std::size_t last = outcome.reads.size() - 1;
  const bool queueing = !outcome.reads[last - 1].empty();
  queues_.saw(call.places, queueing);
  if (!outcome.reads[last].empty()) {
    admission_.taken(call.numbered, call.number);
    call.numbered.clear();
  } else if (call.mode == Mode::begin_queue || queueing != (call.mode == Mode::join)) {
    give_back_place(call);
  }
}

}  // namespace tenure::flow
