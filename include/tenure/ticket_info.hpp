// ticket_info.hpp: what Space::inspect() tells of one ticket: its place in the queue, what it waits
// for, and in a stored space the process that asked.
//
// Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure {

struct TicketInfo {
  Ticket ticket;
  bool granted = false;
  std::size_t position = 0;       // 0: holds; 1: next in line; see rule.hpp.
  std::vector<Token> blocked_by;  // The tickets that it waits for, earliest first.
  // Since the request; in a local space, for a holder, since the grant. A clock costs more than a
  // free local lock, so a hold of a local space that nobody has waited for has none, and one that
  // was free when it was taken has the time at which the first one came to wait for it.
  std::optional<Instant> since;
  std::optional<Instant> deadline;  // Until when a holder has it at most.
  bool asked_to_leave = false;      // Somebody wants the lock: Space::ask_to_leave().
  std::string label;
  // Of stored spaces: who made the request (see store.hpp), and from where. The session is that of
  // the process that asked; with an `anchor`, the ticket lives as long as that key is in the store,
  // whether or not the session does.
  std::string session;
  std::string anchor;
  std::string host;
  std::int64_t pid = 0;
  // Of stored spaces: why the ticket's entry in the store cannot be read; empty: it can. Claims and
  // number are then those of the entry's key, the rest is unknown, and a limit is given as 1. The
  // ticket blocks others until evict() removes it.
  std::string fault;
  friend bool operator==(const TicketInfo&, const TicketInfo&) = default;
};

}  // namespace tenure
