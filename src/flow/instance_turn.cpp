// What a turn makes of what happened: entries, and what the code wants next.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>

#include "base/duration.hpp"
#include "flow/core.hpp"
#include "flow/instance.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/codec.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

using detail::Machine;
using detail::Operation;
using detail::OpKind;
using detail::StepBase;

namespace {

std::pair<std::uint32_t, std::uint32_t> pair_of(const OpKey& key) {
  return {key.scope, key.sequence};
}

// Branches are owners of their own: one may wait for another.
// NOLINTNEXTLINE(misc-no-recursion): as deep as the scopes are nested.
Owner owner_of(const std::string& id, const detail::Scope& scope) {
  if (scope.parent() == nullptr) return Owner{id};
  return owner_of(id, *scope.parent()).child(std::to_string(scope.number()));
}

// Some stores limit the writes of one apply. Rows of tickets are removed in transactions of at most
// so many; others are left to whoever meets them.
constexpr std::size_t most_writes = 64;
// Code between two awaits that takes longer blocks others.
constexpr std::chrono::seconds slow_resume{1};

std::string describe(const LogEntry& entry) {
  std::string text{text_of(entry.kind)};
  if (!entry.name.empty()) text += " '" + entry.name + "'";
  return text;
}

ErrorInfo error(std::string type, std::string message) {
  return {.type = std::move(type), .code = {}, .message = std::move(message)};
}

}  // namespace

// --- what happened

void Instance::handle(Event& event, Turn& turn) {
  if (const auto* told = std::get_if<Event::Told>(&event.what)) {
    handle_told(*told, turn);
  } else if (const auto* timer = std::get_if<Event::Timer>(&event.what)) {
    handle_timer(*timer, turn);
  } else if (const auto* ended = std::get_if<Event::Ended>(&event.what)) {
    handle_ended(*ended, turn);
  } else if (const auto* lock = std::get_if<Event::Lock>(&event.what)) {
    handle_lock(*lock, turn);
  } else if (const auto* child = std::get_if<Event::Child>(&event.what)) {
    handle_child(*child, turn);
  } else if (auto* recorded = std::get_if<Event::Recorded>(&event.what)) {
    note(recorded->entry);
    deliver(recorded->entry);
    append_patches(turn);
  }
}

void Instance::handle_told(const Event::Told& told, Turn& turn) {
  const Message& message = told.message;
  using enum Message::Kind;
  if (message.kind == start || message.kind == start_with_signal) add_timers(turn);
  if (!begun_ && (message.kind == signal || message.kind == start_with_signal ||
                  message.kind == Message::Kind::update)) {
    core_.message_done(told.key);  // Stays in the inbox until the workflow starts.
    return;
  }
  turn.txn.writes.push_back(Write::remove(told.key));
  turn.told.push_back(told.key);
  switch (message.kind) {
    case start: return;
    case signal:
    case start_with_signal:
      append_note(EntryKind::signal, message.name, message.value, turn);
      return;
    case cancel:
      if (begun_) {
        if (!machine_->cancelled()) append_note(EntryKind::cancel, "cancel", {}, turn);
      } else {
        end(FlowState::cancelled, error("cancelled", "it was cancelled before its start").text(),
            turn);
      }
      return;
    case child_ended: handle_child_ended(message, turn); return;
    case Message::Kind::update: handle_update(message, turn); return;
    case terminate:
      end(FlowState::cancelled, error("terminated", message.value).text(), turn);
      return;
    case Message::Kind::retry:
    case trigger_changed:
    case run_ended:
    case collect: return;  // The engine does not give these to a workflow.
  }
}

void Instance::handle_lock(const Event::Lock& event, Turn& turn) {
  const Operation* const operation = machine_->find(event.key);
  if (operation == nullptr || operation->kind() != OpKind::lock) return;  // Cancelled.
  const auto& lock = static_cast<const detail::LockBase&>(*operation);    // NOLINT: of that kind.
  if (event.granted) {
    stored::Row row;
    row.anchor = keys::anchor(partition_, id_, event.key);
    row.id = lock_request;
    row.claims = lock.claims();
    row.owner = owner_of(id_, lock.scope());
    Txn removal;
    stored::Tickets::add_removal(row, Codec<Token>::decode(event.value), removal);
    tickets_[pair_of(event.key)] = std::move(removal.writes);
  }
  append_for(lock, event.granted ? EntryKind::lock_granted : EntryKind::lock_failed, 0, event.value,
             turn);
}

