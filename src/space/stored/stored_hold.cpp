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

// How long before its deadline a holder is told.
std::chrono::nanoseconds margin(std::chrono::nanoseconds max_hold) {
  return std::min<std::chrono::nanoseconds>(1s, max_hold / 3);
}

}  // namespace

void StoredSpace::check_open_for_hold() const {
  if (forked())
    throw Error("this hold belongs to the parent process: a forked child must lock again");
}

std::vector<Guard> StoredSpace::guard(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  std::vector<Guard> guards;
  for (const Claim& claim : record->row.claims) {
    guards.push_back(Guard::present(row_key(claim, record->number)));
  }
  return guards;
}

std::optional<Instant> StoredSpace::deadline(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
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
  for (;;) {
    if (is_lost()) return false;
    Txn read;
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_->apply(read);
    if (outcome.reads.front().empty()) return false;
    const Entry& entry = outcome.reads.front().front();
    Row row = parse_row(entry).row.value_or(record->row);
    if (row.evicted) return false;
    if (row.max_hold.count() == 0) return true;
    const Instant now = store_->now();
    if (row.deadline.has_value() && now >= *row.deadline) return false;
    row.deadline = detail::saturating_add(now, row.max_hold);
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::put(entry.key, row.text()));
    if (!store_->apply(txn).committed) continue;
    record->row.deadline = row.deadline;
    // It may have been stopped for longer than that, or told meanwhile.
    return store_->now() < *row.deadline && !is_lost();
  }
}

std::stop_token StoredSpace::lost(const detail::Grant& grant) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  std::stop_token token;
  bool first = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    if (record->lost.has_value()) {
      // NOLINTNEXTLINE(bugprone-unchecked-optional-access)
      token = record->lost->get_token();
    } else {
      first = true;
      token = record->lost.emplace().get_token();
      std::erase_if(watched_holds_, [](const auto& hold) { return hold.expired(); });
      watched_holds_.push_back(record);
    }
  }
  // Each time: who was stopped for longer than its session must not believe an old answer.
  if (session_->lost().stop_requested()) {
    if (!token.stop_requested()) fire_lost(record);
    while (!token.stop_requested()) std::this_thread::yield();
  } else if (first) {
    watch_hold(record);
  }
  return token;
}

// Looks at the hold's own entry, and at it again when that changes or its time comes.
void StoredSpace::watch_hold(const RecordRef& record) noexcept {
  const Stay stay{*this};  // A release does not wait for this once the old watch is taken out.
  Watches old;
  std::uint64_t round = 0;
  std::string key;
  {
    const base::Mutex::Scoped lock{mutex_};
    round = ++record->round;
    old.swap(record->watches);
    key = record->first_key();
  }
  old.clear();
  WatchFor what;
  bool is_lost = false;
  try {
    Txn read;
    read.reads.push_back(Range::key(key));
    const Outcome outcome = store_->apply(read);
    what.after = outcome.revision;
    what.ranges.push_back(Range::key(key));
    if (outcome.reads.front().empty()) {
      const base::Mutex::Scoped lock{mutex_};
      // Or it was just downgraded, and is elsewhere.
      is_lost = !record->moving && record->first_key() == key;
      if (!is_lost) what.until = detail::saturating_add(store_->now(), 1ms);
    } else {
      const Row row = parse_row(outcome.reads.front().front()).row.value_or(Row{});
      if (row.deadline.has_value()) {
        what.until = detail::saturating_sub(*row.deadline,
                                            margin(row.max_hold.count() != 0 ? row.max_hold : 3s));
        is_lost = row.evicted || store_->now() >= *what.until;
      }
    }
  } catch (...) {
    what.ranges.clear();
    // Nothing is known: not a reason to give up.
    what.until = detail::saturating_add(store_->now(), 200ms);
  }
  if (is_lost) {
    fire_lost(record);
    return;
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
  std::optional<std::stop_source> source;
  {
    const base::Mutex::Scoped lock{mutex_};
    source = record->lost;
    record->is_lost = source.has_value();
  }
  if (!source.has_value()) return;
  try {
    std::thread{[own = *source]() mutable { own.request_stop(); }}.detach();
  } catch (...) {
    source->request_stop();  // No thread to be had: then here.
  }
}

void StoredSpace::on_session_lost() noexcept {
  std::vector<RecordRef> waiting;
  std::vector<std::weak_ptr<Record>> holds;
  {
    const base::Mutex::Scoped lock{mutex_};
    for (const auto& [number, record] : waiting_) waiting.push_back(record);
    holds.swap(watched_holds_);
  }
  for (const RecordRef& record : waiting) end_wait(record, detail::WaitOutcome::lost);
  for (const auto& weak : holds) {
    if (const RecordRef hold = weak.lock()) fire_lost(hold);
  }
}

}  // namespace tenure::stored
