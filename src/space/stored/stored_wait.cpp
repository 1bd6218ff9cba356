// Waiting: look back, clear away what is dead, watch what is not, and look again.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <utility>

#include "space/stored/stored_space.hpp"
#include "tenure/detail/saturating.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {
namespace {

using namespace std::chrono_literals;

// How soon a look that failed is tried again.
constexpr auto look_retry_time = 200ms;
// How often the grant of somebody who does not start its own max_hold is looked for.
constexpr std::chrono::nanoseconds slow_check = 1s;

}  // namespace

// One look, in as many steps as it takes (look.hpp). The last one has the ticket's own entry in it.
StoredSpace::View StoredSpace::look_once(const Look& look, const std::string& own_key) {
  View view;
  std::vector<std::vector<Entry>> reads;
  do {
    Txn txn;
    txn.guards.push_back(session_->guard());
    txn.reads = look.next(reads.size(), max_operations);
    txn.reads.push_back(Range::key(own_key));
    Outcome outcome = store_->apply(txn);
    view.session = outcome.committed;
    view.at = outcome.revision;
    view.own.reset();
    if (!outcome.reads.back().empty()) view.own = std::move(outcome.reads.back().front());
    outcome.reads.pop_back();
    std::ranges::move(outcome.reads, std::back_inserter(reads));
    view.found = look.found(reads);
  } while (view.found.partial && !view.found.blocked() && view.session && view.own.has_value());
  return view;
}

// Unless the ticket is gone, it is blocked or free.
StoredSpace::View StoredSpace::look_back(std::span<const Claim> claims, Token number) {
  Look::Extent extent = Look::Extent::few;
  for (;;) {
    const Look look{claims, seen_regions(), Revision{number.value}, floors_, extent};
    View view = look_once(look, row_key(claims.front(), number));
    learn(view.found.unseen);
    if (view.found.own_only) extent = Look::Extent::all;
    if (!view.session || !view.own.has_value() || view.found.blocked()) return view;
    if (!view.found.free()) continue;
    look.raise(floors_, Revision{number.value});
    return view;
  }
}

StoredSpace::Verdict StoredSpace::settle(const RecordRef& record, View view) {
  for (;; view = look_back(record->row.claims, record->number)) {
    if (!view.session || session_->lost().stop_requested()) return Verdict::session_lost;
    if (!view.own.has_value()) return Verdict::gone;
    if (view.found.free()) {
      if (record->row.max_hold.count() == 0) return Verdict::granted;
      if (start_deadline(*view.own, record->row.deadline)) return Verdict::granted;
      continue;
    }
    if (!view.found.blocked()) continue;  // The append's own look did not see all.
    std::vector<WatchFor> what;
    if (clear_away_any(view.found, record->row.claims, record->number, what)) continue;
    for (WatchFor& one : what) one.after = view.at;
    what.front().ranges.push_back(Range::key(view.own->key));
    watch_for(record, std::move(what));
    return Verdict::waiting;
  }
}

bool StoredSpace::clear_away_any(const Look::Found& found, std::span<const Claim> claims,
                                 Token number, std::vector<WatchFor>& otherwise) {
  bool cleared = false;
  for (const Entry& blocker : found.blockers) {
    cleared = clear_away(blocker, otherwise.emplace_back()) || cleared;
  }
  for (const Claim& claim : claims) {
    if (std::ranges::find(found.crowds, line_of(claim)) == found.crowds.end()) continue;
    cleared = clear_away_crowd(claim, number, otherwise) || cleared;
  }
  return cleared;
}

// True: it is gone, or was dead or overdue and is gone now. False: what to watch until it is.
bool StoredSpace::clear_away(const Entry& blocker, WatchFor& otherwise) {
  std::optional<Seen> seen = resolve(blocker);
  if (!seen.has_value()) return true;
  if (!store_->alive(seen->row.session)) {
    remove_ticket(*seen);
    const base::Mutex::Scoped lock{mutex_};
    dead_.push_back(seen->row.session);
    return true;
  }
  otherwise.until = deadline_of(*seen);
  if (overdue(seen->row)) {
    remove_ticket(*seen);
    return true;
  }
  otherwise.session = seen->row.session;
  otherwise.ranges.push_back(Range::key(blocker.key));
  if (seen->entry.key != blocker.key) otherwise.ranges.push_back(Range::key(seen->entry.key));
  return false;
}

// Too many to watch one by one: the whole of them, and each session once.
bool StoredSpace::clear_away_crowd(const Claim& claim, Token number,
                                   std::vector<WatchFor>& otherwise) {
  Txn txn;
  Range members = Range::prefix(line_of(claim));
  members.to = members.from + stamp(Revision{number.value});
  txn.reads.push_back(members);
  const Outcome outcome = store_->apply(txn);
  std::map<std::string, WatchFor> sessions;
  for (const Entry& entry : outcome.reads.front()) {
    WatchFor watch;
    if (clear_away(entry, watch)) return true;
    WatchFor& one = sessions[watch.session];
    one.session = watch.session;
    if (watch.until.has_value())
      one.until = std::min(one.until.value_or(*watch.until), *watch.until);
  }
  WatchFor all;
  all.ranges.push_back(std::move(members));
  otherwise.push_back(std::move(all));
  for (auto& [session, watch] : sessions) otherwise.push_back(std::move(watch));
  return false;
}