// Another process started the workflow: the timers that its transaction put count from now on.
// NOLINTBEGIN(bugprone-unchecked-optional-access): a turn has its record.
void Instance::add_timers(Turn& turn) {
  if (!begun_) turn.new_timers.push_back(timer_key(keys::start_timer, record_->starts));
  if (record_->deadline) {
    turn.new_timers.push_back(timer_key(keys::deadline_timer, *record_->deadline));
  }
}
// NOLINTEND(bugprone-unchecked-optional-access)

void Instance::handle_timer(const Event::Timer& event, Turn& turn) {
  const keys::Timer& timer = event.timer;
  if (Operation* const operation = machine_->find(timer.key);
      operation != nullptr && operation->due() == timer.due) {
    if (operation->kind() == OpKind::step) {
      auto& step = static_cast<StepBase&>(*operation);  // NOLINT: of that kind.
      start_attempt(step, turn);
      return;  // The key stays until the step has ended: after a crash it starts the attempt again.
    }
    remove_timer(timer.key, timer.due, turn);
    append_for(*operation, EntryKind::timer, 0, {}, turn);
    return;
  }
  remove_timer(timer.key, timer.due, turn);
  if (timer.key == keys::start_timer) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a turn has its record.
    if (!begun_ && record_->state != FlowState::queued) {
      machine_->set_live(true);
      begin_code();
    }
    core_.post([&core = core_] { core.read_inbox(); });  // Signals that waited for the start.
  } else if (timer.key == keys::deadline_timer) {
    if (begun_) {
      deadline_passed_ = true;
      append_note(EntryKind::cancel, "deadline", {}, turn);
    } else {
      end(FlowState::timed_out, error("timeout", "its deadline passed before its start").text(),
          turn);
    }
  }
}

void Instance::handle_ended(const Event::Ended& ended, Turn& turn) {
  const auto running = running_.find(pair_of(ended.key));
  if (running != running_.end() && running->second->number == ended.attempt) {
    running_.erase(running);
  }
  Operation* const operation = machine_->find(ended.key);
  if (operation == nullptr || operation->kind() != OpKind::step) return;
  auto& step = static_cast<StepBase&>(*operation);  // NOLINT: of that kind.
  if (step.attempt() != ended.attempt) return;
  if (step.cancel_requested()) {
    append_for(step, EntryKind::step_cancelled, ended.attempt, {}, turn);
  } else if (ended.ok) {
    append_for(step, EntryKind::step_done, ended.attempt, ended.value, turn);
  } else {
    const ErrorInfo info = ErrorInfo::parse(ended.value);
    const Step& options = step.options();
    const auto is_final = [&](const std::string& name) {
      return name == info.type || (!info.code.empty() && name == info.code);
    };
    const bool again = ended.attempt < options.retry.max_attempts &&
                       std::ranges::none_of(options.retry.never_for, is_final) &&
                       (options.timeout.count() == 0 ||
                        turn.now < detail::saturating_add(step.first(), options.timeout));
    append_for(step, again ? EntryKind::step_retry : EntryKind::step_failed, ended.attempt,
               ended.value, turn);
  }
}

// False: the log has no room. The workflow ends in this turn, without the entry.
bool Instance::has_room(Turn& turn) {
  const std::uint32_t limit = core_.options().history_limit;
  if (next_order_ >= limit) turn.full = true;
  if (next_order_ == limit - (limit / 5)) {
    core_.report(id_, "workflow '" + id_ + "' has " + std::to_string(next_order_) + " of at most " +
                          std::to_string(limit) +
                          " entries in its log: let it continue as new before it fails, or raise "
                          "EngineOptions::history_limit");
  }
  return !turn.full;
}

// NOLINTBEGIN(misc-no-recursion): a patch is appended after another entry, and nothing after it.
void Instance::append(LogEntry entry, Turn& turn) {
  if (!has_room(turn)) return;
  entry.stamp = turn.now;
  if (!turn.first_order) turn.first_order = next_order_;
  turn.txn.writes.push_back(Write::put(keys::log(log_prefix_, next_order_), encode(entry)));
  ++next_order_;
  if (entry.kind != EntryKind::signal && entry.kind != EntryKind::patch) turn.result = true;
  if (entry.kind == EntryKind::patch) return;
  deliver(entry);
  append_patches(turn);
}

// Marks of the code that has just run.
void Instance::append_patches(Turn& turn) {
  for (std::string& name : machine_->take_marks()) {
    append_note(EntryKind::patch, std::move(name), {}, turn);
  }
}

