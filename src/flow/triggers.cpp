#include "flow/triggers.hpp"

#include <exception>
#include <expected>

#include "flow/collect_rule.hpp"
#include "flow/core.hpp"
#include "flow/schedule_rule.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

struct Triggers::Turn {
  std::string row;
  Partition partition = 0;
  ReignRef reign;
  Revision revision;
  std::vector<Told> messages;
  TriggerStep step;
  std::vector<Write> writes;
  std::size_t at_once = 0;  // How many turns before it followed one another in callbacks.
};

namespace {

constexpr std::chrono::milliseconds trigger_retry_pause{100};
constexpr std::size_t max_turn_messages = 500;
// Of one row, in callbacks of the store: a store may call back inside of the call.
constexpr std::size_t max_at_once = 32;

bool is_schedule(const std::string& row) { return row.starts_with('s'); }

// For messages.
std::string shown_row(const std::string& row) {
  if (is_schedule(row)) return "schedule '" + row.substr(1) + "'";
  const std::size_t space = row.find(' ');
  return (row.starts_with('b') ? "batch '" : "debounce '") + row.substr(space + 1) + "'";
}

TriggerStep schedule_step(const std::string& value, const std::vector<std::string>& ended,
                          Instant now) {
  std::expected<ScheduleState, std::string> state = decode_schedule(value);
  if (!state) throw Error(state.error());
  TriggerStep out;
  out.old_timer = state->timer;
  ScheduleStep made = step(*std::move(state), ended, now);
  out.timer = made.state.timer;
  out.row = encode(made.state);
  out.timer_if_refused = out.timer;
  out.cancels = std::move(made.cancels);
  out.again = made.again;
  if (made.start) {
    const ScheduleOptions& options = made.state.options;
    TriggerStep::Start start{.type = made.state.type,
                             .input = made.state.input,
                             .id = run_id(options.id, *made.start),
                             .tags = options.tags,
                             .tell_end = options.overlap != Overlap::allow_all};
    start.tags.insert_or_assign("schedule", options.id);
    out.start = std::move(start);
    out.row_if_refused = [state = std::move(made.state), time = *made.start] {
      return encode(refused(state, time));
    };
  }
  return out;
}

Write row_write(const std::string& key, const std::optional<std::string>& value) {
  return value ? Write::put(key, *value) : Write::remove(key);
}

// Or there is such a workflow already.
bool is_limit(const Error& refusal) {
  return dynamic_cast<const ConcurrencyLimit*>(&refusal) != nullptr ||
         dynamic_cast<const QueueFull*>(&refusal) != nullptr ||
         dynamic_cast<const RateLimit*>(&refusal) != nullptr ||
         dynamic_cast<const AlreadyStarted*>(&refusal) != nullptr;
}

}  // namespace

Write Core::ended_message(const std::string& trigger, const std::string& id) const {
  return Write::append(
      keys::trigger_inbox(partition_of(trigger), 'e'),
      encode(
          Message{.kind = Message::Kind::run_ended, .workflow = trigger, .name = id, .value = {}}));
}

void Triggers::due(const std::string& row) { wake(row); }

void Triggers::told(const Message& message, const std::string& key) {
  {
    const base::Mutex::Scoped lock{mutex_};
    pending_[message.workflow].messages.push_back({.key = key, .message = message});
  }
  wake(message.workflow);
}

void Triggers::wake(const std::string& row) {
  {
    const base::Mutex::Scoped lock{mutex_};
    Pending& pending = pending_[row];
    pending.look = true;
    if (pending.busy) return;
    pending.busy = true;
  }
  core_.post([this, row] { act(row); });
}

