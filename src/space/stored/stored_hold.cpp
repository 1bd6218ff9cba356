// What becomes of a hold while it is held: its deadline, its guard, and how its holder learns that
// it is lost.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "space/stored/stored_space.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

// How soon a look at a hold that failed is tried again.
constexpr auto hold_retry_time = 200ms;

// How long before its deadline a holder is told.
std::chrono::nanoseconds margin(std::chrono::nanoseconds max_hold) {
  return std::min<std::chrono::nanoseconds>(1s, max_hold / 3);
}

}  // namespace

void StoredSpace::check_open_for_hold() const {
  if (forked())
    throw Error("this hold belongs to the parent process: a forked child must lock again");
}

void StoredSpace::hold(const RecordRef& record) noexcept {
  record->held = record;
  const base::Mutex::Scoped lock{mutex_};
  record->deadline = record->row.deadline;
  // Nobody changes a ticket before it is granted, but for its own deadline.
  record->seen_at = std::max({record->seen_at, record->written, Revision{record->number.value}});
  ++holds_;
}

// ---- Deadlines ----

// Looks come in any order; the newest row counts.
void StoredSpace::saw_row(const RecordRef& record, const Row& row, Revision written) {
  {
    const base::Mutex::Scoped lock{mutex_};
    record->evicted = record->evicted || row.evicted;
    if (written < record->seen_at) return;
    record->seen_at = written;
    record->deadline = row.deadline;
  }
  count_down(record);
}

// By the clock that holders count by: once true, somebody may have the next hold.
bool StoredSpace::is_over(const Record& record) {
  std::optional<Instant> deadline;
  {
    const base::Mutex::Scoped lock{mutex_};
    deadline = record.deadline;
  }
  return deadline.has_value() && store_->latest_now() >= *deadline;
}

bool StoredSpace::is_over_or_evicted(const Record& record) {
  if (is_over(record)) return true;
  const base::Mutex::Scoped lock{mutex_};
  return record.evicted;
}

std::optional<Instant> StoredSpace::tell_at(const Record& record) {
  const base::Mutex::Scoped lock{mutex_};
  if (!record.deadline.has_value() || !record.lost.has_value() || record.is_lost) return {};
  const std::chrono::nanoseconds max_hold = record.row.max_hold;
  return detail::saturating_sub(*record.deadline, margin(max_hold.count() != 0 ? max_hold : 3s));
}

bool StoredSpace::is_due(const Record& record) {
  const std::optional<Instant> at = tell_at(record);
  return at.has_value() && store_->latest_now() >= *at;
}

void StoredSpace::count_down(const RecordRef& record) noexcept {
  const std::optional<Instant> at = tell_at(*record);
  if (!at.has_value()) return;
  try {
    timers_->set(record->number.value, *at, [this, weak = std::weak_ptr{record}] {
      const RecordRef hold = weak.lock();
      if (hold != nullptr && is_due(*hold)) fire_lost(hold);  // Or it was renewed meanwhile.
    });
  } catch (...) {
    fire_lost(record);  // Nobody could tell it any more.
  }
}

std::optional<Instant> StoredSpace::deadline(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  resolve_downgrade(record);
  Txn read;
  read.reads.push_back(Range::key(record->first_key()));
  const Outcome outcome = store_->apply(read);
  if (outcome.reads.front().empty()) return record->row.deadline;
  return parse_row(outcome.reads.front().front()).row.value_or(record->row).deadline;
}

bool StoredSpace::renew(detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  const auto is_lost = [this, &record] {
    const base::Mutex::Scoped lock{mutex_};
    return record->is_lost;
  };
  resolve_downgrade(record);
  for (;;) {
    if (is_lost()) return false;
    Txn read;
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_->apply(read);
    if (outcome.reads.front().empty()) return false;
    const Entry& entry = outcome.reads.front().front();
    Row row = parse_row(entry).row.value_or(record->row);
    saw_row(record, row, entry.changed);
    if (is_over(*record)) {
      tickets().remove({.entry = entry, .row = row, .number = record->number});
      return false;
    }
    if (row.evicted) return false;
    if (row.max_hold.count() == 0) return true;
    row.deadline = detail::saturating_add(store_->now(), row.max_hold);
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::put(entry.key, row.text()));
    const Outcome renewed = store_->apply(txn);
    if (!renewed.committed) continue;
    record->row.deadline = row.deadline;
    saw_row(record, row, renewed.revision);
    // It may have been stopped for longer than that, or told meanwhile.
    return !is_over(*record) && !is_lost();
  }
}

std::vector<Guard> StoredSpace::guard(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  resolve_downgrade(record);
  std::vector<Guard> guards;
  for (const Claim& claim : record->row.claims) {
    guards.push_back(Guard::present(row_key(claim, record->number)));
  }
  // Both present and absent: with this nothing commits.
  if (is_over(*record)) guards.push_back(Guard::absent(record->first_key()));
  return guards;
}

// ---- lost() ----

