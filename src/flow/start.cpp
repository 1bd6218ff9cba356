// The start of a workflow: its record, its place and its idempotency key in one transaction.
#include <chrono>
#include <utility>

#include "base/duration.hpp"
#include "flow/start_call.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/uuid.hpp"

namespace tenure::flow {

namespace {

constexpr std::uint32_t max_tries = 1000;

// Version 7: milliseconds, then random bits. Workflows of a partition that start one after another
// are neighbours in the store: a start changes a page that was changed lately, however many other
// workflows there are.
std::string new_id(const std::function<std::uint64_t()>& random, Instant now) {
  Uuid uuid;
  for (std::size_t half = 0; half < 2; ++half) {
    std::uint64_t bits = random();
    for (std::size_t i = 0; i < 8; ++i, bits >>= 8U) {
      uuid.bytes.at((8 * half) + i) = static_cast<std::byte>(bits);
    }
  }
  auto time = static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch()).count());
  for (std::size_t i = 6; i-- > 0; time >>= 8U) uuid.bytes.at(i) = static_cast<std::byte>(time);
  uuid.bytes[6] = (uuid.bytes[6] & std::byte{0x0f}) | std::byte{0x70};
  uuid.bytes[8] = (uuid.bytes[8] & std::byte{0x3f}) | std::byte{0x80};
  return uuid.text();
}

void check_size(std::string_view what, std::string_view text) {
  if (text.size() <= keys::max_id) return;
  throw BadRequest("the " + std::string{what} + " of a workflow has " +
                   std::to_string(text.size()) + " bytes: use at most " +
                   std::to_string(keys::max_id));
}

void check_options(const StartOptions& options) {
  check_size("id", options.id);
  check_size("idempotency key", options.idempotency_key);
  if (options.at && options.after.count() != 0) {
    throw BadRequest("a start has either a time (at) or a pause (after), not both");
  }
  if (options.after > base::max_duration) {
    throw BadRequest("a start cannot be more than a hundred years away");
  }
}

}  // namespace

const detail::Definition& Core::check_start(std::string_view type, const std::string& input) const {
  const detail::Definition* const found = definition(type);
  if (found == nullptr) {
    throw BadRequest("there is no workflow type '" + std::string{type} +
                     "': define it before starting one");
  }
  try {
    found->check(input);
  } catch (const std::exception& error) {
    throw BadRequest("workflow '" + std::string{type} + "' cannot be started with " + input + ": " +
                     error.what());
  }
  return *found;
}

void Core::start(std::string_view type, std::string input, StartOptions options,
                 Engine::Started started, StartExtra extra) {
  begin();
  if (stopping()) throw Closed("the engine is being drained: it starts nothing");
  check_options(options);
  auto call = std::make_shared<StartCall>();
  call->definition = &check_start(type, input);
  if (!options.idempotency_key.empty()) {
    // Before a place is looked for: the first run may have the last one.
    if (const std::optional<Entry> first = read(keys::idempotency(options.idempotency_key))) {
      started(Run{shared_from_this(), first->value}, nullptr);
      return;
    }
  }
  Record& record = call->record;
  record.created = store_->now();
  call->id = options.id.empty() ? new_id(options_.random, record.created) : std::move(options.id);
  call->partition = partition_of(call->id);
  record.type = type;
  record.seed = options_.random();
  record.starts = options.at.value_or(detail::saturating_add(record.created, options.after));
  record.deadline = options.deadline;
  record.idempotency_key = std::move(options.idempotency_key);
  record.tags = std::move(options.tags);
  const auto key_of = [&input](const auto& key) { return key ? key(input) : std::string{}; };
  if (call->definition->max > 0) {
    const std::string key = key_of(call->definition->key);
    check_size("concurrency key", key);
    call->places = keys::places(type, key);
  }
  if (call->definition->rate_max > 0) {
    const std::string key = key_of(call->definition->rate_key);
    check_size("rate key", key);
    call->rate = keys::rate(type, key);
  }
  call->wanted = record.starts;
  record.input = std::move(input);
  call->started = std::move(started);
  if (extra.part) record.trigger = extra.part->trigger;
  record.parent = extra.parent;
  record.root = extra.root;
  call->extra = std::move(extra);
  find_rate(*call);
  find_place(*call);
  try_start(call);
}

