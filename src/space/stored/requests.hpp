// requests.hpp: how a request becomes a ticket in the store: an append, a try, or a ticket that is
// there already.
//
//   append      writes the ticket and reads its conflicts in one apply
//   try_append  reads first, and appends only if nothing was added in between: a failed try is
//               invisible
//   adopted     another process, or a transaction of the caller, appended the ticket
//
// The transaction of an append or a try contains the caller's part (Locker::with_txn), if any.
//
// An append whose answer was lost is read back. If that fails too, its ticket is removed as soon as
// the store can be read (Retries).
//
// Thread safety: all calls; one thread at a time uses a record.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "space/stored/blockers.hpp"
#include "space/stored/lifetime.hpp"
#include "space/stored/record.hpp"
#include "space/stored/retries.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/detail/backend.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Requests {
 public:
  Requests(Store& store, Session& session, Hints& hints, const Lifetime& life, Retries& retries,
           const Blockers& blockers) noexcept;
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  ~Requests() = default;

  // A row with a new request number; the caller adds claims and anchor. Throws Closed, SessionLost.
  [[nodiscard]] Row new_row();
  [[nodiscard]] RecordRef new_record(const detail::Ask& ask);
  // The same of an upgrade of `held`: Ask::held.
  [[nodiscard]] RecordRef new_upgrade(const detail::Ask& ask, const Record& held);

  // Appends the ticket, unless it is adopted, and returns its conflicts.
  [[nodiscard]] Tickets::View first_view(Record& record);
  // True: appended, and granted.
  [[nodiscard]] bool try_append(Record& record);
  // Whether try_append() would be granted now; appends nothing.
  [[nodiscard]] bool available(const Record& record) const;
  // Writes the deadline of a ticket that was granted by try_append().
  void start_deadline(Record& record);

 private:
  enum class Try : std::uint8_t { appended, taken, again };
  [[nodiscard]] Tickets::View append(Record& record);
  // Null: nothing is in the way of the append; its guards are in the transaction.
  [[nodiscard]] std::optional<Try> find_obstacle(const Row& row, const ConflictQuery& query,
                                                 ConflictQuery::Extent& extent, Txn& txn) const;
  [[nodiscard]] Try try_append(Record& record, ConflictQuery::Extent& extent);
  // Throws if it finds why the append was not committed; otherwise the append is tried again.
  void explain_refusal(const Record& record) const;
  // Throws ShardsChanged if the gate's condition does not hold.
  void pass(const Gate& gate) const;
  // The ticket of an earlier request with the same id, if there is one.
  bool adopt_request(Record& record);
  // After an append whose outcome is unknown. True: it was made, and its number is known now.
  bool was_appended(Record& record) noexcept;
  [[nodiscard]] Tickets::View look_at_own(const Record& record);

  Store& store_;
  Session& session_;
  Hints& hints_;
  const Tickets tickets_;
  const Lifetime& life_;
  Retries& retries_;
  const Blockers& blockers_;
  std::atomic<std::uint64_t> requests_ = 0;
};

[[noreturn]] void throw_evicted_request();

}  // namespace tenure::stored