void Triggers::act(const std::string& row) {
  auto turn = std::make_shared<Turn>();
  turn->row = row;
  turn->partition = core_.partition_of(row);
  {
    const base::Mutex::Scoped lock{mutex_};
    Pending& pending = pending_[row];
    pending.look = false;
    while (!pending.messages.empty() && turn->messages.size() < max_turn_messages) {
      turn->messages.push_back(std::move(pending.messages.front()));
      pending.messages.pop_front();
    }
  }
  turn->reign = core_.reign_of(turn->partition);
  if (!turn->reign || core_.stopping()) {  // The store keeps everything for the owner.
    give_up(*turn);
    return;
  }
  act_on(turn, [this, &turn] {
    Txn read;
    read.reads.push_back(Range::key(keys::trigger(turn->partition, turn->row)));
    std::vector<Entry> rows = std::move(core_.store().apply(read).reads.front());
    return rows.empty() ? std::optional<Entry>{} : std::move(rows.front());
  });
}

// A schedule that is behind starts one run after another. The transaction of the next one is
// handed over before the run that was just started takes its first turn: else the end of that run
// would be a commit of its own, and the next start would wait for its sync.
bool Triggers::act_at_once(const Turn& before, Revision revision) {
  const TriggerStep& step = before.step;
  if (!step.again || !step.start || !step.row || before.at_once == max_at_once) return false;
  // Calls that may wait for the store would block its thread.
  const detail::Definition* const type = core_.definition(step.start->type);
  if (core_.store().remote() || type == nullptr || type->max > 0 || type->rate_max > 0) {
    return false;
  }
  {
    const base::Mutex::Scoped lock{mutex_};
    const Pending& pending = pending_[before.row];
    if (pending.look || !pending.messages.empty()) return false;
  }
  auto turn = std::make_shared<Turn>();
  turn->row = before.row;
  turn->partition = before.partition;
  turn->reign = core_.reign_of(turn->partition);
  turn->at_once = before.at_once + 1;
  if (!turn->reign || core_.stopping()) return false;
  act_on(turn,
         [&] { return Entry{.key = {}, .value = *step.row, .created = {}, .changed = revision}; });
  return true;
}

void Triggers::act_on(const std::shared_ptr<Turn>& turn,
                      const std::function<std::optional<Entry>()>& read) {
  try {
    const std::optional<Entry> row = read();
    act_on_row(turn, row ? &*row : nullptr);
  } catch (const StoreError&) {
    repeat(*turn, true);
  } catch (const std::exception& error) {
    core_.report(turn->row.substr(1), shown_row(turn->row) + ": " + error.what());
    give_up(*turn);
  }
}

void Triggers::act_on_row(const std::shared_ptr<Turn>& turn, const Entry* row) {
  const std::string key = keys::trigger(turn->partition, turn->row);
  if (row != nullptr) turn->revision = row->changed;
  turn->step = step_of(*turn, row);
  put_back(*turn);
  add_writes(*turn);
  if (turn->step.start) {
    start(turn);
    return;
  }
  const bool same = row == nullptr ? !turn->step.row : turn->step.row == row->value;
  if (same && turn->messages.empty() && turn->step.removes.empty()) {
    // The timer was early, or the turn before left it to this one.
    if (turn->step.timer) core_.add_timer(turn->writes.back().key);
    finish(turn->row, false);
    return;
  }
  if (!same) turn->writes.push_back(row_write(key, turn->step.row));
  commit(turn);
}

TriggerStep Triggers::step_of(const Turn& turn, const Entry* row) {
  if (!is_schedule(turn.row)) return collect_step(turn, row);
  TriggerStep out;
  if (row != nullptr) {
    std::vector<std::string> ended;
    for (const Told& told : turn.messages) {
      if (!told.message.name.empty()) ended.push_back(told.message.name);
    }
    out = schedule_step(row->value, ended, core_.store().now());
  }
  out.consumed = turn.messages.size();
  return out;
}

