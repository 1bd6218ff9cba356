// Asking: a ticket is appended, and its apply already tells whether it is free.
#include "space/stored/stored_space.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

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
    verdict = settle(record, std::move(view));
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
StoredSpace::Try StoredSpace::try_append(Record& record, Look::Extent& extent) {
  Txn txn;
  if (!tickets().agree_on_limits(record.row, txn)) return Try::again;
  Tickets::Append append{record.row, hints_, extent};
  const Look& before = append.look();
  const Outcome now = tickets().read_all(before);
  const Look::Found found = before.found(now.reads);
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
    if (found.own_only) extent = Look::Extent::all;
    return Try::again;
  }
  if (before.ranges().size() + txn.guards.size() < max_operations) {
    for (const Range& range : before.ranges()) {
      txn.guards.push_back(Guard::quiet(range, now.revision));
    }
  } else {  // Too many for one apply: then nothing at all may have come in between.
    txn.guards.push_back(Guard::quiet(rows_range(), now.revision));
  }
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
  Look::Extent extent = Look::Extent::few;
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

// Only the youngest of a circle can have closed it, so later tickets are not looked at.
void StoredSpace::refuse_deadlock(const Row& /*row*/, Token number) {
  for (;;) {
    Snapshot all = snapshot();
    remove_overdue(all);
    std::vector<Ticket> earlier;
    for (const Seen& seen : all.tickets) {
      if (seen.number > number) continue;
      earlier.push_back(
          {.number = seen.number, .claims = seen.row.claims, .owner = seen.row.owner});
    }
    const std::vector<Wait> cycle = find_cycle(earlier, number);
    if (cycle.empty()) return;
    bool removed = false;
    for (const Seen& seen : all.tickets) {
      const bool in_cycle = std::ranges::any_of(cycle, [&seen](const Wait& wait) {
        return wait.waiting == seen.number || wait.blocker == seen.number;
      });
      if (in_cycle && !tickets().alive(seen.row)) {
        tickets().remove_dead(seen);
        removed = true;
      }
    }
    if (removed) continue;
    throw Deadlock("deadlock: " + describe_cycle(cycle, earlier) +
                   "; release the held lock first, or claim both paths in one request");
  }
}

}  // namespace tenure::stored
