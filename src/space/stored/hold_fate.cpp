// What becomes of a hold while it is held: its deadline, its guard, and when lost() fires.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "space/stored/holds.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

// How soon a failed read of a hold's entry is repeated.
constexpr auto hold_retry_time = 200ms;

// How long before its deadline lost() fires.
std::chrono::nanoseconds margin(std::chrono::nanoseconds max_hold) {
  return std::min<std::chrono::nanoseconds>(1s, max_hold / 3);
}

}  // namespace

// ---- Deadlines ----

// Reads may be reported in any order; the newest row counts.
void Holds::saw_row(const RecordRef& record, const Row& row, Revision written) {
  {
    const base::Mutex::Scoped lock{record->mutex};
    record->evicted = record->evicted || row.evicted;
    record->is_asked = record->is_asked || row.asked;
    if (written >= record->seen_at) {
      record->seen_at = written;
      record->deadline = row.deadline;
    }
  }
  count_down(record);
  fire_asked(record);
}

// By the clock that holders use. Once true, another process may already have the next hold.
bool Holds::is_over(const Record& record) {
  std::optional<Instant> deadline;
  {
    const base::Mutex::Scoped lock{record.mutex};
    deadline = record.deadline;
  }
  return deadline.has_value() && store_.latest_now() >= *deadline;
}

bool Holds::is_over_or_evicted(const Record& record) {
  if (is_over(record)) return true;
  const base::Mutex::Scoped lock{record.mutex};
  return record.evicted;
}

std::optional<Instant> Holds::tell_at(const Record& record) {
  const base::Mutex::Scoped lock{record.mutex};
  if (!record.deadline.has_value() || !record.lost.has_value() || record.is_lost) return {};
  const std::chrono::nanoseconds max_hold = record.row.max_hold;
  return detail::saturating_sub(*record.deadline, margin(max_hold.count() != 0 ? max_hold : 3s));
}

bool Holds::is_due(const Record& record) {
  const std::optional<Instant> at = tell_at(record);
  return at.has_value() && store_.latest_now() >= *at;
}

void Holds::count_down(const RecordRef& record) noexcept {
  const std::optional<Instant> at = tell_at(*record);
  if (!at.has_value()) return;
  try {
    timers_->set(record->number.value, *at, [this, weak = std::weak_ptr{record}] {
      const RecordRef hold = weak.lock();
      if (hold != nullptr && is_due(*hold)) fire_lost(hold);  // Or it was renewed meanwhile.
    });
  } catch (...) {
    fire_lost(record);  // Without a timer nothing would fire it in time.
  }
}

std::optional<Instant> Holds::deadline(const detail::Grant& grant) {
  const RecordRef record = record_of(grant);
  resolve_downgrade(record);
  Txn read;
  read.reads.push_back(Range::key(record->first_key()));
  const Outcome outcome = store_.apply(read);
  if (outcome.reads.front().empty()) return record->row.deadline;
  return parse_row(outcome.reads.front().front()).row.value_or(record->row).deadline;
}

bool Holds::renew(const detail::Grant& grant, std::chrono::nanoseconds max_hold) {
  const RecordRef record = record_of(grant);
  const auto is_lost = [&record] {
    const base::Mutex::Scoped lock{record->mutex};
    return record->is_lost;
  };
  resolve_downgrade(record);
  for (;;) {
    if (is_lost()) return false;
    Txn read;
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_.apply(read);
    if (outcome.reads.front().empty()) return false;
    const Entry& entry = outcome.reads.front().front();
    Row row = parse_row(entry).row.value_or(record->row);
    saw_row(record, row, entry.changed);
    if (is_over(*record)) {
      tickets_.remove({.entry = entry, .row = row, .number = record->number});
      return false;
    }
    if (row.evicted) return false;
    if (max_hold.count() != 0) row.max_hold = max_hold;
    if (row.max_hold.count() == 0) return true;
    row.deadline = detail::saturating_add(store_.now(), row.max_hold);
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::put(entry.key, row.text()));
    const Outcome renewed = store_.apply(txn);
    if (!renewed.committed) continue;
    {
      const base::Mutex::Scoped lock{record->mutex};
      record->row.deadline = row.deadline;
      record->row.max_hold = row.max_hold;
    }
    saw_row(record, row, renewed.revision);
    // The process may have been stopped for longer than that, or lost() may have fired meanwhile.
    return !is_over(*record) && !is_lost();
  }
}

