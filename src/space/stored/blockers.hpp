// blockers.hpp: the tickets that block another one: removes the dead and the overdue among them,
// and says what to watch of the others.
//
//   a blocker is                      | then
//   ----------------------------------+-----------------------------------------------------------
//   gone, or its entry has changed    | read the conflicts again
//   of a dead session or removed key  | it is removed, guarded on its entry; read again
//   past its deadline                 | the same
//   alive                             | watch its entry, its session or anchor key, its deadline
//
// Thread safety: all calls; it has no state.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "space/stored/conflict_query.hpp"
#include "space/stored/sweeper.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/claim.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

class Blockers {
 public:
  Blockers(Store& store, Hints& hints, Sweeper& sweeper) noexcept
      : store_(store), tickets_(store, hints), sweeper_(sweeper) {}

  // `found` blocks a ticket with these claims and this number. True: some were cleared away, so
  // read again. False: `otherwise` is what to watch.
  [[nodiscard]] bool clear_away(const ConflictQuery::Found& found, std::span<const Claim> claims,
                                Token number, std::vector<WatchFor>& otherwise) const;

 private:
  bool clear_away(const Entry& blocker, std::vector<WatchFor>& otherwise) const;
  bool clear_away_crowd(const Claim& claim, Token number, std::vector<WatchFor>& otherwise) const;
  [[nodiscard]] std::optional<Instant> deadline_of(Seen& ticket) const;

  Store& store_;
  const Tickets tickets_;
  Sweeper& sweeper_;
};

}  // namespace tenure::stored
