#include "space/stored/requests.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "space/owners.hpp"
#include "space/stored/txn_part.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"
#include "tenure/shards.hpp"

namespace tenure::stored {

void throw_evicted_request() { throw Evicted("an operator evicted this request while it waited"); }

Requests::Requests(Store& store, Session& session, Hints& hints, const Lifetime& life,
                   Retries& retries, const Blockers& blockers) noexcept
    : store_(store),
      session_(session),
      hints_(hints),
      tickets_(store, hints),
      life_(life),
      retries_(retries),
      blockers_(blockers) {}

Row Requests::new_row() {
  life_.check_open();
  Row row;
  row.session = session_.id();
  if (session_.lost().stop_requested()) Tickets::throw_anchor_lost(row);
  row.request = requests_.fetch_add(1, std::memory_order_relaxed);
  return row;
}

RecordRef Requests::new_record(const detail::Ask& ask) {
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
    record->part = ask.owner->terms.part;
  }
  return record;
}

// Guarded on the held ticket, so that a lost one is not upgraded.
RecordRef Requests::new_upgrade(const detail::Ask& ask, const Record& held) {
  if (held.row.anchored()) {
    throw BadRequest("an anchored hold cannot be upgraded: release it, and lock again");
  }
  if (const auto fault = find_upgrade_fault(held.row.claims, ask.claims)) throw BadRequest(*fault);
  auto record = std::make_shared<Record>();
  record->row = new_row();
  record->row.claims.assign(ask.claims.begin(), ask.claims.end());
  record->row.owner = held.row.owner;
  record->row.label = held.row.label;
  record->row.max_hold = held.row.max_hold;
  record->row.replaces = held.number;
  TxnPart part;
  part.guards.push_back(Guard::present(held.first_key()));
  record->part = std::make_shared<const TxnPart>(std::move(part));
  return record;
}

Tickets::View Requests::first_view(Record& record) {
  if (!record.adopted) return append(record);
  if (!record.found.has_value()) return look_at_own(record);
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it was checked just above.
  return {.found = *std::exchange(record.found, std::nullopt),
          .own = {},
          .anchored = true,
          .at = Revision{record.number.value}};
}

// The view has all that look_back() would return, except the ticket's own entry.
Tickets::View Requests::append(Record& record) {
  record.row.since = store_.now();
  for (;;) {
    Txn txn;
    try {
      if (!tickets_.agree_on_limits(record.row, txn)) continue;
    } catch (const LimitMismatch&) {
      // A repeated request names the limit that it asked with at first.
      if (!adopt_request(record)) throw;
      return look_at_own(record);
    }
    if (record.gate != nullptr) txn.guards.push_back(record.gate->guard);
    if (record.part != nullptr) add_part(*record.part, txn);
    Tickets::Append append{record.row, hints_};
    append.add_to(txn);
    try {
      const Outcome outcome = store_.apply(txn);
      if (outcome.committed) {
        Tickets::Appended made = append.judge(outcome);
        record.number = made.number;
        return {
            .found = std::move(made.found), .own = {}, .anchored = true, .at = outcome.revision};
      }
    } catch (const StoreError& error) {
      if (!error.unknown() || !was_appended(record)) throw;
      return look_at_own(record);
    }
    if (adopt_request(record)) return look_at_own(record);
    explain_refusal(record);
  }
}

void Requests::explain_refusal(const Record& record) const {
  tickets_.explain_refusal(record.row);
  if (record.gate != nullptr) pass(*record.gate);
  if (record.part == nullptr) return;
  try {
    refuse_failed_guards(store_, *record.part);
  } catch (const GuardFailed&) {
    if (record.row.replaces == Token{}) throw;
    throw Evicted("cannot upgrade: the hold was lost");
  }
}

void Requests::pass(const Gate& gate) const {
  Txn txn;
  txn.guards.push_back(gate.guard);
  if (store_.apply(txn).committed) return;
  gate.failed.store(true, std::memory_order_relaxed);
  throw ShardsChanged(
      "the map of this sharded space was changed, so the request was not made: repeat it, and it "
      "goes to the shard that has its paths now");
}

bool Requests::was_appended(Record& record) noexcept {
  try {
    const std::optional<Entry> entry = tickets_.keep_appended(record.row);
    if (!entry.has_value()) return false;
    record.number = number_in(entry->key);
    return true;
  } catch (...) {
    retries_.remove_stray(record.row);
    return false;
  }
}