void Instance::deliver(const LogEntry& entry) {
  const Instant before = core_.store().latest_now();
  machine_->deliver(entry);
  const auto took = detail::saturating_sub(core_.store().latest_now(), before);
  if (took <= slow_resume) return;
  core_.report(id_,
               "workflow '" + id_ + "': its code ran for " + base::precise_text(took) + " after " +
                   describe(entry) +
                   " without an await, and kept a thread of the engine: do such work in a step");
}

void Instance::append_note(EntryKind kind, std::string name, std::string value, Turn& turn) {
  LogEntry entry;
  entry.kind = kind;
  entry.name = std::move(name);
  entry.value = std::move(value);
  append(std::move(entry), turn);
}
// NOLINTEND(misc-no-recursion)

void Instance::append_for(const Operation& operation, EntryKind kind, std::uint32_t attempt,
                          std::string value, Turn& turn) {
  append({.kind = kind,
          .key = operation.key(),
          .stamp = {},
          .name = operation.name(),
          .hash = operation.hash(),
          .attempt = attempt,
          .value = std::move(value)},
         turn);
}

// --- what follows from it

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one list of consequences.
void Instance::collect(Turn& turn) {
  if (turn.ended) return;
  append_patches(turn);  // Of the code before the first entry.
  while (!turn.full) {
    const std::vector<OpKey> cancelled = machine_->take_cancelled();
    const std::vector<OpKey> fresh = machine_->take_fresh();
    if (cancelled.empty() && fresh.empty()) break;
    for (const OpKey& key : cancelled) cancel_step(key, turn);
    // An entry may end others: look each one up again.
    for (const OpKey& key : fresh) {
      if (Operation* const operation = machine_->find(key)) dispatch(*operation, turn);
    }
  }
  for (const Machine::Dropped& dropped : machine_->take_dropped()) {
    if (dropped.due) remove_timer(dropped.key, *dropped.due, turn);
    if (dropped.kind == OpKind::lock) {
      drop_lock(dropped.key, turn);
      std::erase_if(turn.locks, [&](const auto& asked) { return asked.key == dropped.key; });
    }
  }
  if (turn.full) {
    end(FlowState::failed,
        error("history-limit",
              "its log has " + std::to_string(next_order_) +
                  " entries, the limit of EngineOptions::history_limit: let it continue as new")
            .text(),
        turn);
    return;
  }
  if (const auto& finish = machine_->finish()) {
    using Kind = detail::Finish::Kind;
    if (finish->kind == Kind::returned) {
      end(FlowState::completed, finish->value, turn);
    } else if (finish->kind == Kind::continued) {
      continue_as_new(finish->value, turn);
    } else if (finish->kind == Kind::threw) {
      end(FlowState::failed, finish->value, turn);
    } else if (deadline_passed_) {
      end(FlowState::timed_out, error("timeout", "its deadline passed").text(), turn);
    } else {
      end(FlowState::cancelled, error("cancelled", "it was cancelled").text(), turn);
    }
    return;
  }
  const bool active = machine_->active() > 0;
  if (begun_ && active != runnable_row_) {
    const std::string key = keys::runnable(partition_, id_);
    turn.txn.writes.push_back(active ? Write::put(key, "") : Write::remove(key));
    turn.runnable_row = active;
  } else if (fresh_row_ && !turn.result && !turn.txn.writes.empty()) {
    turn.txn.writes.push_back(Write::put(keys::runnable(partition_, id_), ""));
    turn.runnable_row = true;
  }
}

void Instance::cancel_step(const OpKey& key, Turn& turn) {
  const Operation* const operation = machine_->find(key);
  if (operation != nullptr && operation->kind() == OpKind::child) {
    cancel_child(static_cast<const detail::ChildBase&>(*operation), turn);  // NOLINT: of that kind.
  }
  if (operation == nullptr || operation->kind() != OpKind::step) return;
  if (const auto at = running_.find(pair_of(key)); at != running_.end()) {
    at->second->stop.request_stop();  // Ends the step when its function returns.
  } else {
    append_for(*operation, EntryKind::step_cancelled, 0, {}, turn);
  }
}

