#include "flow/instance.hpp"

#include <algorithm>
#include <iterator>

#include "flow/core.hpp"
#include "flow/feeder.hpp"
#include "store/common/told_together.hpp"
#include "tenure/detail/saturating.hpp"

namespace tenure::flow {

using detail::Machine;
using detail::Operation;
using detail::OpKind;
using detail::StepBase;

namespace {

constexpr std::uint32_t log_page = 1000;  // Entries of a log that are read at once.
constexpr std::size_t turn_events = 64;

// Whether the workflow has not begun before this event.
bool is_start(const Event& event) {
  if (const auto* told = std::get_if<Event::Told>(&event.what)) {
    return told->message.kind == Message::Kind::start ||
           told->message.kind == Message::Kind::start_with_signal;
  }
  const auto* const timer = std::get_if<Event::Timer>(&event.what);
  return timer != nullptr && timer->timer.key == keys::start_timer;
}

}  // namespace

Instance::Instance(Core& core, std::string id, Partition partition, ReignRef reign)
    : core_(core),
      id_(std::move(id)),
      partition_(partition),
      reign_(std::move(reign)),
      log_prefix_(keys::log_prefix(partition, id_)) {}

Instance::Instance(Core& core, std::string id, Partition partition, ReignRef reign, Record record,
                   Revision revision)
    : Instance(core, std::move(id), partition, std::move(reign)) {
  record_ = std::move(record);
  record_revision_ = revision;
  runnable_row_ = true;
  fresh_row_ = true;
}

Instance::~Instance() = default;

std::string Instance::problem() const {
  const base::Mutex::Scoped lock{mutex_};
  return problem_;
}

// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
bool Instance::offer(Event event, bool here) {
  std::vector<Event> events;  // To deliver here.
  {
    const base::Mutex::Scoped lock{mutex_};
    if (gone_) return false;
    if (!problem_.empty()) return true;  // The store keeps what it was.
    const bool pumps = !pumping_ && !committing_;
    (here && pumps && mailbox_.empty() ? events : mailbox_).push_back(std::move(event));
    if (!pumps) return true;
    pumping_ = true;
  }
  if (here) {
    pump(std::move(events));
  } else {
    core_.post_along([self = shared_from_this()] { self->pump(); });
  }
  return true;
}

bool Instance::try_evict() {
  {
    const base::Mutex::Scoped lock{mutex_};
    if (gone_) return true;
    if (pumping_ || committing_ || !mailbox_.empty() || !running_.empty()) return false;
    gone_ = true;
  }
  machine_.reset();
  return true;
}

void Instance::abandon() {
  const base::Mutex::Scoped lock{mutex_};
  gone_ = true;
  mailbox_.clear();
  // The frames go with the last reference: a pump or a commit may be under way.
}

// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
void Instance::go() {
  std::vector<Event> left;
  {
    const base::Mutex::Scoped lock{mutex_};
    gone_ = true;
    left.swap(mailbox_);
  }
  core_.forget(*this);
  // Messages and timers that came too late: whoever reads the record next removes them.
  for (Event& event : left) {
    if (std::holds_alternative<Event::Told>(event.what) ||
        std::holds_alternative<Event::Timer>(event.what)) {
      core_.offer(id_, std::move(event));
    }
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): a copy where a workflow stops is cheap.
void Instance::set_problem(std::string text) {
  {
    const base::Mutex::Scoped lock{mutex_};
    problem_ = text;
    mailbox_.clear();
  }
  machine_.reset();
  core_.report(id_, text);
}

// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
void Instance::pump(std::vector<Event> events) {
  bool waits = false;
  while (true) {
    bool reload = false;
    {
      const base::Mutex::Scoped lock{mutex_};
      if (gone_ || (events.empty() && mailbox_.empty()) || !problem_.empty()) {
        // Before another thread may pump.
        waits = machine_ && machine_->active() == 0 && running_.empty();
        pumping_ = false;
        if (gone_ || !problem_.empty()) return;
        break;
      }
      if (events.empty()) {
        const auto count = static_cast<std::ptrdiff_t>(std::min(mailbox_.size(), turn_events));
        std::move(mailbox_.begin(), mailbox_.begin() + count, std::back_inserter(events));
        mailbox_.erase(mailbox_.begin(), mailbox_.begin() + count);
      }
      reload = std::exchange(reload_, false);
    }
    if (reload) {
      machine_.reset();
      record_.reset();
    }
    try {
      if (!turn(events)) return;
    } catch (const ReplayMismatch& mismatch) {
      set_problem(mismatch.what());
    } catch (const StoreError&) {
      retry(std::move(events));
      return;
    } catch (const std::exception& error) {
      set_problem("workflow '" + id_ + "' cannot go on: " + error.what());
    }
    events.clear();
  }
  if (waits) core_.waits(shared_from_this());
}

// The store cannot be read or written: look again later.
void Instance::retry(std::vector<Event> events) {
  const auto pause = std::chrono::milliseconds{10} * (1U << std::min(failures_++, 9U));
  {
    const base::Mutex::Scoped lock{mutex_};
    reload_ = true;
    for (const Event& event : events) {
      // Read again: they may have been stored.
      if (const auto* told = std::get_if<Event::Told>(&event.what)) core_.message_done(told->key);
    }
    std::erase_if(events, [](const Event& event) {
      return !std::holds_alternative<Event::Ended>(event.what) &&
             !std::holds_alternative<Event::Timer>(event.what) &&
             !std::holds_alternative<Event::Lock>(event.what) &&
             !std::holds_alternative<Event::Child>(event.what) &&
             !std::holds_alternative<Event::Load>(event.what);
    });
    if (events.empty()) events.push_back({Event::Load{}});
    mailbox_.insert(mailbox_.begin(), std::make_move_iterator(events.begin()),
                    std::make_move_iterator(events.end()));
    pumping_ = true;
    committing_ = false;
  }
  core_.post_at(detail::saturating_add(core_.store().latest_now(), pause),
                [self = shared_from_this()] {
                  self->core_.read_inbox();
                  self->pump();
                });
}

// --- one turn

// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
bool Instance::turn(std::vector<Event>& events) {
  const bool was_queued = record_ && record_->state == FlowState::queued;
  if (was_queued && std::ranges::any_of(events, is_start)) {  // It may have its place.
    record_.reset();
    machine_.reset();
    // Signals stay in the inbox until it runs.
    core_.post([&core = core_] { core.read_inbox(); });
  }
  if (!record_ || !machine_) {
    if (!load(events)) return false;
  }
  auto own = std::make_shared<Turn>();
  Turn& turn = *own;
  turn.now = std::max(core_.store().now(), machine_ ? machine_->now() : Instant::min());
  std::size_t handled = 0;
  if (const auto* slot = std::get_if<Event::Slot>(&events.front().what)) {
    run_slot(*slot, turn);
    handled = 1;
  } else {
    while (handled < events.size() && !turn.ended && !machine_->finish() &&
           !std::holds_alternative<Event::Slot>(events[handled].what)) {
      handle(events[handled++], turn);
    }
  }
  if (handled < events.size()) {
    const base::Mutex::Scoped lock{mutex_};
    mailbox_.insert(mailbox_.begin(),
                    std::make_move_iterator(events.begin() + static_cast<std::ptrdiff_t>(handled)),
                    std::make_move_iterator(events.end()));
    events.resize(handled);
  }
  turn.events = std::move(events);
  if (!turn.slot) {
    collect(turn);
    store_updates(turn);
  }
  if (!turn.txn.writes.empty()) {
    commit(std::move(own));
    return false;
  }
  after(own);
  return true;
}

// The record is there: load() read it, or the start gave it.
// NOLINTBEGIN(bugprone-unchecked-optional-access)
void Instance::begin_machine(std::span<const LogEntry> first, bool live) {
  const detail::Definition* const definition = core_.definition(record_->type);
  if (definition == nullptr) {
    throw Error("its type '" + record_->type + "' is not defined in this engine");
  }
  machine_ = std::make_unique<Machine>(
      detail::Identity{.id = id_,
                       .type = record_->type,
                       .seed = record_->seed,
                       .started = std::max(record_->created, record_->starts),
                       .last = record_->last,
                       .root = record_->root},
      core_.errors());
  deadline_passed_ = false;
  begun_ = false;
  Feeder{*machine_}.begin(first, record_->carried);
  machine_->set_live(live);
  if (core_.store().now() < record_->starts || record_->state == FlowState::queued) return;
  begin_code();
}

void Instance::begin_code() {
  begun_ = true;
  machine_->begin(core_.definition(record_->type)->make(*machine_, record_->input));
}
// NOLINTEND(bugprone-unchecked-optional-access)

// False: there is nothing to run, or not now.
// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
bool Instance::load(std::vector<Event>& events) {
  if (record_) {  // Just started.
    begin_machine({}, true);
    return true;
  }
  Txn txn;
  txn.reads.push_back(Range::key(keys::record(partition_, id_)));
  txn.reads.push_back(Range::key(keys::runnable(partition_, id_)));
  txn.reads.push_back(keys::log_from(log_prefix_, 0).first(log_page));
  Outcome outcome = core_.store().apply(txn);
  failures_ = 0;
  if (outcome.reads[0].empty()) {
    clear_away(events);
    return false;
  }
  std::expected<Record, std::string> record = decode_record(outcome.reads[0].front().value);
  if (!record) throw Error(record.error());
  if (is_terminal(record->state)) {
    core_.ended(id_, *record);  // Those who saw this instance wait for that.
    clear_away(events);
    return false;
  }
  record_ = *std::move(record);
  record_revision_ = outcome.reads[0].front().changed;
  if (std::string prefix = keys::log_prefix(partition_, id_, record_->run); prefix != log_prefix_) {
    log_prefix_ = std::move(prefix);
    Txn again;
    again.reads.push_back(keys::log_from(log_prefix_, 0).first(log_page));
    outcome.reads[2] = std::move(core_.store().apply(again).reads.front());
  }
  runnable_row_ = !outcome.reads[1].empty();
  if (stuck_) {  // An empty machine: none of its code runs.
    machine_ = std::make_unique<Machine>(
        detail::Identity{
            .id = id_, .type = record_->type, .seed = record_->seed, .started = record_->created},
        core_.errors());
    begun_ = true;
    return true;
  }
  std::string row = runnable_row_ ? outcome.reads[1].front().value : std::string{};
  if (outcome.reads[2].empty() && std::ranges::any_of(events, is_start)) row = keys::nothing_ran;
  replay(std::move(outcome.reads[2]), row);
  return true;
}

LogEntry Instance::decoded(const Entry& stored) {
  if (keys::order_of(stored.key) != next_order_) {
    throw Error("its log has no entry " + std::to_string(next_order_) + ", but later ones");
  }
  std::expected<LogEntry, std::string> entry = decode_entry(stored.value);
  if (!entry) {
    throw Error("entry " + std::to_string(next_order_) + " of its log: " + entry.error());
  }
  ++next_order_;
  return *std::move(entry);
}

// `row`: what is known of the code that has not run yet (keys.hpp).
void Instance::replay(std::vector<Entry> entries, std::string_view row) {
  next_order_ = 0;
  std::vector<LogEntry> first;
  first.reserve(entries.size());
  for (const Entry& stored : entries) first.push_back(decoded(stored));
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): load() read it.
  const bool new_run = row == keys::nothing_ran && first.size() == record_->carried;
  const bool new_end = row == keys::after_last && !first.empty();
  fresh_row_ = runnable_row_ && (new_run || new_end);
  begin_machine(first, new_run);
  Feeder feeder{*machine_};
  bool live = new_run;
  for (std::size_t page = entries.size(); true; page = entries.size()) {
    for (LogEntry& entry : first) {
      if (!begun_) begin_code();
      note(entry);
      live =
          new_run ||
          (new_end && (entry.kind == EntryKind::slot_done || entry.kind == EntryKind::slot_failed));
      feeder.add(std::move(entry));
    }
    static_cast<void>(machine_->take_dropped());
    static_cast<void>(machine_->take_updates());
    if (page < log_page) break;
    Txn txn;
    txn.reads.push_back(keys::log_from(log_prefix_, next_order_).first(log_page));
    entries = std::move(core_.store().apply(txn).reads.front());
    first.clear();
    for (const Entry& stored : entries) first.push_back(decoded(stored));
  }
  feeder.end(live);
  // What a replay dropped was removed when it happened. What new code dropped was not: collect().
  if (live) return;
  static_cast<void>(machine_->take_dropped());
  static_cast<void>(machine_->take_updates());
}

void Instance::note(const LogEntry& entry) {
  if (entry.kind == EntryKind::cancel && entry.name == "deadline") deadline_passed_ = true;
}

// The workflow has ended, or never was: what still speaks of it goes.
// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
void Instance::clear_away(std::vector<Event>& events) {
  Txn txn;
  std::vector<std::string> told;
  for (const Event& event : events) {
    if (const auto* message = std::get_if<Event::Told>(&event.what)) {
      txn.writes.push_back(Write::remove(message->key));
      told.push_back(message->key);
    } else if (const auto* timer = std::get_if<Event::Timer>(&event.what)) {
      txn.writes.push_back(Write::remove(keys::timer(timer->timer)));
    } else if (std::holds_alternative<Event::Load>(event.what)) {
      txn.writes.push_back(Write::remove(keys::runnable(partition_, id_)));
    }
  }
  if (!txn.writes.empty()) {
    txn.guards = reign_->guards;
    core_.store().apply(txn);
  }
  for (const std::string& key : told) core_.message_done(key);
  go();
}

// --- commits

// NOLINTBEGIN(misc-no-recursion): go() leaves `here` false, so it posts.
void Instance::commit(std::shared_ptr<Turn> turn) {
  Txn& txn = turn->txn;
  txn.guards.reserve(txn.guards.size() + reign_->guards.size() + 1);
  txn.guards.insert(txn.guards.end(), reign_->guards.begin(), reign_->guards.end());
  if (const auto& first = turn->first_order) {
    txn.guards.push_back(Guard::absent(keys::log(log_prefix_, *first)));
  }
  txn.durability = core_.options().durability;
  if (turn->ended && !turn->ended->admission.empty()) turn->without_place = txn;
  {
    const base::Mutex::Scoped lock{mutex_};
    committing_ = true;
    pumping_ = false;
  }
  apply(std::move(turn));
}

void Instance::apply(std::shared_ptr<Turn> turn) {
  if (turn->without_place) {
    // NOLINTBEGIN(bugprone-unchecked-optional-access): an end that has a place.
    turn->txn = *turn->without_place;
    try {
      turn->handover = core_.give_back(turn->ended->admission, turn->txn);
    } catch (const StoreError&) {
      retry(std::move(turn->events));
      return;
    }
    // NOLINTEND(bugprone-unchecked-optional-access)
  }
  core_.begin_commit();
  turn->instance = shared_from_this();
  if (!core_.alone()) {
    core_.store().apply_later(std::move(turn));
    return;
  }
  // Nothing to share a sync with: two changes of threads are saved.
  try {
    const ThreadPool::Blocked blocked;
    turn->outcome = core_.store().apply(turn->txn);
  } catch (...) {
    turn->error = std::current_exception();
  }
  Turn& made = *turn;
  made.done(std::move(turn));
}

void Instance::Turn::done(std::shared_ptr<Deferred> self) noexcept {
  const std::shared_ptr<Instance> one = std::move(instance);
  auto turn = std::static_pointer_cast<Turn>(std::move(self));
  if (turn->ended && stores::ToldTogether::here()) {
    // Whoever waits for the end is called back: other commits need not wait for that.
    one->core_.post_along([one, turn = std::move(turn)] { one->applied(turn); });
  } else {
    one->applied(std::move(turn));
  }
  one->core_.end_commit();
}

void Instance::applied(std::shared_ptr<Turn> turn) {
  const bool done = !turn->error && turn->outcome.committed;
  if (turn->without_place) core_.gave_back(turn->handover, done);
  if (done && turn->ended && !turn->handover.removes) turn->ended->admission.clear();
  if (turn->without_place && !done && !turn->error && ++turn->tries < max_end_tries &&
      !core_.stopping() && core_.owns(partition_, reign_)) {
    // Another one was first in line.
    core_.post([self = shared_from_this(), turn = std::move(turn)] { self->apply(turn); });
    return;
  }
  committed(turn);
}

void Instance::committed(const std::shared_ptr<Turn>& turn) {
  if (turn->error || !turn->outcome.committed) {
    if (core_.stopping() || !core_.owns(partition_, reign_)) {
      abandon();
      const base::Mutex::Scoped lock{mutex_};
      committing_ = false;
      return;
    }
    if (const auto& slot = turn->slot; slot && !turn->error) {
      // Somebody else changed the slot, or the workflow was taken over.
      const base::Mutex::Scoped lock{mutex_};
      mailbox_.insert(mailbox_.begin(),
                      Event{Event::Slot{.key = slot->key, .tries = slot->tries + 1}});
      committing_ = false;
      pumping_ = true;
      core_.post([self = shared_from_this()] { self->pump(); });
      return;
    }
    retry(std::move(turn->events));
    return;
  }
  failures_ = 0;
  after(turn);
  const bool waits = machine_ && machine_->active() == 0 && running_.empty();
  {
    const base::Mutex::Scoped lock{mutex_};
    committing_ = false;
    if (gone_) return;
    if (!mailbox_.empty()) {
      pumping_ = true;
      core_.post([self = shared_from_this()] { self->pump(); });
      return;
    }
  }
  if (waits) core_.waits(shared_from_this());
}
// NOLINTEND(misc-no-recursion)

// NOLINTNEXTLINE(misc-no-recursion): go() leaves `here` false, so it posts.
void Instance::after(const std::shared_ptr<Turn>& own) {
  Turn& turn = *own;
  for (const std::string& key : turn.new_timers) core_.add_timer(key);
  for (const std::string& key : turn.old_timers) core_.remove_timer(key);
  for (const std::string& key : turn.told) core_.message_done(key);
  if (turn.runnable_row) runnable_row_ = *turn.runnable_row;
  if (turn.result || turn.runnable_row) fresh_row_ = false;
  if (turn.slot) runnable_row_ = fresh_row_ = true;
  for (std::shared_ptr<Attempt>& attempt : turn.starts) {
    core_.start_attempt(shared_from_this(), std::move(attempt), own);
  }
  for (auto& lock : turn.locks) {
    core_.ask_lock(id_, lock.key, std::move(lock.owner), std::move(lock.claims));
  }
  start_children(turn);
  if (!turn.slots.empty() || turn.recorded) {
    const base::Mutex::Scoped lock{mutex_};
    for (const OpKey& key : turn.slots) mailbox_.push_back({Event::Slot{.key = key}});
    if (turn.recorded) {
      ++next_order_;
      mailbox_.insert(mailbox_.begin(), Event{Event::Recorded{*std::move(turn.recorded)}});
    }
  }
  if (turn.continued) begin_next_run();
  if (!turn.left_seat.empty()) core_.left_queue(turn.left_seat);
  if (turn.ended) {
    core_.ended(id_, *turn.ended);
    go();
    if (stuck_) core_.read_again(id_);
  }
}

}  // namespace tenure::flow
