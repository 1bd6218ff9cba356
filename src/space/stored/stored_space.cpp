// Asking: a ticket is appended, and its apply already tells whether it is free.
#include "space/stored/stored_space.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <thread>
#include <utility>

#include "space/stored/reachable.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

// How long a request lets others of a deadlock give way.
constexpr std::chrono::milliseconds max_deference{256};

[[noreturn]] void throw_evicted() {
  throw Evicted("an operator evicted this request while it waited");
}

// Of an empty one there is nothing to say: there is none.
void check_anchor(std::string_view key) {
  if (key.size() > max_anchor) {
    throw BadRequest("the anchor key has " + std::to_string(key.size()) + " bytes: use at most " +
                     std::to_string(max_anchor));
  }
  if (!key.empty() && key.front() <= reserved::request_ids.front()) {
    throw BadRequest("the anchor key '" + Path::of(key).text() +
                     "' is one that Tenure keeps tickets and sessions at: use a key of your own");
  }
}

}  // namespace

StoredSpace::StoredSpace(std::shared_ptr<Store> store, const SessionOptions& options)
    : store_(std::move(store)),
      session_(store_->open_session(options)),
      fork_generation_(base::fork_generation()) {
  timers_ = std::make_unique<Timers>([this] { return store_->latest_now(); });
  on_lost_.emplace(session_->lost(), [this] { on_session_lost(); });
  sweep_dead();
}

StoredSpace::~StoredSpace() = default;

void StoredSpace::check_open() const {
  if (forked()) {
    throw Error(
        "this space was opened before fork() and belongs to the parent process: open it after "
        "fork(), in the process that uses it");
  }
  if (closed_.load(std::memory_order_acquire)) throw Closed("this space is closed: open it again");
}

detail::OwnerRef StoredSpace::owner(const Owner& owner) {
  auto state = std::make_shared<detail::OwnerState>();
  state->owner = owner;
  return state;
}

detail::OwnerRef StoredSpace::on_terms(const detail::OwnerRef& owner, const detail::Terms& terms) {
  check_anchor(terms.anchor);
  auto state = std::make_shared<detail::OwnerState>();
  if (owner != nullptr) {
    state->owner = owner->owner;
    state->terms = owner->terms;
  }
  if (terms.max_hold.count() != 0) state->terms.max_hold = terms.max_hold;
  if (!terms.label.empty()) state->terms.label = terms.label;
  if (!terms.anchor.empty()) state->terms.anchor = terms.anchor;
  if (terms.request_id.has_value()) {
    state->terms.request_id = terms.request_id;
    if (state->terms.anchor.empty()) {
      throw BadRequest(
          "a request id needs an anchor, since a session never repeats a request: call "
          "anchored(key) first");
    }
  }
  return state;
}

Row StoredSpace::new_row() {
  check_open();
  Row row;
  row.session = session_->id();
  if (session_->lost().stop_requested()) Tickets::throw_anchor_lost(row);
  row.request = requests_.fetch_add(1, std::memory_order_relaxed);
  return row;
}

StoredSpace::RecordRef StoredSpace::new_record(const detail::Ask& ask) {
  auto record = std::make_shared<Record>();
  record->row = new_row();
  if (const auto fault = find_fault(ask.claims)) throw BadRequest(*fault);
  record->row.claims.assign(ask.claims.begin(), ask.claims.end());
  if (ask.owner != nullptr) {
    record->row.owner = ask.owner->owner;
    record->row.label = ask.owner->terms.label;
    record->row.max_hold = ask.owner->terms.max_hold;
    record->row.anchor = ask.owner->terms.anchor;
    record->row.id = ask.owner->terms.request_id;
  }
  return record;
}

// What it sees is as good as a look of its own, but for its own entry.
StoredSpace::View StoredSpace::append(Record& record) {
  record.row.since = store_->now();
  for (;;) {
    Txn txn;
    if (!tickets().agree_on_limits(record.row, txn)) continue;
    Tickets::Append append{record.row, hints_};
    append.add_to(txn);
    try {
      const Outcome outcome = store_->apply(txn);
      if (outcome.committed) {
        Tickets::Appended made = append.judge(outcome);
        record.number = made.number;
        return {
            .found = std::move(made.found), .own = {}, .anchored = true, .at = outcome.revision};
      }
    } catch (const StoreError& error) {
      if (!error.unknown() || !was_taken(record)) throw;
      return look_at_own(record);
    }
    if (adopt_request(record)) return look_at_own(record);
    tickets().explain_refusal(record.row);
  }
}