void Instance::dispatch(Operation& operation, Turn& turn) {
  switch (operation.kind()) {
    case OpKind::step: dispatch_step(static_cast<StepBase&>(operation), turn); break;  // NOLINT
    case OpKind::slot: turn.slots.push_back(operation.key()); break;
    case OpKind::child: turn.children.push_back(operation.key()); break;
    case OpKind::child_result: break;
    case OpKind::lock: {
      const auto& lock = static_cast<detail::LockBase&>(operation);  // NOLINT: of that kind.
      turn.txn.writes.push_back(Write::put(keys::anchor(partition_, id_, lock.key()), ""));
      turn.locks.push_back(
          {.key = lock.key(), .owner = owner_of(id_, lock.scope()), .claims = lock.claims()});
      break;
    }
    case OpKind::timer:
    case OpKind::signal:
    case OpKind::condition:
      // NOLINTBEGIN(bugprone-unchecked-optional-access): fresh ones of these kinds have a time.
      if (*operation.due() <= turn.now) {
        append_for(operation, EntryKind::timer, 0, {}, turn);
      } else {
        add_timer(operation.key(), *operation.due(), turn);
      }
      // NOLINTEND(bugprone-unchecked-optional-access)
      break;
  }
}

void Instance::dispatch_step(StepBase& step, Turn& turn) {
  if (running_.contains(pair_of(step.key()))) return;  // It runs since before the reload.
  if (step.cancel_requested()) {
    append_for(step, EntryKind::step_cancelled, 0, {}, turn);
    return;
  }
  if (step.begun()) {
    append_for(
        step, EntryKind::step_failed, step.attempt(),
        error("interrupted", "its process ended while it ran, and it runs at most once").text(),
        turn);
    return;
  }
  // NOLINTBEGIN(bugprone-unchecked-optional-access): checked in the same line.
  if (step.due()) add_timer(step.key(), *step.due(), turn);
  if (!step.due() || *step.due() <= turn.now) start_attempt(step, turn);
  // NOLINTEND(bugprone-unchecked-optional-access)
}

void Instance::start_attempt(StepBase& step, Turn& turn) {
  if (running_.contains(pair_of(step.key()))) return;
  if (step.options().at_most_once) {
    append_for(step, EntryKind::step_begun, step.attempt(), {}, turn);
  }
  auto attempt = std::make_shared<Attempt>();
  attempt->key = step.key();
  attempt->number = step.attempt();
  attempt->step = step.name();
  attempt->call = step.make_call();
  if (attempt->call->wants_context() || core_.options().instead) {
    attempt->stop = std::stop_source{};
  }
  attempt->heartbeat = step.options().heartbeat;
  attempt->last_beat = turn.now.time_since_epoch().count();
  const Step& options = step.options();
  if (options.attempt_timeout.count() > 0) {
    attempt->ends = detail::saturating_add(turn.now, options.attempt_timeout);
  }
  if (options.timeout.count() > 0) {
    const Instant last = detail::saturating_add(step.first(), options.timeout);
    attempt->ends = std::min(attempt->ends.value_or(last), last);
  }
  running_[pair_of(step.key())] = attempt;
  turn.starts.push_back(std::move(attempt));
}

std::string Instance::timer_key(const OpKey& key, Instant due) const {
  return keys::timer({.partition = partition_, .due = due, .id = id_, .key = key});
}

void Instance::add_timer(const OpKey& key, Instant due, Turn& turn) {
  std::string name = timer_key(key, due);
  turn.txn.writes.push_back(Write::put(name, ""));
  turn.new_timers.push_back(std::move(name));
}

void Instance::remove_timer(const OpKey& key, Instant due, Turn& turn) {
  std::string name = timer_key(key, due);
  // It may be new in this very turn.
  if (std::erase(turn.new_timers, name) > 0) {
    std::erase_if(turn.txn.writes, [&](const Write& write) { return write.key == name; });
  }
  turn.txn.writes.push_back(Write::remove(name));
  turn.old_timers.push_back(std::move(name));
}

void Instance::end(FlowState state, std::string result, Turn& turn) {
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a turn has its record.
  Record record = *record_;
  if (record.state == FlowState::queued) turn.left_seat = record.seat;
  record.state = state;
  record.ended = turn.now;
  record.result = std::move(result);
  drop_work(turn);
  if (stuck_) drop_stuck_work(turn);
  tell_family(record, turn);
  if (const auto keep = core_.options().retention; keep.count() > 0) {
    add_timer(keys::retention_timer, detail::saturating_add(turn.now, keep), turn);
  }
  if (record.deadline) remove_timer(keys::deadline_timer, *record.deadline, turn);
  if (!begun_) remove_timer(keys::start_timer, record.starts, turn);
  if (runnable_row_) turn.txn.writes.push_back(Write::remove(keys::runnable(partition_, id_)));
  // What happens to its place is decided when the transaction is made: see apply().
  if (!record.seat.empty()) {
    turn.txn.writes.push_back(Write::remove(queue_key(record, record_revision_)));
    turn.txn.writes.push_back(Write::remove(std::exchange(record.seat, {})));
  }
  if (!record.trigger.empty()) turn.txn.writes.push_back(core_.ended_message(record.trigger, id_));
  const std::string key = keys::record(partition_, id_);
  turn.txn.guards.push_back(Guard::unchanged(key, record_revision_));
  turn.txn.writes.push_back(Write::put(key, encode(record)));
  turn.ended = std::make_unique<Record>(std::move(record));
}

