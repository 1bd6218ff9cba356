// tickets.hpp: tickets in a store: how one is appended, read, judged, narrowed and removed, as
// parts of a transaction that may have other parts.
//
//   Txn txn;
//   txn.guards.push_back(mine);                      // The caller's own guards and writes:
//   txn.writes.push_back(Write::put(log, "asked"));  // one atomic step with the ticket.
//   if (!tickets.agree_on_limits(row, txn)) …        // Reads only where a claim has a limit.
//   Tickets::Append append{row, tickets.hints()};
//   append.add_to(txn);
//   store.apply_then(txn, [=](const Outcome& outcome, …) {
//     if (!outcome.committed) …                      // explain_refusal(row), or a guard of mine.
//     const Tickets::Appended ticket = append.judge(outcome);
//     if (ticket.found.free()) …                     // Granted: ticket.number is the token.
//   });
//
// A ticket that is not free waits for `found.blockers`; GrantWait (grant_wait.hpp) notifies the
// caller when it is granted. add_removal() and add_downgrade() are the other two parts. The commit
// wakes the waiters of the ticket, whichever process commits.
//
// A ticket is kept alive by its anchor: the session of the process that appended it, or a key of
// the store, while that exists. Waiters, inspection, eviction and deadlock search treat both alike.
// A ticket whose anchor is gone is removed by the first process that it blocks.
//
// Invariants
//   1. An append is guarded on its anchor, and one with a request id on the id being unused.
//   2. remove_dead() is guarded on the entry as it was seen, and on the absence of an anchor key.
//   3. A row that a later version wrote is never changed nor removed (row.hpp).
//
// Thread safety: all calls; the object is a reference to a store and to hints. An Append belongs to
// one call at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "space/stored/conflict_query.hpp"
#include "space/stored/row.hpp"
#include "space/stored/rows.hpp"
#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

// What queries of one space have learned, so that later ones read less. Thread safety: all calls.
class Hints {
 public:
  [[nodiscard]] Regions seen() const noexcept;
  void learn(Regions seen) noexcept;
  [[nodiscard]] EmptyPrefixes& empty_prefixes() noexcept { return empty_prefixes_; }

 private:
  std::atomic<bool> shared_ = false;
  std::atomic<bool> groups_ = false;
  EmptyPrefixes empty_prefixes_;
};

class Tickets {
 public:
  Tickets(Store& store, Hints& hints) noexcept : store_(&store), hints_(&hints) {}
  [[nodiscard]] Hints& hints() const noexcept { return *hints_; }

  // ---- Parts of a transaction.

  struct Appended {
    Token number;
    ConflictQuery::Found
        found;  // free(): granted. blocked(): by these. Neither: look_back() tells.
  };
  // The row must outlive the Append.
  class Append {
   public:
    Append(const Row& row, Hints& hints, ConflictQuery::Extent extent = ConflictQuery::Extent::few);
    // Adds the ticket behind what is in the transaction already. Call it once.
    void add_to(Txn& txn);
    // Takes the outcome of that transaction, which must have been committed.
    [[nodiscard]] Appended judge(const Outcome& outcome) const;
    [[nodiscard]] const ConflictQuery& query() const noexcept { return query_; }

   private:
    const Row& row_;
    Hints& hints_;
    ConflictQuery query_;
    std::size_t first_read_ = 0;
    std::size_t reads_ = 0;
  };
  // Adds the guards that keep the limits of a group equal to an append, or to a downgrade of ticket
  // `own`. False: try again. Throws LimitMismatch if a live ticket has another limit.
  [[nodiscard]] bool agree_on_limits(const Row& row, std::span<const Claim> claims, Token own,
                                     Txn& txn) const;
  [[nodiscard]] bool agree_on_limits(const Row& row, Txn& txn) const {
    return agree_on_limits(row, row.claims, {}, txn);
  }
  // Removes the ticket if it is there. Add held() as a guard to make that a condition.
  static void add_removal(const Row& row, Token number, Txn& txn);
  [[nodiscard]] static Guard held(const Row& row, Token number);
  // Replaces the claims of the ticket, guarded on its entry as it was seen. Returns its new row.
  // The caller has called find_downgrade_fault() and agree_on_limits().
  [[nodiscard]] static Row add_downgrade(const Seen& ticket, std::span<const Claim> claims,
                                         Txn& txn);

