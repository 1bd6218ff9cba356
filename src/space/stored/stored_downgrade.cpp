// How a hold gives a part of its claims back, and what becomes of that when the answer gets lost.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "space/stored/stored_space.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

[[noreturn]] void throw_lost() { throw Evicted("cannot downgrade: the hold was lost"); }

}  // namespace

// Between the commit that moves a ticket's entry and the record that knows of it, who looks for the
// entry at its old key must not take the hold for lost.
class StoredSpace::Moving {
 public:
  Moving(StoredSpace& space, Record& record) : space_(space), record_(record) { set(true); }
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;
  ~Moving() { set(false); }

 private:
  void set(bool moving) {
    const base::Mutex::Scoped lock{space_.mutex_};
    record_.moving = moving;
  }
  StoredSpace& space_;
  Record& record_;
};

void StoredSpace::downgrade(detail::Grant& grant, std::span<const Claim> claims) {
  check_open_for_hold();
  const RecordRef record = static_cast<Record*>(grant.ticket)->held;
  const Moving moving{*this, *record};
  resolve_downgrade(record);
  if (const auto fault = find_downgrade_fault(record->row.claims, claims)) throw BadRequest(*fault);
  while (!narrow(record, claims)) {
  }
}

// False: others changed something meanwhile, and it has to be tried again.
bool StoredSpace::narrow(const RecordRef& record, std::span<const Claim> claims) {
  Txn txn;
  if (!tickets().agree_on_limits(record->row, claims, record->number, txn)) return false;
  const std::string old_key = record->first_key();
  Txn read;
  read.reads.push_back(Range::key(old_key));
  const Outcome own = store_->apply(read);
  if (own.reads.front().empty()) throw_lost();
  const Entry& entry = own.reads.front().front();
  const Seen seen{
      .entry = entry, .row = parse_row(entry).row.value_or(record->row), .number = record->number};
  saw_row(record, seen.row, entry.changed);
  if (is_over(*record)) {
    tickets().remove(seen);
    throw_lost();
  }
  if (seen.row.evicted) throw_lost();
  const Row row = Tickets::add_downgrade(seen, claims, txn);
  try {
    if (const Outcome outcome = store_->apply(txn); outcome.committed) {
      const base::Mutex::Scoped lock{mutex_};
      record->row = row;
      record->seen_at = std::max(record->seen_at, outcome.revision);
      return true;
    }
  } catch (const StoreError& error) {
    if (!error.unknown()) throw;
    {
      const base::Mutex::Scoped lock{mutex_};
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
  tickets().explain_refusal(record->row, claims, record->number);
  return false;
}

// Finds out whether a downgrade whose answer was lost was made. Where it was not, the entry is
// written again: the guard of the downgrade fails then, should it still be on its way. True: made.
bool StoredSpace::resolve_downgrade(const RecordRef& record) {
  while (const std::optional<Row> narrowed = record->perhaps) {
    Txn read;
    read.reads.push_back(Range::key(row_key(narrowed->claims.front(), record->number)));
    read.reads.push_back(Range::key(record->first_key()));
    const Outcome outcome = store_->apply(read);
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
      if (!store_->apply(again).committed) continue;
    }
    const base::Mutex::Scoped lock{mutex_};
    if (made) record->row = *narrowed;
    record->perhaps.reset();
    return made;
  }
  return false;
}

}  // namespace tenure::stored