// The owner's inbox gets the start, where that is another engine, and the signal that comes with
// it. In one message: of two that one transaction appends the last would stay.
void Core::add_message(const StartCall& call, Txn& txn) {
  const std::optional<Message>& signal = call.extra.signal;
  // A queued workflow without timers needs nobody until it has its place.
  const Record& record = call.record;
  const bool waits =
      record.state == FlowState::queued && record.starts <= record.created && !record.deadline;
  if ((call.reign || waits) && !signal) return;
  Message message{.kind = Message::Kind::start, .workflow = call.id, .name = {}, .value = {}};
  if (signal) {
    message.kind = call.reign ? Message::Kind::signal : Message::Kind::start_with_signal;
    message.name = signal->name;
    message.value = signal->value;
  }
  txn.writes.push_back(Write::append(keys::inbox(call.partition), encode(message)));
  if (call.extra.message_id.empty()) return;
  const std::string used = keys::message(call.partition, call.id, call.extra.message_id);
  txn.guards.push_back(Guard::absent(used));
  txn.writes.push_back(Write::put(used, ""));
}

void Core::try_start(const std::shared_ptr<StartCall>& call) {
  call->reign = partitions_->owner(call->partition);
  const Record& record = call->record;
  const std::string record_key = keys::record(call->partition, call->id);
  Txn txn;
  txn.durability = options_.durability;
  txn.guards.push_back(Guard::absent(record_key));
  txn.writes.push_back(Write::put(record_key, encode(record)));
  if (!record.idempotency_key.empty()) {
    txn.guards.push_back(Guard::absent(keys::idempotency(record.idempotency_key)));
    txn.writes.push_back(Write::put(keys::idempotency(record.idempotency_key), call->id));
  }
  add_limits(*call, txn);
  const bool queued = record.state == FlowState::queued;
  const bool later = record.starts > record.created;
  const auto add_timer = [&](const OpKey& key, Instant due) {
    txn.writes.push_back(Write::put(
        keys::timer({.partition = call->partition, .due = due, .id = call->id, .key = key}), ""));
  };
  if (later) add_timer(keys::start_timer, record.starts);
  if (record.deadline) add_timer(keys::deadline_timer, *record.deadline);
  if (call->reign) {
    txn.guards.insert(txn.guards.end(), call->reign->guards.begin(), call->reign->guards.end());
    if (!later && !queued) {
      txn.writes.push_back(
          Write::put(keys::runnable(call->partition, call->id), std::string{keys::nothing_ran}));
    }
  }
  add_message(*call, txn);
  const StartExtra& extra = call->extra;
  txn.guards.insert(txn.guards.end(), extra.guards.begin(), extra.guards.end());
  if (extra.only_if) txn.guards.push_back(*extra.only_if);
  if (extra.part) {
    const StartPart& part = *extra.part;
    txn.guards.push_back(part.row_revision == Revision{}
                             ? Guard::absent(part.row_key)
                             : Guard::unchanged(part.row_key, part.row_revision));
    txn.guards.insert(txn.guards.end(), part.reign->guards.begin(), part.reign->guards.end());
    txn.writes.insert(txn.writes.end(), part.writes.begin(), part.writes.end());
  }
  begin_commit();
  store_->apply_then(std::move(txn), [self = shared_from_this(), call](
                                         const Outcome& outcome, const std::exception_ptr& error) {
    if (error) {
      self->give_back_place(*call);
      call->started(std::nullopt, error);
    } else {
      self->judge_start(call, outcome);
    }
    self->end_commit();
  });
}

bool Core::is_superseded(const StartPart& part, const std::vector<Entry>& row) const {
  return (row.empty() ? Revision{} : row.front().changed) != part.row_revision ||
         !owns(part.partition, part.reign);
}