  // ---- A ticket of the caller's.

  // Finds out why an append or a downgrade (of `own`) was not committed: throws SessionLost,
  // AnchorLost or LimitMismatch, or returns if the cause is gone.
  void explain_refusal(const Row& row, std::span<const Claim> claims, Token own) const;
  void explain_refusal(const Row& row) const { explain_refusal(row, row.claims, {}); }
  [[noreturn]] static void throw_anchor_lost(const Row& row);

  struct View {
    ConflictQuery::Found found;
    std::optional<Entry> own;  // The first entry of the ticket itself.
    bool anchored = false;     // Whether its anchor is there.
    Revision at;
    // NOLINTNEXTLINE(readability-redundant-member-init): so that designated ones may leave it out.
    std::optional<Row> changed{};  // The ticket, if its limits are not those of the caller's row.
  };
  // Reads until the ticket is blocked, free or gone, or its anchor is gone. Judges by the limits
  // that its entry has: another process may have changed them (Space::set_limit).
  [[nodiscard]] View look_back(const Row& row, Token number) const;
  // The conflicts of a ticket that is not appended yet, with guards that nothing has been added
  // since: one per range, or one for all tickets if those would be more than `most`.
  struct Quiet {
    ConflictQuery::Found found;
    std::vector<Guard> guards;
  };
  [[nodiscard]] Quiet read_all(const ConflictQuery& query, std::size_t most) const;
  // The entry of an append whose answer was lost, found by its session and its number among the
  // requests of that session, or by its request id.
  [[nodiscard]] std::optional<Entry> find_appended(const Row& row) const;
  // The same, and makes the entry durable.
  [[nodiscard]] std::optional<Entry> keep_appended(const Row& row) const;
  // The ticket that was appended with the row's request id. Throws BadRequest if that ticket has
  // other claims.
  [[nodiscard]] std::optional<Seen> find_request(const Row& row) const;
  // A few entries of other tickets of the ticket's owner and of each of its ancestors. If there are
  // none, the ticket is not deadlocked: the append that completes a deadlock is made by an owner
  // that already has a ticket which others wait for.
  [[nodiscard]] std::vector<Entry> others_of_owner(const Row& row, Token number) const;
  // False: the entry has changed; read it again. `written`: the revision that wrote the entry.
  bool start_deadline(const Entry& entry, std::optional<Instant>& deadline,
                      Revision& written) const;

  // ---- Any ticket.

  // The ticket that a claim's entry belongs to. Null: it is gone. Throws StoreError for an entry
  // that cannot be read, or that its ticket does not list: only an operator can remove that.
  [[nodiscard]] std::optional<Seen> resolve(const Entry& entry) const;
  // The ticket with that number among those with a claim on `path` or below it.
  [[nodiscard]] std::optional<Seen> find(Token number, const Path& path) const;
  [[nodiscard]] bool alive(const Row& row) const;
  [[nodiscard]] bool overdue(const Row& row) const;
  [[nodiscard]] std::vector<Entry> read_keys(const std::set<std::string>& keys) const;
  // Which of these keys are not there.
  [[nodiscard]] std::set<std::string> missing(const std::set<std::string>& keys) const;
  // NOLINTBEGIN(modernize-use-nodiscard): most callers read again either way.
  // Guarded on the entry as it was seen: an earlier renewal or removal wins.
  bool remove(const Seen& ticket, std::vector<Guard> also = {}) const;
  bool remove_dead(const Seen& ticket) const;
  bool remove_unreadable(const Unreadable& found) const;
  // NOLINTEND(modernize-use-nodiscard)

 private:
  // What a line says of a limit: a live ticket has the same one, nobody else is in the line, or a
  // dead ticket that had another one was removed.
  enum class Agreement : std::uint8_t { same, nobody, again };
  [[nodiscard]] Agreement agree_in_line(const Row& row, const Claim& claim, Token own,
                                        const Range& line, Txn& txn) const;
  [[nodiscard]] bool limit_clash(const Row& row, const Claim& asked, const Entry& entry) const;
  [[nodiscard]] View look_once(const ConflictQuery& query, const Row& row,
                               const std::string& own_key) const;

  Store* store_;
  Hints* hints_;
};

}  // namespace tenure::stored