TriggerStep Triggers::collect_step(const Turn& turn, const Entry* row) {
  std::optional<CollectState> state;
  if (row != nullptr) {
    std::expected<CollectState, std::string> decoded = decode_collect(row->value);
    if (!decoded) throw Error(decoded.error());
    state = *std::move(decoded);
  }
  std::vector<CollectCall> calls;
  calls.reserve(turn.messages.size());
  for (const Told& told : turn.messages) {
    std::expected<CollectCall, std::string> call = decode_call(told.message.value);
    if (!call) throw Error(call.error());
    calls.push_back(*std::move(call));
  }
  TriggerStep out;
  if (state) out.old_timer = state->timer;
  const Instant now = core_.store().now();
  CollectStep made = step(std::move(state), calls, now);
  if (made.forget) {
    Txn removal;
    if (core_.add_removals({Range::prefix(keys::call_ids(turn.partition, turn.row,
                                                         made.forget->width, made.forget->number))},
                           removal)) {
      made.state = forgot(std::move(made.state), *made.forget);
      made.gone = made.state.calls == 0 && made.state.generations.empty();
    }
    for (Write& write : removal.writes) out.removes.push_back(std::move(write.key));
  }
  out.consumed = made.consumed;
  out.again = made.again;
  out.timer = made.state.timer;
  if (!made.gone) out.row = encode(made.state);
  if (made.start) {
    const CollectOptions& options = made.before.options;
    TriggerStep::Start start{
        .type = made.before.type, .input = *std::move(made.start), .id = {}, .tags = {}};
    start.tags[options.is_batch() ? "batch" : "debounce"] = options.key;
    start.tags[options.is_batch() ? "items" : "calls"] = std::to_string(made.calls);
    out.start = std::move(start);
    const CollectState later = put_off(std::move(made.before), now);
    out.row_if_refused = [row = encode(later)] { return row; };
    out.timer_if_refused = later.timer;
  }
  return out;
}

void Triggers::put_back(Turn& turn) {
  const auto rest = turn.messages.begin() + static_cast<std::ptrdiff_t>(turn.step.consumed);
  const base::Mutex::Scoped lock{mutex_};
  Pending& pending = pending_[turn.row];
  std::deque<Told>& messages = pending.messages;
  if (rest == turn.messages.end() && !messages.empty()) pending.look = true;
  messages.insert(messages.begin(), rest, turn.messages.end());
  turn.messages.erase(rest, turn.messages.end());
}

// All but the row itself. The timer is the last one.
void Triggers::add_writes(Turn& turn) {
  const TriggerStep& step = turn.step;
  const auto timer = [&turn](Instant due) {
    return keys::timer(
        {.partition = turn.partition, .due = due, .id = turn.row, .key = keys::trigger_timer});
  };
  for (const Told& told : turn.messages) turn.writes.push_back(Write::remove(told.key));
  for (const std::string& key : step.removes) turn.writes.push_back(Write::remove(key));
  char tag = 'A';
  for (const std::string& id : step.cancels) {
    turn.writes.push_back(Write::append(
        keys::trigger_inbox(core_.partition_of(id), tag++),
        encode(Message{.kind = Message::Kind::cancel, .workflow = id, .name = {}, .value = {}})));
  }
  if (step.old_timer && step.old_timer != step.timer) {
    turn.writes.push_back(Write::remove(timer(*step.old_timer)));
  }
  if (step.timer) turn.writes.push_back(Write::put(timer(*step.timer), ""));
}

