// How a hold gives a part of its claims back, and what becomes of a downgrade whose answer is lost.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "space/stored/holds.hpp"
#include "space/stored/txn_part.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

[[noreturn]] void throw_lost() { throw Evicted("cannot downgrade: the hold was lost"); }

}  // namespace

void Holds::downgrade(const detail::Grant& grant, std::span<const Claim> claims,
                      const TxnPart* part) {
  const RecordRef record = record_of(grant);
  const Moving moving{*record};
  resolve_downgrade(record);
  while (!narrow(record, claims, part)) {
  }
}

// False: another process changed the row meanwhile; try again.
bool Holds::narrow(const RecordRef& record, std::span<const Claim> claims, const TxnPart* part) {
  Txn read;
  read.reads.push_back(Range::key(record->first_key()));
  const Outcome own = store_.apply(read);
  if (own.reads.front().empty()) {
    if (const auto fault = find_downgrade_fault(record->row.claims, claims)) {
      throw BadRequest(*fault);
    }
    throw_lost();
  }
  const Entry& entry = own.reads.front().front();
  const Seen seen{
      .entry = entry, .row = parse_row(entry).row.value_or(record->row), .number = record->number};
  saw_row(record, seen.row, entry.changed);
  saw_limits(record, entry);
  if (const auto fault = find_downgrade_fault(seen.row.claims, claims)) throw BadRequest(*fault);
  if (is_over(*record)) {
    tickets_.remove(seen);
    throw_lost();
  }
  if (seen.row.evicted) throw_lost();
  Txn txn;
  if (!tickets_.agree_on_limits(seen.row, claims, record->number, txn)) return false;
  const Row row = Tickets::add_downgrade(seen, claims, txn);
  if (part != nullptr) add_part(*part, txn);
  try {
    if (const Outcome outcome = store_.apply(txn); outcome.committed) {
      const base::Mutex::Scoped lock{record->mutex};
      record->narrow_to(row);
      record->seen_at = std::max(record->seen_at, outcome.revision);
      return true;
    }
  } catch (const StoreError& error) {
    if (!error.unknown()) throw;
    {
      const base::Mutex::Scoped lock{record->mutex};
      record->perhaps = row;
    }
    bool made = false;
    try {
      made = resolve_downgrade(record);
    } catch (...) {
      throw error;  // NOLINT(misc-throw-by-value-catch-by-reference): a copy of the first one.
    }
    if (made) return true;
    throw StoreError(std::string{"the downgrade was not made: "} + error.what());
  }
  tickets_.explain_refusal(record->row, claims, record->number);
  if (part != nullptr) refuse_failed_guards(store_, *part);
  return false;
}

// Finds out whether a downgrade whose answer was lost was made. If it was not, its entry is written
// again, so that the guard of the downgrade fails if it is still on its way. True: it was made.
bool Holds::resolve_downgrade(const RecordRef& record) {
  const auto perhaps = [&record] {
    const base::Mutex::Scoped lock{record->mutex};
    return record->perhaps;
  };
  while (const std::optional<Row> narrowed = perhaps()) {
    Txn read;
    read.reads.push_back(Range::key(row_key(narrowed->claims.front(), record->number)));
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_.apply(read);
    const auto row_in = [](const std::vector<Entry>& found) {
      return found.empty() ? std::nullopt : parse_row(found.front()).row;
    };
    const std::optional<Row> now = row_in(outcome.reads.front());
    const bool made = now.has_value() && now->claims == narrowed->claims;
    if (!made && row_in(outcome.reads.back()).has_value()) {
      const Entry& entry = outcome.reads.back().front();
      Txn again;
      again.guards.push_back(Guard::unchanged(entry.key, entry.changed));
      again.writes.push_back(Write::put(entry.key, entry.value));
      if (!store_.apply(again).committed) continue;
    }
    const base::Mutex::Scoped lock{record->mutex};
    if (made) record->narrow_to(*narrowed);
    record->perhaps.reset();
    return made;
  }
  return false;
}

}  // namespace tenure::stored
