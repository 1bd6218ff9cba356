// Waiting: look back, clear away what is dead, watch what is not, and look again.
#include <algorithm>
#include <chrono>
#include <exception>
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

// NOLINTNEXTLINE(readability-function-cognitive-complexity): one case after the other.
StoredSpace::Verdict StoredSpace::try_grant(const RecordRef& record, View view) {
  for (;; view = tickets().look_back(record->row, record->number)) {
    if (!view.anchored) return Verdict::anchor_lost;
    if (!record->row.anchored() && session_->lost().stop_requested()) return Verdict::anchor_lost;
    if (!view.own.has_value()) return Verdict::gone;
    if (view.found.free()) {
      if (record->row.max_hold.count() == 0) return Verdict::granted;
      if (tickets().start_deadline(*view.own, record->row.deadline, record->written)) {
        return Verdict::granted;
      }
      continue;
    }
    if (!view.found.blocked()) continue;  // The append's own look did not see all.
    std::vector<WatchFor> what;
    if (clear_away_any(view.found, record->row.claims, record->number, what)) continue;
    // The first is of a blocker: most have nothing but that.
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

bool StoredSpace::clear_away_any(const ConflictQuery::Found& found, std::span<const Claim> claims,
                                 Token number, std::vector<WatchFor>& otherwise) {
  bool cleared = false;
  for (const Entry& blocker : found.blockers) {
    cleared = clear_away(blocker, otherwise) || cleared;
  }
  for (const Claim& claim : claims) {
    if (std::ranges::find(found.crowds, line_of(claim)) == found.crowds.end()) continue;
    cleared = clear_away_crowd(claim, number, otherwise) || cleared;
  }
  return cleared;
}

// True: it is gone, or was dead or overdue and is gone now. False: what to watch until it is. The
// watch of what is not in the look, an anchor key or the entry of another claim, begins where that
// was seen; the others begin where the look was.
bool StoredSpace::clear_away(const Entry& blocker, std::vector<WatchFor>& otherwise) {
  std::optional<Seen> seen = tickets().resolve(blocker);
  if (!seen.has_value()) return true;
  const Row& row = seen->row;
  WatchFor anchor;
  if (row.anchored()) {
    Txn read;
    read.reads.push_back(Range::key(row.anchor));
    const Outcome outcome = store_->apply(read);
    if (outcome.reads.front().empty()) {
      tickets().remove_dead(*seen);
      return true;
    }
    anchor.ranges = std::move(read.reads);
    anchor.after = outcome.revision;
  } else if (!store_->alive(row.session)) {
    tickets().remove_dead(*seen);
    const base::Mutex::Scoped lock{mutex_};
    dead_.push_back(row.session);
    return true;
  }
  WatchFor watch;
  watch.until = deadline_of(*seen);
  if (tickets().overdue(row)) {
    tickets().remove(*seen);
    return true;
  }
  watch.ranges.push_back(Range::key(blocker.key));
  if (seen->entry.key != blocker.key) {  // Of another root, perhaps.
    watch.ranges.push_back(Range::key(seen->entry.key));
    watch.after = seen->at;
  }
  if (row.anchored()) {
    otherwise.push_back(std::move(watch));
    otherwise.push_back(std::move(anchor));
  } else {
    watch.session = row.session;
    otherwise.push_back(std::move(watch));
  }
  return false;
}

// Too many to watch one by one: the whole of them, and each session and each anchor key once.
bool StoredSpace::clear_away_crowd(const Claim& claim, Token number,
                                   std::vector<WatchFor>& otherwise) {
  Txn txn;
  Range members = Range::prefix(line_of(claim));
  members.to = members.from + stamp(Revision{number.value});
  txn.reads.push_back(members);
  const Outcome outcome = store_->apply(txn);
  std::map<std::string, WatchFor> lives;  // By session, or by anchor key.
  std::optional<Instant> until;
  for (const Entry& entry : outcome.reads.front()) {
    std::vector<WatchFor> watches;
    if (clear_away(entry, watches)) return true;
    const WatchFor& ticket = watches.front();
    if (ticket.until.has_value()) until = std::min(until.value_or(*ticket.until), *ticket.until);
    if (watches.size() > 1) {
      WatchFor& anchor = watches.back();
      lives.try_emplace(anchor.ranges.front().from, std::move(anchor));
    } else {
      lives[ticket.session].session = ticket.session;
    }
  }
  WatchFor all;
  all.ranges.push_back(std::move(members));
  all.until = until;
  otherwise.push_back(std::move(all));
  for (auto& [life, watch] : lives) otherwise.push_back(std::move(watch));
  return false;
}

// When to look at it again for its deadline's sake. It begins at the grant; a holder that was
// stopped before it could write that has it written by those who wait.
std::optional<Instant> StoredSpace::deadline_of(Seen& ticket) {
  if (ticket.row.deadline.has_value() || ticket.row.max_hold.count() == 0) {
    return ticket.row.deadline;
  }
  const View view = tickets().look_back(ticket.row, ticket.number);
  if (view.found.free() && view.own.has_value()) {
    Revision written;
    tickets().start_deadline(*view.own, ticket.row.deadline, written);
    if (ticket.row.deadline.has_value()) return ticket.row.deadline;
  }
  return detail::saturating_add(store_->now(), std::max(slow_check, ticket.row.max_hold / 2));
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
    switch (try_grant(record)) {
      case Verdict::waiting: break;
      case Verdict::granted: end_wait(record, detail::WaitOutcome::granted); break;
      case Verdict::gone: end_wait(record, detail::WaitOutcome::evicted); break;
      case Verdict::anchor_lost: end_lost_wait(record); break;
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
    // Nobody could tell it any more.
    if (record->row.anchored()) {
      end_wait(record, detail::WaitOutcome::failed, std::current_exception());
    } else {
      end_wait(record, detail::WaitOutcome::lost);
    }
    if (!record->adopted) retry_later(removal(*record), record->row.anchored());
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

void StoredSpace::end_lost_wait(const RecordRef& record) noexcept {
  try {
    if (record->row.anchored()) Tickets::throw_anchor_lost(record->row);
    end_wait(record, detail::WaitOutcome::lost);
  } catch (...) {
    end_wait(record, detail::WaitOutcome::failed, std::current_exception());
  }
}

void StoredSpace::end_wait(const RecordRef& record, detail::WaitOutcome outcome,
                           std::exception_ptr error) noexcept {
  detail::Waiter* const waiter = take(record);
  if (waiter == nullptr) return;
  waiter->error = std::move(error);
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