std::vector<Guard> Holds::guard(const detail::Grant& grant) {
  const RecordRef record = record_of(grant);
  resolve_downgrade(record);
  std::vector<Guard> guards;
  for (const Claim& claim : record->row.claims) {
    guards.push_back(Guard::present(row_key(claim, record->number)));
  }
  // Present and absent at once: no transaction commits with this.
  if (is_over(*record)) guards.push_back(Guard::absent(record->first_key()));
  return guards;
}

std::vector<Claim> Holds::claims(const detail::Grant& grant) {
  const RecordRef record = record_of(grant);
  resolve_downgrade(record);
  const auto limited = [](const Claim& claim) { return claim.mode.limit() != 0; };
  if (!std::ranges::any_of(record->row.claims, limited)) return record->row.claims;
  Txn read;  // Another process may have changed the limit.
  read.reads.push_back(Range::key(record->first_key()));
  const Outcome outcome = store_.apply(read);
  if (saw_rows(record, outcome)) saw_limits(record, outcome.reads.front().front());
  return record->row.claims;
}

// Not in saw_row(): notices call that, and only calls on the Hold may change the claims.
void Holds::saw_limits(const RecordRef& record, const Entry& own) {
  const auto parsed = read_row(own);
  if (!parsed.has_value() || !parsed->row.has_value()) return;
  const base::Mutex::Scoped lock{record->mutex};
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): checked above.
  record->take_limits(*parsed->row);
}

// ---- lost() and asked_to_leave() ----

// True in the first call: arm the watch then.
bool Holds::begin_watching(const RecordRef& record, WatchFor& what, std::uint64_t& round) {
  {
    const base::Mutex::Scoped lock{record->mutex};
    if (std::exchange(record->watched, true)) return false;
    round = ++record->round;
    what.ranges.push_back(Range::key(record->first_key()));
  }
  if (record->row.anchored()) {
    // From the beginning: revisions of other keys say nothing about this one. The first notice
    // follows at once.
    what.ranges.push_back(Range::key(record->row.anchor));
  } else {
    what.after = Revision{record->number.value};
  }
  const base::Mutex::Scoped lock{mutex_};
  std::erase_if(watched_, [](const auto& hold) { return hold.expired(); });
  watched_.push_back(record);
  return true;
}

// Makes no call of the store: it may be slow, or out of reach.
std::stop_token Holds::lost(const detail::Grant& grant) {
  const RecordRef record = record_of(grant);
  std::stop_token token;
  bool first = false;
  {
    const base::Mutex::Scoped lock{record->mutex};
    first = !record->lost.has_value();
    if (first) record->lost.emplace();
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    token = record->lost->get_token();
  }
  WatchFor what;
  std::uint64_t round = 0;
  const bool begins = begin_watching(record, what, round);
  // Each time: a process that was stopped for longer than its session must not believe an earlier
  // answer.
  if (!record->row.anchored() && session_.lost().stop_requested()) {
    if (!token.stop_requested()) fire_lost(record);
    while (!token.stop_requested()) std::this_thread::yield();
  } else {
    if (first) count_down(record);
    if (begins) arm_hold(record, std::move(what), round);
  }
  return token;
}

std::stop_token Holds::asked_to_leave(const detail::Grant& grant) {
  const RecordRef record = record_of(grant);
  std::stop_token token;
  {
    const base::Mutex::Scoped lock{record->mutex};
    if (!record->asked.has_value()) record->asked.emplace();
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    token = record->asked->get_token();
  }
  fire_asked(record);
  WatchFor what;
  std::uint64_t round = 0;
  if (begin_watching(record, what, round)) arm_hold(record, std::move(what), round);
  return token;
}