void Triggers::start(const std::shared_ptr<Turn>& turn) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a step that starts something.
  const TriggerStep::Start& wanted = *turn->step.start;
  StartPart part{.row_key = keys::trigger(turn->partition, turn->row),
                 .row_revision = turn->revision,
                 .partition = turn->partition,
                 .reign = turn->reign,
                 .writes = turn->writes,
                 .trigger = wanted.tell_end ? turn->row : "",
                 .committed = [this, turn](Revision revision) { committed(*turn, revision); }};
  part.writes.push_back(row_write(part.row_key, turn->step.row));
  StartOptions options;
  options.id = wanted.id;
  options.tags = wanted.tags;
  const auto judge = [this, turn](const std::exception_ptr& error) {
    if (!error) return;  // See StartPart::committed.
    try {
      std::rethrow_exception(error);
    } catch (const Superseded&) {
      repeat(*turn, false);
    } catch (const StoreError&) {
      repeat(*turn, true);
    } catch (const Error& refusal) {
      // Anything but a limit would be the same next time.
      if (!is_limit(refusal)) {
        if (!core_.stopping())
          core_.report(turn->row.substr(1), shown_row(turn->row) + ": " + refusal.what());
        give_up(*turn);
        return;
      }
      turn->step.timer = turn->step.timer_if_refused;
      turn->step.start.reset();
      turn->step.again = turn->step.again && is_schedule(turn->row);
      turn->writes.clear();
      add_writes(*turn);
      turn->writes.push_back(
          row_write(keys::trigger(turn->partition, turn->row), turn->step.row_if_refused()));
      commit(turn);
    }
  };
  try {
    StartExtra extra;
    extra.part = std::move(part);
    core_.start(
        wanted.type, wanted.input, std::move(options),
        [judge](const std::optional<Run>& /*run*/, const std::exception_ptr& error) {
          judge(error);
        },
        std::move(extra));
  } catch (...) {
    judge(std::current_exception());
  }
}

void Triggers::commit(const std::shared_ptr<Turn>& turn) {
  Txn txn;
  txn.durability = core_.options().durability;
  txn.guards = turn->reign->guards;
  const std::string key = keys::trigger(turn->partition, turn->row);
  txn.guards.push_back(turn->revision == Revision{} ? Guard::absent(key)
                                                    : Guard::unchanged(key, turn->revision));
  txn.writes = turn->writes;
  core_.begin_commit();
  core_.store().apply_then(std::move(txn),
                           [this, turn, core = core_.shared_from_this()](
                               const Outcome& outcome, const std::exception_ptr& error) {
                             if (error) {
                               repeat(*turn, true);
                             } else if (!outcome.committed) {
                               repeat(*turn, false);
                             } else {
                               committed(*turn, outcome.revision);
                             }
                             core_.end_commit();
                           });
}

void Triggers::committed(const Turn& turn, Revision revision) {
  for (const Write& write : turn.writes) {
    const std::optional<keys::Timer> timer = keys::parse_timer(write.key);
    if (!timer || timer->key != keys::trigger_timer || timer->id != turn.row) continue;
    if (write.kind == Write::Kind::remove) {
      core_.remove_timer(write.key);
    } else if (write.kind == Write::Kind::put && !turn.step.again) {
      core_.add_timer(write.key);  // Else the turn that follows at once would only move it.
    }
  }
  for (const Told& told : turn.messages) core_.message_done(told.key);
  if (!act_at_once(turn, revision)) finish(turn.row, turn.step.again);
}

void Triggers::finish(const std::string& row, bool again) {
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = pending_.find(row);
    if (!again && !at->second.look) {
      at->second.busy = false;
      if (at->second.messages.empty()) pending_.erase(at);  // Else they wait for the timer.
      return;
    }
  }
  core_.post([this, row] { act(row); });
}

void Triggers::repeat(Turn& turn, bool later) {
  {
    const base::Mutex::Scoped lock{mutex_};
    Pending& pending = pending_[turn.row];
    pending.messages.insert(pending.messages.begin(), turn.messages.begin(), turn.messages.end());
  }
  if (later) {
    core_.post_at(detail::saturating_add(core_.store().latest_now(), trigger_retry_pause),
                  [this, row = turn.row] { act(row); });
  } else {
    core_.post([this, row = turn.row] { act(row); });
  }
}

// Its messages stay in the store, for the next reign.
void Triggers::give_up(const Turn& turn) {
  const base::Mutex::Scoped lock{mutex_};
  pending_.erase(turn.row);
}

}  // namespace tenure::flow
