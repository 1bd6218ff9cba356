#include "space/stored/waits.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "base/thrown_by.hpp"
#include "space/stored/deadlock.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

// How soon a read that failed is repeated.
constexpr auto look_retry_time = 200ms;
// Some stores limit the writes of one apply. The removal of one ticket is never split.
constexpr std::size_t max_removals = 64;

}  // namespace

Waits::Waits(const Parts& parts)
    : parts_(parts),
      tickets_(parts.store, parts.hints),
      request_threads_(std::make_unique<RequestThreads>()),
      runner_(std::make_unique<space::Runner>()) {}

void Waits::join() noexcept {
  request_threads_.reset();
  runner_.reset();
}

void Waits::throw_waited_for(const Record& record) {
  throw BadRequest("ticket " + std::to_string(record.number.value) +
                   " is waited for already, by another call in this space: wait once per ticket");
}

// ---- Asking ----

bool Waits::request(const RecordRef& record, detail::Waiter& waiter) {
  if (waiter.caller == detail::Caller::waits || !parts_.store.remote()) return ask(record, waiter);
  ask_in_background(record, waiter);
  return false;
}

bool Waits::try_request(const RecordRef& record, detail::Grant& grant) {
  if (!parts_.requests.try_append(*record)) return false;
  parts_.life.enter();
  if (record->row.max_hold.count() != 0) {
    try {
      parts_.requests.start_deadline(*record);
    } catch (...) {
      parts_.holds.give_up(record);
      throw;
    }
  }
  parts_.holds.hold(record);
  grant = {.ticket = record.get(), .token = record->number};
  return true;
}

bool Waits::ask(const RecordRef& record, detail::Waiter& waiter) {
  Tickets::View view = parts_.requests.first_view(*record);
  parts_.life.enter();
  waiter.grant = {.ticket = record.get(), .token = record->number};
  if (view.found.free() && record->row.max_hold.count() == 0) {
    parts_.holds.hold(record);
    return true;
  }
  record->waiter = &waiter;
  bool added = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    added =
        waiting_.try_emplace(record->number.value, Waiting{.record = record, .watches = {}}).second;
  }
  if (!added) {
    parts_.life.leave();
    throw_waited_for(*record);
  }
  return wait_in_line(record, std::move(view));
}

// The record is in waiting_. True: granted. False: another thread ends the wait, or has ended it.
bool Waits::wait_in_line(const RecordRef& record, Tickets::View view) {
  Verdict verdict = Verdict::waiting;
  try {
    parts_.life.check_open();
    if (!view.own.has_value()) {
      view.own = Entry{.key = record->first_key(),
                       .value = record->row.text(),
                       .created = view.at,
                       .changed = view.at};
    }
    // Only an append can close a cycle.
    const bool may_close = !record->row.owner.anonymous() || record->row.replaces != Token{};
    if (!record->adopted && may_close && !view.found.free()) {
      refuse_deadlock(parts_.store, tickets_, record->row, record->number);
    }
    verdict = try_grant(record, std::move(view));
  } catch (...) {
    if (take(record) == nullptr) return false;
    parts_.holds.give_up(record);
    throw;
  }
  if (verdict == Verdict::waiting || take(record) == nullptr) return false;
  if (verdict == Verdict::granted) {
    parts_.holds.hold(record);
    return true;
  }
  parts_.life.leave();
  if (verdict == Verdict::anchor_lost) Tickets::throw_anchor_lost(record->row);
  throw_evicted_request();
}