// Of a ticket whose append was not answered, or that another process appended. It keeps its place
// in the queue.
Tickets::View Requests::look_at_own(const Record& record) {
  Tickets::View view;
  try {
    view = tickets_.look_back(record.row, record.number);
  } catch (...) {
    if (!record.adopted) retries_.apply_later(removal(record), record.row.anchored());
    throw;
  }
  if (!view.anchored) Tickets::throw_anchor_lost(record.row);
  if (!view.own.has_value()) throw_evicted_request();
  return view;
}

bool Requests::adopt_request(Record& record) {
  std::optional<Seen> earlier = tickets_.find_request(record.row);
  if (!earlier.has_value()) return false;
  if (tickets_.overdue(earlier->row)) {
    tickets_.remove(*earlier);
    return false;
  }
  record.number = earlier->number;
  record.row = std::move(earlier->row);
  return true;
}

// ---- Tries ----

std::optional<Requests::Try> Requests::find_obstacle(const Row& row, const ConflictQuery& query,
                                                     ConflictQuery::Extent& extent,
                                                     Txn& txn) const {
  Tickets::Quiet now = tickets_.read_all(query, max_operations - txn.guards.size() - 2);
  const ConflictQuery::Found& found = now.found;
  hints_.learn(found.unseen);
  if (found.blocked()) {
    std::vector<WatchFor> unused;
    if (blockers_.clear_away(found, row.claims, Token{this_apply.value}, unused)) {
      return Try::again;
    }
    tickets_.explain_refusal(row);
    return Try::taken;
  }
  if (!found.free()) {
    if (found.own_only) extent = ConflictQuery::Extent::all;
    return Try::again;
  }
  std::ranges::move(now.guards, std::back_inserter(txn.guards));
  return std::nullopt;
}

bool Requests::available(const Record& record) const {
  if (record.gate != nullptr) pass(*record.gate);
  ConflictQuery::Extent extent = ConflictQuery::Extent::few;
  for (;;) {
    Txn unused;
    if (!tickets_.agree_on_limits(record.row, unused)) continue;
    const Tickets::Append append{record.row, hints_, extent};
    const std::optional<Try> obstacle = find_obstacle(record.row, append.query(), extent, unused);
    if (obstacle != Try::again) return !obstacle.has_value();
  }
}

Requests::Try Requests::try_append(Record& record, ConflictQuery::Extent& extent) {
  Txn txn;
  if (!tickets_.agree_on_limits(record.row, txn)) return Try::again;
  if (record.gate != nullptr) txn.guards.push_back(record.gate->guard);
  if (record.part != nullptr) add_part(*record.part, txn);
  Tickets::Append append{record.row, hints_, extent};
  if (const std::optional<Try> obstacle = find_obstacle(record.row, append.query(), extent, txn)) {
    return *obstacle;
  }
  append.add_to(txn);
  try {
    const Outcome outcome = store_.apply(txn);
    if (outcome.committed) {
      record.number = append.judge(outcome).number;
      return Try::appended;
    }
  } catch (const StoreError& error) {
    if (!error.unknown() || !was_appended(record)) throw;
    return Try::appended;  // Its guards held, so nothing was added in between.
  }
  explain_refusal(record);
  return Try::again;
}

bool Requests::try_append(Record& record) {
  record.row.since = store_.now();
  ConflictQuery::Extent extent = ConflictQuery::Extent::few;
  Try tried = Try::again;
  while (tried == Try::again) {
    if (!adopt_request(record)) {
      tried = try_append(record, extent);
    } else if (tickets_.look_back(record.row, record.number).found.free()) {
      tried = Try::appended;
    } else {
      tried = Try::taken;  // Its ticket waits, as it did before.
    }
  }
  return tried == Try::appended;
}

void Requests::start_deadline(Record& record) {
  for (;;) {
    Txn read;
    read.reads.push_back(Range::key(record.first_key()));
    const Outcome own = store_.apply(read);
    if (own.reads.front().empty()) throw_evicted_request();
    if (tickets_.start_deadline(own.reads.front().front(), record.row.deadline, record.written)) {
      return;
    }
  }
}

}  // namespace tenure::stored