// Asks the store for nothing: it may be slow, or out of reach.
std::stop_token StoredSpace::lost(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  std::stop_token token;
  bool first = false;
  WatchFor what;
  std::uint64_t round = 0;
  bool anchored = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    anchored = record->row.anchored();
    if (record->lost.has_value()) {
      // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
      token = record->lost->get_token();
    } else {
      first = true;
      token = record->lost.emplace().get_token();
      std::erase_if(watched_holds_, [](const auto& hold) { return hold.expired(); });
      watched_holds_.push_back(record);
      round = ++record->round;
      what.ranges.push_back(Range::key(record->first_key()));
      if (anchored) {
        // From the beginning: revisions of other keys say nothing about this one. The first look
        // follows at once.
        what.ranges.push_back(Range::key(record->row.anchor));
      } else {
        what.after = Revision{record->number.value};
      }
    }
  }
  // Each time: who was stopped for longer than its session must not believe an old answer.
  if (!anchored && session_->lost().stop_requested()) {
    if (!token.stop_requested()) fire_lost(record);
    while (!token.stop_requested()) std::this_thread::yield();
  } else if (first) {
    count_down(record);
    arm_hold(record, std::move(what), round);
  }
  return token;
}

// Looks at the hold's own entry, and at it again when that changes.
void StoredSpace::watch_hold(const RecordRef& record) noexcept {
  const Stay stay{*this};  // A release does not wait for this once the old watch is taken out.
  Watches old;
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    round = ++record->round;
    old.swap(record->watches);
    if (record->is_lost) return;
  }
  old.clear();
  WatchFor what;
  bool is_lost = is_due(*record);
  try {
    if (!is_lost) what = look_at_hold(record, is_lost);
  } catch (...) {
    // Nothing is known: not a reason to give up.
    what = {};
    what.until = detail::saturating_add(store_->latest_now(), hold_retry_time);
  }
  if (is_lost) {
    fire_lost(record);
  } else {
    arm_hold(record, std::move(what), round);
  }
}

// What to watch next, of a hold that is not lost.
WatchFor StoredSpace::look_at_hold(const RecordRef& record, bool& is_lost) {
  std::string anchor;  // A downgrade changes the row, but never this.
  const auto keys = [this, &record, &anchor] {
    const base::Mutex::Scoped lock{mutex_};
    anchor = record->row.anchor;
    std::vector<std::string> all{record->first_key()};
    if (const std::optional<Row> perhaps = record->perhaps) {
      all.push_back(row_key(perhaps->claims.front(), record->number));
    }
    return all;
  };
  const std::vector<std::string> looked_at = keys();
  Txn read;
  for (const std::string& key : looked_at) read.reads.push_back(Range::key(key));
  const bool anchored = !anchor.empty();
  if (anchored) read.reads.push_back(Range::key(anchor));
  Outcome outcome = store_->apply(read);
  WatchFor what;
  what.after = outcome.revision;
  what.ranges = read.reads;
  if (anchored) {
    is_lost = outcome.reads.back().empty();
    if (is_lost) return what;
    outcome.reads.pop_back();
  }
  for (const std::vector<Entry>& found : outcome.reads) {
    const std::optional<Row> row = found.empty() ? std::nullopt : parse_row(found.front()).row;
    if (!row.has_value()) continue;
    saw_row(record, *row, found.front().changed);
    is_lost = row->evicted || is_due(*record);
    return what;
  }
  // Or it was just downgraded, and is elsewhere.
  is_lost = keys() == looked_at;
  {
    const base::Mutex::Scoped lock{mutex_};
    is_lost = is_lost && !record->moving;
  }
  if (!is_lost) what.until = detail::saturating_add(store_->latest_now(), 1ms);
  return what;
}

// Its time, too: of a clock that is moved by hand the timers know nothing.
void StoredSpace::arm_hold(const RecordRef& record, WatchFor what, std::uint64_t round) noexcept {
  if (const std::optional<Instant> at = tell_at(*record); at.has_value()) {
    what.until = std::min(what.until.value_or(*at), *at);
  }
  Watches made;
  try {
    made.push_back(store_->watch(std::move(what), [this, weak = std::weak_ptr{record}] {
      const InStore in_store;
      if (const RecordRef hold = weak.lock()) watch_hold(hold);
    }));
  } catch (...) {
    fire_lost(record);  // Nobody could tell it any more.
    return;
  }
  const base::Mutex::Scoped lock{mutex_};
  if (record->round == round) record->watches.swap(made);
}

// On a thread of its own: the callbacks are the user's, and may take their time.
void StoredSpace::fire_lost(const RecordRef& record) noexcept {
  std::stop_source source{std::nostopstate};
  {
    const base::Mutex::Scoped lock{mutex_};
    if (record->is_lost || !record->lost.has_value()) return;
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    source = *record->lost;
    record->is_lost = true;
  }
  try {
    callers_->run([this, own = source]() mutable {
      const Working working{this};
      own.request_stop();
    });
  } catch (...) {
    source.request_stop();  // No thread to be had: then here.
  }
}

// Holders first: the end of a wait may have to wait for the store.
void StoredSpace::on_session_lost() noexcept {
  std::vector<RecordRef> waiting;
  std::vector<std::weak_ptr<Record>> holds;
  {
    const base::Mutex::Scoped lock{mutex_};
    for (const auto& [number, record] : waiting_) {
      if (!record->row.anchored()) waiting.push_back(record);
    }
    holds = watched_holds_;
    std::erase_if(holds, [](const auto& weak) {
      const RecordRef record = weak.lock();
      return record == nullptr || record->row.anchored();
    });
  }
  for (const auto& weak : holds) {
    if (const RecordRef hold = weak.lock()) fire_lost(hold);
  }
  for (detail::Waiter* const waiter : take_all_asking()) tell(*waiter, detail::WaitOutcome::lost);
  for (const RecordRef& record : waiting) end_wait(record, detail::WaitOutcome::lost);
}

}  // namespace tenure::stored