// When to look at it again for its deadline's sake. It begins at the grant; a holder that was
// stopped before it could write that has it written by those who wait.
std::optional<Instant> StoredSpace::deadline_of(Seen& ticket) {
  if (ticket.row.deadline.has_value() || ticket.row.max_hold.count() == 0) {
    return ticket.row.deadline;
  }
  const View view = look_back(ticket.row.claims, ticket.number);
  if (view.found.free() && view.own.has_value()) {
    start_deadline(*view.own, ticket.row.deadline);
    if (ticket.row.deadline.has_value()) return ticket.row.deadline;
  }
  return detail::saturating_add(store_->now(), std::max(slow_check, ticket.row.max_hold / 2));
}

// False: the entry has changed, look again. What is written is that entry and a deadline, never a
// row that was read before: a downgrade or an eviction may have come since.
bool StoredSpace::start_deadline(const Entry& entry, std::optional<Instant>& deadline) {
  Parsed parsed = parse_row(entry);
  if (!parsed.row.has_value()) return false;  // A downgrade put another claim first.
  Row& row = *parsed.row;
  if (!row.deadline.has_value()) {
    row.deadline = detail::saturating_add(store_->now(), row.max_hold);
    Txn txn;
    txn.guards.push_back(Guard::unchanged(entry.key, entry.changed));
    txn.writes.push_back(Write::put(entry.key, row.text()));
    if (!store_->apply(txn).committed) return false;
  }
  deadline = row.deadline;
  return true;
}

void StoredSpace::watch_for(const RecordRef& record, std::vector<WatchFor> what) {
  Watches old;
  std::uint64_t round = 0;
  {
    const base::Mutex::Scoped lock{mutex_};
    round = ++record->round;
    old.swap(record->watches);
  }
  old.clear();
  Watches made;
  for (WatchFor& one : what) {
    made.push_back(store_->watch(std::move(one),
                                 [this, number = record->number.value] { on_notice(number); }));
  }
  const base::Mutex::Scoped lock{mutex_};
  // A notice may have come already, and begun a round of its own, or ended the wait.
  if (record->round == round && waiting_.contains(record->number.value)) {
    record->watches.swap(made);
  }
}

void StoredSpace::on_notice(std::uint64_t number) noexcept {
  RecordRef record;
  {
    const base::Mutex::Scoped lock{mutex_};
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;
    record = found->second;
  }
  const InStore in_store;
  const Stay stay{*this};
  try {
    switch (settle(record)) {
      case Verdict::waiting: break;
      case Verdict::granted: end_wait(record, detail::WaitOutcome::granted); break;
      case Verdict::gone: end_wait(record, detail::WaitOutcome::evicted); break;
      case Verdict::session_lost: end_wait(record, detail::WaitOutcome::lost); break;
    }
    sweep_dead();
  } catch (...) {
    look_again_soon(record);
  }
}

// The store can't be read now: nothing is decided, and it is asked again.
void StoredSpace::look_again_soon(const RecordRef& record) noexcept {
  try {
    WatchFor soon;
    soon.until = detail::saturating_add(store_->latest_now(), look_retry_time);
    watch_for(record, {std::move(soon)});
  } catch (...) {
    end_wait(record, detail::WaitOutcome::lost);  // Nobody could tell it any more.
    retry_later(removal(*record));
  }
}

detail::Waiter* StoredSpace::take(const RecordRef& record) noexcept {
  Watches watches;
  const base::Mutex::Scoped lock{mutex_};
  const auto found = waiting_.find(record->number.value);
  // A cancellation that has won takes it out itself; until then the waiter is there.
  if (found == waiting_.end() || !record->waiter->decide()) return nullptr;
  waiting_.erase(found);
  ++record->round;
  watches.swap(record->watches);
  return record->waiter;
}

void StoredSpace::end_wait(const RecordRef& record, detail::WaitOutcome outcome) noexcept {
  detail::Waiter* const waiter = take(record);
  if (waiter == nullptr) return;
  if (outcome == detail::WaitOutcome::granted) hold(record);
  tell(*waiter, outcome);
  if (outcome != detail::WaitOutcome::granted) leave();
}

void StoredSpace::tell(detail::Waiter& waiter, detail::WaitOutcome outcome) noexcept {
  if (waiter.runs_code) {
    try {
      runner_->run([this, &waiter, outcome] {
        const Working working{this};
        waiter.done(waiter, outcome);
      });
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // No thread to be had: then here.
    }
  }
  waiter.done(waiter, outcome);
}

}  // namespace tenure::stored
