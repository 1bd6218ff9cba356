// rows.hpp: all entries of a space as tickets, and those that belong to none.
//
// Another program may write anything among the tickets. Such an entry must not prevent users from
// listing the space, or from removing the entry. A request that the entry blocks is refused, since
// it may be the damaged entry of a live holder.
#pragma once

#include <string>
#include <vector>

#include "space/stored/row.hpp"
#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

// Entries with one ticket number that are not part of a readable ticket.
struct Unreadable {
  Token number;                // Zero: not keys of a ticket.
  std::vector<Claim> claims;   // As the keys say.
  std::vector<Entry> entries;  // At least one.
  std::string why;             // For the first of them.
  bool newer = false;          // A later version of Tenure wrote one of them: leave all alone.
};

struct Rows {
  std::vector<Seen> tickets;           // By number,
  std::vector<Unreadable> unreadable;  // and by number.
};
// `entries` is all that one read found in rows_range().
[[nodiscard]] Rows read_rows(std::vector<Entry> entries);
[[nodiscard]] Range rows_range();

// Whether the entry at `key` belongs to the ticket with that row and number.
[[nodiscard]] bool claims_key(const Row& row, Token number, std::string_view key);

}  // namespace tenure::stored