// ---- Waiting ----

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one case after the other.
Waits::Verdict Waits::try_grant(const RecordRef& record, Tickets::View view) {
  for (;; view = tickets_.look_back(record->row, record->number)) {
    if (!view.anchored) return Verdict::anchor_lost;
    if (!record->row.anchored() && parts_.session.lost().stop_requested()) {
      return Verdict::anchor_lost;
    }
    if (!view.own.has_value()) return Verdict::gone;
    if (view.changed.has_value()) {
      const base::Mutex::Scoped lock{record->mutex};
      record->take_limits(*view.changed);
    }
    if (view.found.free()) {
      if (record->row.max_hold.count() == 0) return Verdict::granted;
      if (tickets_.start_deadline(*view.own, record->row.deadline, record->written)) {
        return Verdict::granted;
      }
      continue;
    }
    if (!view.found.blocked()) continue;  // The append did not read all conflicts.
    std::vector<WatchFor> what;
    if (parts_.blockers.clear_away(view.found, record->row.claims, record->number, what)) continue;
    // The first watch is of a blocker; mostly it is the only one.
    WatchFor& own = what.front().after == Revision{} ? what.front() : what.emplace_back();
    own.ranges.push_back(Range::key(view.own->key));
    if (record->row.anchored()) own.ranges.push_back(Range::key(record->row.anchor));
    for (WatchFor& one : what) {
      if (one.after == Revision{}) one.after = view.at;
    }
    watch_for(record, std::move(what));
    return Verdict::waiting;
  }
}

Waits::Waiting* Waits::find(const RecordRef& record) noexcept {
  const auto found = waiting_.find(record->number.value);
  return found != waiting_.end() && found->second.record == record ? &found->second : nullptr;
}

void Waits::watch_for(const RecordRef& record, std::vector<WatchFor> what) {
  Watches old;
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    Waiting* const waiting = find(record);
    if (waiting == nullptr) return;  // Its outcome was decided meanwhile.
    round = ++waiting->round;
    old.swap(waiting->watches);
  }
  old.clear();
  Watches made;
  for (WatchFor& one : what) {
    made.push_back(parts_.store.watch(
        std::move(one), [this, number = record->number.value] { on_notice(number); }));
  }
  const base::Mutex::Scoped lock{mutex_};
  // A notice may have come already, and begun a round of its own, or ended the wait.
  Waiting* const waiting = find(record);
  if (waiting != nullptr && waiting->round == round) waiting->watches.swap(made);
}

void Waits::on_notice(std::uint64_t number) noexcept {
  RecordRef record;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    record = found->second.record;
  }
  const Lifetime::InStore in_store;
  const Lifetime::Stay stay{parts_.life};
  try {
    switch (try_grant(record, tickets_.look_back(record->row, record->number))) {
      case Verdict::waiting: break;
      case Verdict::granted: end_wait(record, detail::WaitOutcome::granted); break;
      case Verdict::gone: end_wait(record, detail::WaitOutcome::evicted); break;
      case Verdict::anchor_lost: end_lost_wait(record); break;
    }
    parts_.sweeper.sweep();
  } catch (...) {
    look_again_soon(record);
  }
}

// The store cannot be read now: nothing is decided, and it is read again.
void Waits::look_again_soon(const RecordRef& record) noexcept {
  std::exception_ptr error = base::thrown_by([&] {
    WatchFor soon;
    soon.until = detail::saturating_add(parts_.store.latest_now(), look_retry_time);
    watch_for(record, {std::move(soon)});
  });
  if (error == nullptr) return;
  // Without a watch nothing would end the wait.
  if (record->row.anchored()) {
    end_wait(record, detail::WaitOutcome::failed, std::move(error));
  } else {
    end_wait(record, detail::WaitOutcome::lost);
  }
  if (!record->adopted) parts_.retries.apply_later(removal(*record), record->row.anchored());
}

// ---- The end of a wait ----

detail::Waiter* Waits::take(const RecordRef& record) noexcept {
  Watches watches;
  const base::Mutex::Scoped lock{mutex_};
  Waiting* const waiting = find(record);
  // A cancellation that has won removes it itself; until then the waiter is valid.
  if (waiting == nullptr || !record->waiter->decide()) return nullptr;
  watches.swap(waiting->watches);
  waiting_.erase(record->number.value);
  return record->waiter;
}

void Waits::end_lost_wait(const RecordRef& record) noexcept {
  if (record->row.anchored()) {
    end_wait(record, detail::WaitOutcome::failed,
             base::thrown_by([&] { Tickets::throw_anchor_lost(record->row); }));
  } else {
    end_wait(record, detail::WaitOutcome::lost);
  }
}

