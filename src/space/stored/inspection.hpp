// inspection.hpp: all tickets of a space: listing them, and evicting one as an operator.
//
// Listing removes dead and overdue tickets on the way. The rule says which tickets are granted, and
// what blocks the others.
//
// Thread safety: all calls; it has no state.
#pragma once

#include <cstddef>
#include <vector>

#include "space/stored/rows.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/rule.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket_info.hpp"

namespace tenure::stored {

class Inspection {
 public:
  Inspection(Store& store, Hints& hints) noexcept : store_(store), tickets_(store, hints) {}

  [[nodiscard]] std::vector<TicketInfo> inspect(const Path& path) const;
  // As StoredSpace::inspect_waits().
  [[nodiscard]] std::vector<TicketInfo> inspect_waits(const Owner& owner) const;
  // As Space::evict() and, if `at_once`, Space::evict_now().
  [[nodiscard]] bool evict(Token token, bool at_once) const;
  // As Space::evict_below() and, if `at_once`, Space::evict_below_now().
  [[nodiscard]] std::size_t evict_below(const Path& path, bool at_once) const;
  // As Space::ask_to_leave().
  [[nodiscard]] bool ask_to_leave(Token token) const;
  // As Space::set_limit().
  [[nodiscard]] std::size_t set_limit(const Claim& limit) const;

 private:
  struct Snapshot {
    std::vector<Seen> tickets;
    std::vector<Unreadable> unreadable;
    std::vector<Entry> sessions;
    Revision at{};
  };
  // `also`: ranges to be read, and guards to be checked, in the same apply.
  [[nodiscard]] Snapshot snapshot(Txn also = {}) const;
  [[nodiscard]] static std::vector<TicketInfo> describe(const Snapshot& all);
  void remove_dead(Snapshot& all) const;
  // Adds the eviction of a ticket to a transaction, guarded on all that it was judged by.
  void add_eviction(const Snapshot& all, const Seen& ticket, bool at_once, Txn& txn) const;
  [[nodiscard]] static std::vector<Guard> waits(const Snapshot& all, const Seen& ticket);
  // The snapshot and the transaction of set_limit(): limit_change.cpp.
  [[nodiscard]] Snapshot snapshot_for(const Claim& limit) const;
  [[nodiscard]] static Txn limit_change(const Snapshot& all, const Claim& limit,
                                        const LimitChange& change);
  [[nodiscard]] static std::vector<Ticket> tickets_of(const Snapshot& all);

  Store& store_;
  const Tickets tickets_;
};

}  // namespace tenure::stored