// Without its anchor a ticket is gone, whether it was granted or waits. Where its rows go in the
// same transaction, the next one in line is granted without having to remove them.
void Instance::drop_lock(const OpKey& key, Turn& turn) {
  std::vector<Write>& writes = turn.txn.writes;
  writes.push_back(Write::remove(keys::anchor(partition_, id_, key)));
  const auto ticket = tickets_.extract(pair_of(key));
  if (ticket.empty() || writes.size() + ticket.mapped().size() > most_writes) return;
  std::ranges::move(ticket.mapped(), std::back_inserter(writes));
}

// The run ends: what it waits for, holds and has asked for.
void Instance::drop_work(Turn& turn) {
  machine_->each([&](const Operation& operation) {
    if (operation.due()) remove_timer(operation.key(), *operation.due(), turn);
    if (operation.kind() == OpKind::lock) drop_lock(operation.key(), turn);
  });
  for (const OpKey& lock : machine_->held()) drop_lock(lock, turn);
  turn.locks.clear();
  turn.children.clear();
  turn.starts.clear();
  turn.slots.clear();
  for (const auto& [key_of, attempt] : running_) attempt->stop.request_stop();
}

// --- slots

void Instance::run_slot(const Event::Slot& slot, Turn& turn) {
  using Kind = detail::StateSlot::Step::Kind;
  Operation* const operation = machine_->find(slot.key);
  if (operation == nullptr || operation->kind() != OpKind::slot) return;
  auto& call = static_cast<detail::SlotBase&>(*operation);  // NOLINT: of that kind.
  if (!has_room(turn)) return;
  if (slot.tries >= max_slot_tries) {
    append_for(call, EntryKind::slot_failed, 0,
               error("conflict", "slot '" + call.address().text() + "': gave up after " +
                                     std::to_string(max_slot_tries) +
                                     " conflicting writes; try again later")
                   .text(),
               turn);
    return;
  }
  Txn read;
  read.reads.push_back(Range::key(call.address().key()));
  const Outcome seen = core_.store().apply(read);
  std::optional<std::string> bytes;
  Guard guard = Guard::absent(call.address().key());
  if (!seen.reads.front().empty()) {
    bytes = seen.reads.front().front().value;
    guard = Guard::unchanged(call.address().key(), seen.reads.front().front().changed);
  }
  detail::SlotStep made;
  try {
    made = call.transact(bytes);
  } catch (const LimitMismatch& mismatch) {
    append_for(call, EntryKind::slot_failed, 0, error("limit-mismatch", mismatch.what()).text(),
               turn);
    return;
  } catch (const BadRequest& bad) {
    append_for(call, EntryKind::slot_failed, 0, error("bad-request", bad.what()).text(), turn);
    return;
  } catch (const std::exception& other) {
    append_for(call, EntryKind::slot_failed, 0,
               error("format", "slot '" + call.address().text() + "': " + other.what()).text(),
               turn);
    return;
  }
  LogEntry entry{.kind = EntryKind::slot_done,
                 .key = call.key(),
                 .stamp = turn.now,
                 .name = call.name(),
                 .hash = call.hash(),
                 .attempt = 0,
                 .value = std::move(made.result)};
  if (made.step.kind == Kind::keep) {
    append(std::move(entry), turn);
    return;
  }
  // In a transaction of its own, and delivered when that is committed: the guard may refuse it.
  turn.txn.guards.push_back(std::move(guard));
  turn.txn.writes.push_back(made.step.kind == Kind::put
                                ? Write::put(call.address().key(), std::move(made.step.value))
                                : Write::remove(call.address().key()));
  turn.first_order = next_order_;
  turn.txn.writes.push_back(Write::put(keys::log(log_prefix_, next_order_), encode(entry)));
  turn.txn.writes.push_back(
      Write::put(keys::runnable(partition_, id_), std::string{keys::after_last}));
  turn.recorded = std::move(entry);
  turn.slot = slot;
}

}  // namespace tenure::flow