void Waits::end_wait(const RecordRef& record, detail::WaitOutcome outcome,
                     std::exception_ptr error) noexcept {
  detail::Waiter* const waiter = take(record);
  if (waiter == nullptr) return;
  waiter->error = std::move(error);
  if (outcome == detail::WaitOutcome::granted) parts_.holds.hold(record);
  tell(*waiter, outcome);
  if (outcome != detail::WaitOutcome::granted) parts_.life.leave();
}

void Waits::tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept {
  if (waiter.runs_code) {
    try {
      runner_->run([this, &waiter, outcome] {
        const Lifetime::Working working{parts_.life};
        waiter.done(waiter, outcome);
      });
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // No thread can be started: call it here.
    }
  }
  waiter.done(waiter, outcome);
}

void Waits::withdraw(detail::Waiter& waiter) noexcept {
  RecordRef record;
  Watches watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (asking_.erase(&waiter) != 0) return;  // The thread that asks for it finds that out.
    const auto found = waiting_.find(waiter.grant.token.value);
    if (found == waiting_.end() || found->second.record->waiter != &waiter) return;
    record = std::move(found->second.record);
    watches.swap(found->second.watches);
    waiting_.erase(found);
  }
  watches.clear();
  parts_.holds.give_up(record);
}

void Waits::close() noexcept {
  std::vector<RecordRef> ended;
  std::vector<Watches> watches;
  {
    const base::Mutex::Scoped lock{mutex_};
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const auto one = at++;
      Waiting& waiting = one->second;
      if (!waiting.record->waiter->decide()) continue;  // It is being cancelled.
      watches.push_back(std::move(waiting.watches));
      ended.push_back(std::move(waiting.record));
      waiting_.erase(one);
    }
  }
  watches.clear();
  for (detail::Waiter* const waiter : take_all_asking()) {
    tell(*waiter, detail::WaitOutcome::closed);
  }
  remove_all(ended);
  for (const RecordRef& record : ended) {
    // Not the last user: the Space leaves after this.
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
    tell(*record->waiter, detail::WaitOutcome::closed);
    parts_.life.leave();
  }
}

// The earliest first: a ticket behind them waits for the latest, and is woken once. After a step
// that fails the others are left to Retries: each might wait for a server that is gone.
void Waits::remove_all(std::span<const RecordRef> records) noexcept {
  std::vector<RecordRef> sorted{records.begin(), records.end()};
  std::erase_if(sorted, [](const RecordRef& record) { return record->adopted; });
  std::ranges::sort(sorted, {}, [](const RecordRef& record) { return record->number; });
  bool works = true;
  bool anchored = false;  // A ticket of the step is.
  const auto remove = [&](Txn txn) noexcept {
    try {
      if (works) parts_.store.apply(txn);
    } catch (...) {
      works = false;
    }
    if (!works) parts_.retries.apply_later(std::move(txn), anchored);
    anchored = false;
  };
  Txn step;
  for (const RecordRef& record : sorted) {
    Txn one;
    Tickets::add_removal(record->row, record->number, one);
    if (!step.writes.empty() && step.writes.size() + one.writes.size() > max_removals) {
      remove(std::exchange(step, {}));
    }
    std::ranges::move(one.writes, std::back_inserter(step.writes));
    anchored = anchored || record->row.anchored();
  }
  if (!step.writes.empty()) remove(std::move(step));
}

void Waits::on_session_lost() noexcept {
  std::vector<RecordRef> waiting;
  {
    const base::Mutex::Scoped lock{mutex_};
    for (const auto& [number, one] : waiting_) {
      if (!one.record->row.anchored()) waiting.push_back(one.record);
    }
  }
  for (detail::Waiter* const waiter : take_all_asking()) tell(*waiter, detail::WaitOutcome::lost);
  for (const RecordRef& record : waiting) end_wait(record, detail::WaitOutcome::lost);
}

}  // namespace tenure::stored
