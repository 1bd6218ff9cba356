// deadlock.hpp: whether a ticket that was just appended completes a deadlock (core finds the cycle;
// this reads the tickets and removes one).
#pragma once

#include "space/stored/row.hpp"
#include "space/stored/tickets.hpp"
#include "tenure/store.hpp"

namespace tenure::stored {

// Removes the ticket and throws Deadlock if its wait closes a cycle of owners.
//
// The process that appended last sees the whole cycle, and should give way. A process that searches
// late sees it too: if a larger number is in the cycle, it waits for that ticket to go, and
// searches again. That is no proof, since numbers of different roots cannot be compared. So a
// process that still sees the cycle after a while removes its own ticket, guarded on the presence
// of the others: exactly one succeeds.
void refuse_deadlock(Store& store, const Tickets& tickets, const Row& row, Token number);

}  // namespace tenure::stored
