// record.hpp: a ticket of this process, as its stored space knows it, from the request to the
// release.
//
//   field                     | changed by                                 | read by
//   --------------------------+--------------------------------------------+---------------------
//   claims, max_hold and      | until the grant: the thread that judges    | that thread; others
//   deadline in `row`         | the ticket. Then calls on the Hold, which  | with `mutex` locked
//                             | one thread makes at a time, with `mutex`   |
//                             | locked                                     |
//   `number`, rest of `row`   | the thread that appends, before others can | any thread
//                             | see the record; constant after that        |
//   guarded fields            | any thread, with `mutex` locked            | the same
//
// Mutex: no other mutex is locked, and no store is called, with `mutex` locked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "space/stored/conflict_query.hpp"
#include "space/stored/keys.hpp"
#include "space/stored/row.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

using Watches = std::vector<std::unique_ptr<Watch>>;

class StoredSpace;

// A condition on the whole space that every request which is made through it contains, beside the
// caller's own (src/space/sharded). `failed` is set, and the request throws ShardsChanged, when a
// transaction finds that it does not hold.
struct Gate {
  explicit Gate(Guard condition) : guard(std::move(condition)) {}
  const Guard guard;
  mutable std::atomic<bool> failed = false;
};
using GateRef = std::shared_ptr<const Gate>;

struct Record {
  StoredSpace* space = nullptr;  // That has it.
  GateRef gate;                  // Null: none.
  Row row;                       // As it was appended or downgraded.
  Token number;
  Revision written;                     // The revision that wrote row.deadline.
  std::shared_ptr<const TxnPart> part;  // The caller's, for the transaction of the append.
  detail::Waiter* waiter = nullptr;
  bool only_try = false;  // Not queued: granted at once, or not appended.
  bool adopted = false;   // It was appended before its wait, and stays when the wait ends.
  std::optional<ConflictQuery::Found> found;  // Of an adopted ticket: what its append found.
  std::shared_ptr<Record> held;               // Itself, while a Hold has it.

  mutable base::Mutex mutex;
  // A downgrade whose answer was lost: the row that it may have written.
  std::optional<Row> perhaps TENURE_GUARDED_BY(mutex);
  // Watches of a hold. A thread that makes new ones begins a round, and keeps them here only if no
  // other thread has begun a later round meanwhile.
  std::uint64_t round TENURE_GUARDED_BY(mutex) = 0;
  Watches watches TENURE_GUARDED_BY(mutex);
  bool watched TENURE_GUARDED_BY(mutex) = false;                   // The first round has begun.
  std::optional<std::stop_source> lost TENURE_GUARDED_BY(mutex);   // After the first lost().
  std::optional<std::stop_source> asked TENURE_GUARDED_BY(mutex);  // … asked_to_leave().
  bool is_asked TENURE_GUARDED_BY(mutex) = false;                  // A row that says so was read.
  bool is_lost TENURE_GUARDED_BY(mutex) = false;                   // lost() fires or has fired.
  std::optional<Instant> deadline TENURE_GUARDED_BY(mutex);        // The newest that was read,
  Revision seen_at TENURE_GUARDED_BY(mutex);      // and the revision that wrote it.
  bool evicted TENURE_GUARDED_BY(mutex) = false;  // A row that says so was read.
  bool moving TENURE_GUARDED_BY(mutex) = false;   // A downgrade moves it from one key to another.

  // Requires `mutex`, except on the thread that may change the claims.
  [[nodiscard]] std::string first_key() const { return row_key(row.claims.front(), number); }
  // The limits of its claims as another process has changed them.
  void take_limits(const Row& changed) TENURE_REQUIRES(mutex) {
    row.claims = changed.claims;
    row.kept = changed.kept;
  }
  // What a downgrade changes; the rest of the row stays the same object for readers.
  void narrow_to(const Row& narrowed) TENURE_REQUIRES(mutex) {
    row.claims = narrowed.claims;
    row.kept = narrowed.kept;
    row.number = narrowed.number;
    row.deadline = narrowed.deadline;
    row.evicted = narrowed.evicted;
  }
};
using RecordRef = std::shared_ptr<Record>;

// Removes the ticket. After a downgrade whose answer was lost it removes whichever entries exist,
// without a guard; otherwise it is guarded on the first entry.
[[nodiscard]] Txn removal(const Record& record);

}  // namespace tenure::stored