void Core::judge_start(const std::shared_ptr<StartCall>& call, const Outcome& outcome) {
  const Record& record = call->record;
  if (outcome.committed) {
    if (const auto& part = call->extra.part) part->committed(outcome.revision);
    if (!call->numbered.empty()) admission_.committed(call->numbered, call->number);
    const bool queued = record.state == FlowState::queued;
    if (queued) queues_.saw(call->places, true);
    const auto timer = [&](const OpKey& key, Instant due) {
      add_timer(
          keys::timer({.partition = call->partition, .due = due, .id = call->id, .key = key}));
    };
    const bool later = record.starts > record.created;
    if (call->reign && later) timer(keys::start_timer, record.starts);
    if (call->reign && record.deadline) timer(keys::deadline_timer, *record.deadline);
    if (call->reign && !later && !queued) {
      {
        // Unless a message was quicker, and made it read the record; or the reign is over: then
        // the next owner finds the workflow in the store.
        const base::Mutex::Scoped lock{mutex_};
        if (partitions_->owner(call->partition) == call->reign) {
          instances_.try_emplace(
              call->id, std::make_shared<Instance>(*this, call->id, call->partition, call->reign,
                                                   record, outcome.revision));
        }
      }
      call->started(Run{shared_from_this(), call->id}, nullptr);
      offer(call->id, {Event::Load{}});
    } else {
      call->started(Run{shared_from_this(), call->id}, nullptr);
    }
    return;
  }
  post([this, call] {
    try {
      judge_refusal(call);
    } catch (...) {
      give_back_place(*call);
      call->started(std::nullopt, std::current_exception());
    }
  });
}

// What was in the way is read now and not in the transaction: stores share commits among
// transactions that read nothing, and nearly all are committed.
void Core::judge_refusal(const std::shared_ptr<StartCall>& call) {
  const Record& record = call->record;
  const StartExtra& extra = call->extra;
  Txn txn;
  txn.reads.push_back(Range::key(keys::record(call->partition, call->id)));
  txn.reads.push_back(Range::key(keys::idempotency(record.idempotency_key)));
  if (extra.only_if) txn.reads.push_back(extra.only_if->range);
  if (extra.part) txn.reads.push_back(Range::key(extra.part->row_key));
  if (!call->places.empty()) {  // The last ones: see look_again().
    txn.reads.push_back(Range::key(keys::queue_state(call->places)));
    txn.reads.push_back(Range::key(keys::place(call->numbered, call->number)));
  }
  const Outcome outcome = store_->apply(txn);
  if (extra.only_if) {
    const std::vector<Entry>& parent = outcome.reads[2];
    if (parent.empty() || parent.front().changed != extra.only_if->revision) {
      throw Closed("the parent of workflow '" + call->id + "' has ended");
    }
  }
  if (!record.idempotency_key.empty() && !outcome.reads[1].empty()) {
    give_back_place(*call);
    call->started(Run{shared_from_this(), outcome.reads[1].front().value}, nullptr);
    return;
  }
  if (!outcome.reads[0].empty() && extra.exists) {
    give_back_place(*call);
    extra.exists(outcome.reads[0].front());
    return;
  }
  if (!outcome.reads[0].empty()) {
    throw AlreadyStarted("there is already a workflow '" + call->id + "': use another id");
  }
  if (extra.part && is_superseded(*extra.part, outcome.reads[extra.only_if ? 3 : 2])) {
    throw Superseded("the trigger has changed meanwhile");
  }
  if (++call->tries >= max_tries) {
    throw StoreError("workflow '" + call->id + "' was not started: gave up after " +
                     std::to_string(max_tries) + " conflicting writes; try again later");
  }
  // A place, a seat or the rate was taken meanwhile, or the partition is another engine's by now.
  look_again(*call, outcome);
  if (call->numbered.empty()) find_place(*call);
  find_rate(*call);
  try_start(call);
}

}  // namespace tenure::flow