// The store does not know whether it took the ticket. Its number is not known either, but which
// request of this session it was. While that can't be read, it is tried again: a ticket that nobody
// knows of would stand in everybody's way for as long as this process lives.
bool StoredSpace::was_taken(Record& record) noexcept {
  try {
    const std::optional<Entry> entry = tickets().keep_appended(record.row);
    if (!entry.has_value()) return false;
    record.number = number_in(entry->key);
    return true;
  } catch (...) {
    {
      const base::Mutex::Scoped lock{mutex_};
      strays_.push_back(record.row);
    }
    start_retrying();
    return false;
  }
}

void StoredSpace::remove_stray(const Row& row) {
  const std::optional<Entry> entry = tickets().find_appended(row);
  if (!entry.has_value()) return;
  Record stray;
  stray.row = row;
  stray.number = number_in(entry->key);
  retry_later(removal(stray), row.anchored());
}

// A ticket that was taken without a word keeps its place.
StoredSpace::View StoredSpace::look_at_own(const Record& record) {
  View view;
  try {
    view = tickets().look_back(record.row, record.number);
  } catch (...) {
    if (!record.adopted) retry_later(removal(record), record.row.anchored());
    throw;
  }
  if (!view.anchored) Tickets::throw_anchor_lost(record.row);
  if (!view.own.has_value()) throw_evicted();
  return view;
}

bool StoredSpace::request(const detail::Ask& ask, detail::Waiter& waiter) {
  const Stay stay{*this};  // The Space may go as soon as the request can be seen.
  return ask_somewhere(new_record(ask), waiter);
}

bool StoredSpace::ask_somewhere(const RecordRef& record, detail::Waiter& waiter) {
  if (waiter.caller == detail::Caller::waits || !store_->remote()) return ask(record, waiter);
  ask_in_background(record, waiter);
  return false;
}

bool StoredSpace::ask(const RecordRef& record, detail::Waiter& waiter) {
  View view = first_view(*record);
  enter();
  waiter.grant = {.ticket = record.get(), .token = record->number};
  if (view.found.free() && record->row.max_hold.count() == 0) {
    hold(record);
    return true;
  }
  record->waiter = &waiter;
  bool added = false;
  {
    const base::Mutex::Scoped lock{mutex_};
    added = waiting_.emplace(record->number.value, record).second;
  }
  if (!added) {
    leave();
    throw_waited_for(*record);
  }
  return wait_in_line(record, std::move(view));
}

// It is in waiting_. True: granted. False: somebody else ends the wait, or has done so.
bool StoredSpace::wait_in_line(const RecordRef& record, View view) {
  Verdict verdict = Verdict::waiting;
  try {
    check_open();
    if (!view.own.has_value()) {
      view.own = Entry{.key = record->first_key(),
                       .value = record->row.text(),
                       .created = view.at,
                       .changed = view.at};
    }
    // Only an append can close a circle.
    if (!record->adopted && !record->row.owner.anonymous() && !view.found.free()) {
      refuse_deadlock(record->row, record->number);
    }
    verdict = try_grant(record, std::move(view));
  } catch (...) {
    if (take(record) == nullptr) return false;
    give_up(record);
    throw;
  }
  if (verdict == Verdict::waiting || take(record) == nullptr) return false;
  if (verdict == Verdict::granted) {
    hold(record);
    return true;
  }
  leave();
  if (verdict == Verdict::anchor_lost) Tickets::throw_anchor_lost(record->row);
  throw_evicted();
}

void StoredSpace::give_up(const RecordRef& record) noexcept {
  if (record->adopted) {
    leave();
    return;
  }
  if (store_->remote()) {
    post_removal(*record);
    return;
  }
  try {
    store_->apply(removal(*record));
  } catch (...) {
    retry_later(removal(*record), record->row.anchored());
  }
  leave();
}

// A failed try is invisible: it looks first, and appends only if nothing has come in between.
StoredSpace::Try StoredSpace::try_append(Record& record, ConflictQuery::Extent& extent) {
  Txn txn;
  if (!tickets().agree_on_limits(record.row, txn)) return Try::again;
  Tickets::Append append{record.row, hints_, extent};
  const ConflictQuery& before = append.query();
  Tickets::Quiet now = tickets().read_all(before, max_operations - txn.guards.size() - 2);
  const ConflictQuery::Found& found = now.found;
  hints_.learn(found.unseen);
  if (found.blocked()) {
    std::vector<WatchFor> unused;
    if (clear_away_any(found, record.row.claims, Token{this_apply.value}, unused)) {
      return Try::again;
    }
    tickets().explain_refusal(record.row);
    return Try::taken;
  }
  if (!found.free()) {
    if (found.own_only) extent = ConflictQuery::Extent::all;
    return Try::again;
  }
  std::ranges::move(now.guards, std::back_inserter(txn.guards));
  append.add_to(txn);
  try {
    const Outcome outcome = store_->apply(txn);
    if (outcome.committed) {
      record.number = append.judge(outcome).number;
      return Try::appended;
    }
  } catch (const StoreError& error) {
    if (!error.unknown() || !was_taken(record)) throw;
    return Try::appended;  // Then nothing had come in between.
  }
  tickets().explain_refusal(record.row);
  return Try::again;
}