// Reads the hold's own entry now, and again when it changes.
void Holds::watch_hold(const RecordRef& record) noexcept {
  // A release does not wait for this notice once it has taken the old watch out.
  const Lifetime::Stay stay{life_};
  Watches old;
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{record->mutex};
    round = ++record->round;
    old.swap(record->watches);
    if (record->is_lost || (!record->lost.has_value() && !record->asked.has_value())) return;
  }
  old.clear();
  WatchFor what;
  bool is_lost = is_due(*record);
  try {
    if (!is_lost) what = look_at_hold(record, is_lost);
  } catch (...) {
    // Nothing is known, which is no reason to give the hold up.
    what = {};
    what.until = detail::saturating_add(store_.latest_now(), hold_retry_time);
  }
  if (is_lost) {
    fire_lost(record);
  } else {
    arm_hold(record, std::move(what), round);
  }
}

// Returns what to watch next, if the hold is not lost.
WatchFor Holds::look_at_hold(const RecordRef& record, bool& is_lost) {
  const auto keys = [&record] {
    const base::Mutex::Scoped lock{record->mutex};
    std::vector<std::string> all{record->first_key()};
    if (const std::optional<Row> perhaps = record->perhaps) {
      all.push_back(row_key(perhaps->claims.front(), record->number));
    }
    return all;
  };
  const std::vector<std::string> looked_at = keys();
  Txn read;
  for (const std::string& key : looked_at) read.reads.push_back(Range::key(key));
  const bool anchored = record->row.anchored();
  if (anchored) read.reads.push_back(Range::key(record->row.anchor));
  Outcome outcome = store_.apply(read);
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
  // Lost, unless a downgrade has just moved the entry elsewhere.
  is_lost = keys() == looked_at;
  {
    const base::Mutex::Scoped lock{record->mutex};
    is_lost = is_lost && !record->moving;
  }
  if (!is_lost) what.until = detail::saturating_add(store_.latest_now(), 1ms);
  return what;
}

// Watches the deadline too: timers do not notice a clock that a test moves.
void Holds::arm_hold(const RecordRef& record, WatchFor what, std::uint64_t round) noexcept {
  if (const std::optional<Instant> at = tell_at(*record); at.has_value()) {
    what.until = std::min(what.until.value_or(*at), *at);
  }
  Watches made;
  try {
    made.push_back(store_.watch(std::move(what), [this, weak = std::weak_ptr{record}] {
      const Lifetime::InStore in_store;
      if (const RecordRef hold = weak.lock()) watch_hold(hold);
    }));
  } catch (...) {
    fire_lost(record);  // Without a watch nothing would fire it in time.
    return;
  }
  const base::Mutex::Scoped lock{record->mutex};
  if (record->round == round) record->watches.swap(made);
}

void Holds::fire_lost(const RecordRef& record) noexcept {
  std::stop_source source{std::nostopstate};
  {
    const base::Mutex::Scoped lock{record->mutex};
    if (record->is_lost || !record->lost.has_value()) return;
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    source = *record->lost;
    record->is_lost = true;
  }
  fire(source);
}

void Holds::fire_asked(const RecordRef& record) noexcept {
  std::stop_source source{std::nostopstate};
  {
    const base::Mutex::Scoped lock{record->mutex};
    if (!record->is_asked || !record->asked.has_value()) return;
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
    source = *record->asked;
  }
  if (!source.stop_requested()) fire(source);
}

void Holds::fire(const std::stop_source& source) noexcept {
  try {
    callers_->run([this, own = source]() mutable {
      const Lifetime::Working working{life_};
      own.request_stop();
    });
  } catch (...) {
    source.request_stop();  // No thread can be started: call them here.
  }
}

void Holds::on_session_lost() noexcept {
  std::vector<std::weak_ptr<Record>> holds;
  {
    const base::Mutex::Scoped lock{mutex_};
    holds = watched_;
  }
  for (const auto& weak : holds) {
    const RecordRef hold = weak.lock();
    if (hold != nullptr && !hold->row.anchored()) fire_lost(hold);
  }
}

}  // namespace tenure::stored
