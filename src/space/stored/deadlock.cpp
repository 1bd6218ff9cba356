#include "space/stored/deadlock.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "space/stored/reachable.hpp"
#include "space/stored/rows.hpp"
#include "tenure/error.hpp"
#include "tenure/rule.hpp"

namespace tenure::stored {
namespace {

// How long a request lets the others of a deadlock give way.
constexpr std::chrono::milliseconds max_deference{256};

// False: a ticket of the cycle was dead, and was removed. The guards cover all tickets that were
// read, or as many of the cycle as fit: with limits, others than those of the cycle may be part of
// the deadlock.
bool guard_cycle(const Tickets& tickets, std::span<const Wait> cycle,
                 const std::map<Token, Seen>& live, Txn& txn) {
  bool stands = true;
  std::vector<Guard> of_cycle;
  for (const auto& [token, seen] : live) {
    const bool in_cycle = std::ranges::any_of(cycle, [token](const Wait& wait) {
      return wait.waiting == token || wait.blocker == token;
    });
    if (!in_cycle) continue;
    of_cycle.push_back(Guard::present(seen.entry.key));
    if (tickets.alive(seen.row)) continue;
    tickets.remove_dead(seen);
    stands = false;
  }
  if (txn.guards.size() > max_operations) txn.guards = std::move(of_cycle);
  if (txn.guards.size() > max_operations) txn.guards.resize(max_operations);
  return stands;
}

// Of an upgrade, all: whoever waits for the held ticket need have no owner. Otherwise those that
// the owner's other tickets lead to; empty: there are none, and no deadlock. Null: look again.
std::optional<std::map<Token, Seen>> tickets_to_search(Store& store, const Tickets& tickets,
                                                       const Row& row, Token number) {
  if (row.replaces != Token{}) {
    Txn read;
    read.reads.push_back(rows_range());
    Outcome outcome = store.apply(read);
    std::map<Token, Seen> all;
    for (Seen& seen : read_rows(std::move(outcome.reads.front())).tickets) {
      const Token token = seen.number;
      all.emplace(token, std::move(seen));
    }
    return all;
  }
  const std::vector<Entry> others = tickets.others_of_owner(row, number);
  if (others.empty()) return std::map<Token, Seen>{};
  Reachable reachable{store};
  reachable.add_entries(others);
  if (reachable.remove_dangling()) return std::nullopt;
  reachable.add_all_from(number, row);
  return reachable.tickets();
}

}  // namespace

void refuse_deadlock(Store& store, const Tickets& tickets, const Row& row, Token number) {
  std::chrono::milliseconds patience{1};
  for (;;) {
    const std::optional<std::map<Token, Seen>> found =
        tickets_to_search(store, tickets, row, number);
    if (!found.has_value()) continue;
    if (found->empty()) return;
    std::vector<Ticket> live;
    Txn txn;
    for (const auto& [token, seen] : *found) {
      if (tickets.overdue(seen.row) && tickets.remove(seen)) continue;
      live.push_back(seen.row.ticket(token));
      txn.guards.push_back(Guard::present(seen.entry.key));
    }
    const std::vector<Wait> cycle = find_cycle(live, number);
    if (cycle.empty()) return;
    const auto is_later = [number](const Wait& wait) { return wait.waiting > number; };
    if (patience <= max_deference && std::ranges::any_of(cycle, is_later)) {
      std::this_thread::sleep_for(patience);
      patience *= 2;
      continue;
    }
    if (!guard_cycle(tickets, cycle, *found, txn)) continue;
    Tickets::add_removal(row, number, txn);
    if (!store.apply(txn).committed) continue;
    throw Deadlock("deadlock: " + describe_cycle(cycle, live) +
                   "; release the held lock first, or claim both paths in one request");
  }
}

}  // namespace tenure::stored