// True: appended.
bool StoredSpace::try_append(Record& record) {
  record.row.since = store_->now();
  ConflictQuery::Extent extent = ConflictQuery::Extent::few;
  Try tried = Try::again;
  while (tried == Try::again) {
    if (!adopt_request(record)) {
      tried = try_append(record, extent);
    } else if (tickets().look_back(record.row, record.number).found.free()) {
      tried = Try::appended;
    } else {
      tried = Try::taken;  // It waits, as it did before.
    }
  }
  return tried == Try::appended;
}

bool StoredSpace::try_request(const detail::Ask& ask, detail::Grant& grant) {
  const Stay stay{*this};
  const RecordRef record = new_record(ask);
  if (!try_append(*record)) return false;
  enter();
  if (record->row.max_hold.count() != 0) {
    try {
      start_own_deadline(*record);
    } catch (...) {
      give_up(record);
      throw;
    }
  }
  hold(record);
  grant = {.ticket = record.get(), .token = record->number};
  return true;
}

void StoredSpace::start_own_deadline(Record& record) {
  for (;;) {
    Txn read;
    read.reads.push_back(Range::key(record.first_key()));
    const Outcome own = store_->apply(read);
    if (own.reads.front().empty()) throw_evicted();
    if (tickets().start_deadline(own.reads.front().front(), record.row.deadline, record.written)) {
      return;
    }
  }
}

// Whoever was appended last sees the whole circle, and should give way. Others may see it too, if
// they look late: who finds a larger number in it lets that one go first, and looks again. That is
// no proof, since numbers of different roots cannot be compared. So who still sees the circle after
// a while removes itself, while all others of it stand: one does.
void StoredSpace::refuse_deadlock(const Row& row, Token number) {
  std::chrono::milliseconds patience{1};
  for (;;) {
    const std::vector<Entry> others = tickets().others_of_owner(row, number);
    if (others.empty()) return;
    Reachable reachable{*store_};
    reachable.add_entries(others);
    if (reachable.remove_dangling()) continue;
    reachable.add_all_from(number, row);
    std::vector<Ticket> live;
    Txn txn;
    for (const auto& [token, seen] : reachable.tickets()) {
      if (tickets().overdue(seen.row) && tickets().remove(seen)) continue;
      live.push_back({.number = token, .claims = seen.row.claims, .owner = seen.row.owner});
      txn.guards.push_back(Guard::present(seen.entry.key));
    }
    const std::vector<Wait> cycle = find_cycle(live, number);
    if (cycle.empty()) return;
    const auto is_later = [number](const Wait& wait) { return wait.waiting > number; };
    if (patience <= max_deference && std::ranges::any_of(cycle, is_later)) {
      std::this_thread::sleep_for(patience);
      patience *= 2;
      continue;
    }
    if (!guard_cycle(cycle, reachable.tickets(), txn)) continue;
    Tickets::add_removal(row, number, txn);
    if (!store_->apply(txn).committed) continue;
    throw Deadlock("deadlock: " + describe_cycle(cycle, live) +
                   "; release the held lock first, or claim both paths in one request");
  }
}

// False: a ticket of the circle was dead, and is gone. All that was looked at is guarded, or else
// what fits: with limits, others than those of the circle may be part of the deadlock.
bool StoredSpace::guard_cycle(std::span<const Wait> cycle, const std::map<Token, Seen>& live,
                              Txn& txn) {
  bool stands = true;
  std::vector<Guard> of_cycle;
  for (const auto& [token, seen] : live) {
    const bool in_cycle = std::ranges::any_of(cycle, [token](const Wait& wait) {
      return wait.waiting == token || wait.blocker == token;
    });
    if (!in_cycle) continue;
    of_cycle.push_back(Guard::present(seen.entry.key));
    if (tickets().alive(seen.row)) continue;
    tickets().remove_dead(seen);
    stands = false;
  }
  if (txn.guards.size() > max_operations) txn.guards = std::move(of_cycle);
  if (txn.guards.size() > max_operations) txn.guards.resize(max_operations);
  return stands;
}

}  // namespace tenure::stored
