#include "flow/triggers.hpp"

#include <exception>
#include <expected>

#include "flow/core.hpp"
#include "flow/schedule_rule.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

struct Triggers::Turn {
  std::string row;
  Partition partition = 0;
  ReignRef reign;
  Revision revision;
  std::vector<std::pair<std::string, std::string>> messages;
  TriggerStep step;
  std::vector<Write> writes;
};

namespace {

constexpr std::chrono::milliseconds trigger_retry_pause{100};

TriggerStep schedule_step(const std::string& value, const std::vector<std::string>& ended,
                          Instant now) {
  std::expected<ScheduleState, std::string> state = decode_schedule(value);
  if (!state) throw Error(state.error());
  TriggerStep out;
  out.old_timer = state->timer;
  ScheduleStep made = step(*std::move(state), ended, now);
  out.timer = made.state.timer;
  out.row = encode(made.state);
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
    out.row_if_refused = encode(refused(std::move(made.state), *made.start));
  }
  return out;
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
    pending_[message.workflow].messages.emplace_back(key, message.name);
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
    turn->messages.swap(pending.messages);
  }
  turn->reign = core_.reign_of(turn->partition);
  if (!turn->reign || core_.stopping()) {  // The store keeps everything for the owner.
    give_up(*turn);
    return;
  }
  try {
    act_on(turn);
  } catch (const StoreError&) {
    repeat(*turn, true);
  } catch (const std::exception& error) {
    core_.report(row.substr(1), "schedule '" + row.substr(1) + "': " + error.what());
    give_up(*turn);
  }
}

void Triggers::act_on(const std::shared_ptr<Turn>& turn) {
  const std::string key = keys::trigger(turn->partition, turn->row);
  Txn read;
  read.reads.push_back(Range::key(key));
  const Outcome seen = core_.store().apply(read);
  if (seen.reads.front().empty()) {
    for (const auto& [message, ended] : turn->messages) {
      turn->writes.push_back(Write::remove(message));
    }
    if (turn->writes.empty()) {
      finish(turn->row, false);
    } else {
      commit(turn);
    }
    return;
  }
  const Entry& entry = seen.reads.front().front();
  turn->revision = entry.changed;
  std::vector<std::string> ended;
  for (const auto& [message, run] : turn->messages) {
    if (!run.empty()) ended.push_back(run);
  }
  turn->step = schedule_step(entry.value, ended, core_.store().now());
  add_writes(*turn, turn->step);
  if (turn->step.start) {
    start(turn);
  } else if (turn->messages.empty() && turn->step.row == entry.value) {
    finish(turn->row, false);  // Nothing has changed: the timer was early.
    if (turn->step.timer) core_.add_timer(turn->writes.back().key);
  } else {
    turn->writes.push_back(Write::put(key, turn->step.row.value_or("")));
    commit(turn);
  }
}

// All but the row itself. The timer is the last one.
void Triggers::add_writes(Turn& turn, const TriggerStep& step) {
  const auto timer = [&turn](Instant due) {
    return keys::timer(
        {.partition = turn.partition, .due = due, .id = turn.row, .key = keys::trigger_timer});
  };
  for (const auto& [message, ended] : turn.messages) {
    turn.writes.push_back(Write::remove(message));
  }
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
                 .trigger = wanted.tell_end ? turn->row : ""};
  part.writes.push_back(Write::put(part.row_key, turn->step.row.value_or("")));
  StartOptions options;
  options.id = wanted.id;
  options.tags = wanted.tags;
  const auto judge = [this, turn](const std::exception_ptr& error) {
    try {
      if (error) std::rethrow_exception(error);
      committed(*turn);
    } catch (const Superseded&) {
      repeat(*turn, false);
    } catch (const StoreError&) {
      repeat(*turn, true);
    } catch (const Error& refusal) {
      // Anything but a limit would be the same next time.
      if (!is_limit(refusal)) {
        if (!core_.stopping())
          core_.report(turn->row.substr(1),
                       "schedule '" + turn->row.substr(1) + "': " + refusal.what());
        give_up(*turn);
        return;
      }
      turn->writes.push_back(Write::put(keys::trigger(turn->partition, turn->row),
                                        turn->step.row_if_refused.value_or("")));
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
                               committed(*turn);
                             }
                             core_.end_commit();
                           });
}

void Triggers::committed(Turn& turn) {
  for (const Write& write : turn.writes) {
    const std::optional<keys::Timer> timer = keys::parse_timer(write.key);
    if (!timer || timer->key != keys::trigger_timer || timer->id != turn.row) continue;
    if (write.kind == Write::Kind::remove) {
      core_.remove_timer(write.key);
    } else if (write.kind == Write::Kind::put) {
      core_.add_timer(write.key);
    }
  }
  for (const auto& [message, ended] : turn.messages) core_.message_done(message);
  finish(turn.row, turn.step.again);
}

void Triggers::finish(const std::string& row, bool again) {
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto at = pending_.find(row);
    if (!again && !at->second.look && at->second.messages.empty()) {
      pending_.erase(at);
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
