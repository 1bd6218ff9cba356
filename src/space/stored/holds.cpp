// How a hold begins, and how it is given back: released, dropped or left to another process.
#include "space/stored/holds.hpp"

#include <algorithm>
#include <utility>

#include "space/stored/txn_part.hpp"
#include "tenure/error.hpp"

namespace tenure::stored {

Holds::Holds(Store& store, Session& session, Hints& hints, Lifetime& life, Retries& retries)
    : store_(store),
      session_(session),
      tickets_(store, hints),
      life_(life),
      retries_(retries),
      callers_(std::make_unique<base::ThreadGroup>()),
      timers_(std::make_unique<space::Timers>([&store] { return store.latest_now(); })) {}

void Holds::join() noexcept {
  timers_.reset();
  callers_.reset();
}

void Holds::hold(const RecordRef& record) noexcept {
  record->held = record;
  {
    const base::Mutex::Scoped lock{record->mutex};
    record->deadline = record->row.deadline;
    // Before its grant a ticket is changed only by the write of its own deadline.
    record->seen_at = std::max({record->seen_at, record->written, Revision{record->number.value}});
  }
  life_.hold_begins();
}

// The caller has the only use of the record after this. Its watches end first, so that no notice
// reads it again.
RecordRef Holds::take_back(const detail::Grant& grant) noexcept {
  RecordRef record = std::move(static_cast<Record*>(grant.ticket)->held);
  Watches watches;
  {
    const base::Mutex::Scoped lock{record->mutex};
    ++record->round;
    watches.swap(record->watches);
    record->lost.reset();  // A notice that is under way finds no entry: that is no loss.
    record->asked.reset();
  }
  life_.hold_ends();
  timers_->cancel(record->number.value);
  return record;
}

Txn Holds::removal_as_seen(const Record& record) {
  Txn txn = removal(record);
  const base::Mutex::Scoped lock{record.mutex};
  if (record.perhaps.has_value()) return txn;
  txn.guards = {Guard::unchanged(record.first_key(), record.seen_at)};
  return txn;
}

void Holds::retry_removal(const Record& record) noexcept {
  retries_.apply_later(removal(record), record.row.anchored());
}

bool Holds::release(const detail::Grant& grant) {
  const Lifetime::Departure departure{life_};
  const RecordRef record = take_back(grant);
  const Lifetime::Stay stay{life_};
  life_.leave();
  try {
    resolve_downgrade(record);
    return remove_held(record);
  } catch (...) {
    retry_removal(*record);
    throw;
  }
}

// Nothing is taken back before the commit: whatever is thrown leaves the hold as it was.
bool Holds::release_with(const detail::Grant& grant, const TxnPart& part) {
  const Lifetime::Departure departure{life_};
  const Lifetime::Stay stay{life_};
  const RecordRef record = record_of(grant);
  const Moving moving{*record};  // Until it is taken back: its end is no loss.
  resolve_downgrade(record);
  const bool held = remove_with(record, part);
  static_cast<void>(take_back(grant));
  life_.leave();
  return held;
}

// True: removed, with the part's writes. False: the hold was lost, and is removed without them.
bool Holds::remove_with(const RecordRef& record, const TxnPart& part) {
  Txn own = removal_as_seen(*record);
  for (;;) {
    if (is_over_or_evicted(*record)) {
      store_.apply(removal(*record));
      return false;
    }
    Txn txn = own;
    add_part(part, txn);
    if (store_.apply(txn).committed) return true;
    Txn read;
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_.apply(read);
    if (outcome.reads.front().empty()) return false;
    const Entry& entry = outcome.reads.front().front();
    saw_row(record, parse_row(entry).row.value_or(record->row), entry.changed);
    refuse_failed_guards(store_, part);
    own.guards = {Guard::unchanged(entry.key, entry.changed)};
  }
}

// If another process has written the row since it was last read here, the row is read first: it may
// say that the hold was evicted.
bool Holds::remove_held(const RecordRef& record) {
  const bool over = is_over_or_evicted(*record);
  if (store_.apply(removal_as_seen(*record)).committed) return !over;
  Txn read;
  read.reads.push_back(Range::key(record->first_key()));
  if (!saw_rows(record, store_.apply(read))) return false;
  const bool over_now = is_over_or_evicted(*record);
  return store_.apply(removal(*record)).committed && !over_now;
}

// `own` is a read of the first entry. False: the entry is gone.
bool Holds::saw_rows(const RecordRef& record, const Outcome& own) {
  if (own.reads.front().empty()) return false;
  const Entry& entry = own.reads.front().front();
  const auto parsed = read_row(entry);
  if (!parsed.has_value()) return true;
  if (const auto& row = parsed->row; row.has_value()) saw_row(record, *row, entry.changed);
  return true;
}

void Holds::drop(const detail::Grant& grant) noexcept {
  const Lifetime::Departure departure{life_};
  post_removal(*take_back(grant));
}

void Holds::release_then(const detail::Grant& grant, Released done) noexcept {
  const RecordRef record = take_back(grant);
  const bool over = is_over_or_evicted(*record);
  post(removal_as_seen(*record), [this, record, over, done = std::move(done)](
                                     const Outcome& outcome, const std::exception_ptr& error) {
    if (error != nullptr || outcome.committed) {
      if (error != nullptr) retry_removal(*record);
      done(error, outcome.committed && !over);
    } else {
      remove_changed(record, done);
    }
  });
}

// The rest of remove_held(), by posts.
void Holds::remove_changed(const RecordRef& record, const Released& done) noexcept {
  life_.enter();
  Txn read;
  read.reads.push_back(Range::key(record->first_key()));
  post(std::move(read), [this, record, done](const Outcome& own, const std::exception_ptr& error) {
    if (error != nullptr) retry_removal(*record);
    if (error != nullptr || !saw_rows(record, own)) {
      done(error, false);
      return;
    }
    life_.enter();
    const bool over = is_over_or_evicted(*record);
    post(removal(*record),
         [this, record, over, done](const Outcome& outcome, const std::exception_ptr& failed) {
           if (failed != nullptr) retry_removal(*record);
           done(failed, outcome.committed && !over);
         });
  });
}

void Holds::detach(const detail::Grant& grant) {
  if (!record_of(grant)->row.anchored()) {
    throw BadRequest(
        "detach() called on a hold of this process's session, which cannot outlive "
        "the process: lock with space.anchored(key)");
  }
  const Lifetime::Departure departure{life_};
  static_cast<void>(take_back(grant));
  life_.leave();
}

void Holds::give_up(const RecordRef& record) noexcept {
  if (record->adopted) {
    life_.leave();
    return;
  }
  if (store_.remote()) {
    post_removal(*record);
    return;
  }
  try {
    store_.apply(removal(*record));
  } catch (...) {
    retry_removal(*record);
  }
  life_.leave();
}

void Holds::post_removal(const Record& record) noexcept {
  const Txn txn = removal(record);
  post(txn, [this, txn, anchored = record.row.anchored()](const Outcome& /*outcome*/,
                                                          const std::exception_ptr& error) {
    if (error != nullptr) retries_.apply_later(txn, anchored);
  });
}

// Leaves the space when the store has answered.
void Holds::post(Txn txn, Store::Posted then) noexcept {
  life_.post_begins();
  store_.post(std::move(txn), [this, then = std::move(then)](const Outcome& outcome,
                                                             const std::exception_ptr& error) {
    const Lifetime::InStore in_store;
    then(outcome, error);
    life_.post_ends();
    life_.leave();
  });
}

}  // namespace tenure::stored
