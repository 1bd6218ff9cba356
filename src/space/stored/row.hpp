// row.hpp: the value of a claim's entry: JSON, so that any SQLite tool can read it.
//
// The first claim's entry has the whole ticket:
//   {"session":"16 digits","request":7,
//    "claims":[["book/3"],["shelf","shared"],["api","permits",3],["ram","permits",10,4]],
//    "owner":"job-7","label":"deploy","since":NS,"max_hold":NS,"deadline":NS,"evicted":true,
//    "asked":true,"number":N}
// The entries of its other claims, and all shadows (keys.hpp), point to the first, and say how much
// of a limit their claim takes if that is more than 1:
//   {"session":"16 digits","first":["book/3"],"take":4}
//
// A claim that takes more than 1 of its limit has its weight behind the limit. Its ticket, and each
// pointer with such a weight in it, begins with
//   "format":3
//
// A ticket with claims that were granted before their limit was lowered (Ticket::kept) lists the
// numbers of these claims, from 0, and has format 4:
//   "kept":[0]
// So has the ticket of an upgrade (Ticket::replaces), which has the number of the ticket that it
// replaces:
//   "replaces":N
//
// A ticket that hangs on a key of the store instead of on the session of its process has
//   "format":2,"anchor":["key","orders%2F7"],"by":"16 digits"
// (or a later format) instead of "session". `by` is the session of the process that appended the
// ticket; only people read it. "id" is the request id that the caller chose; the ticket then has
// one more entry, at request_key().
//
// Formats. A row without "format" has format 1. A program refuses a row of a later format, or with
// an anchor of a kind that it does not know: it cannot tell whether that ticket is alive, so it
// neither removes nor evicts it (RowFault::newer).
//
// Paths, groups and owners are in the text form of path.hpp. A label is any text; its zero bytes,
// and bytes that are not UTF-8, are written as %XX. Times are nanoseconds of the store's
// clock, since 1970. owner, label, max_hold, deadline, evicted and asked are left out if they are
// not set. asked: somebody wants the lock (Space::ask_to_leave).
// number is present only after a downgrade moved the entry: the revision of the new key is then not
// the ticket's number.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/claim.hpp"
#include "tenure/store.hpp"
#include "tenure/ticket.hpp"

namespace tenure::stored {

inline constexpr std::size_t max_anchor = 512;  // Bytes of a key.
// The latest format that this program reads. 2: anchors. 3: weights. 4: kept claims, upgrades.
inline constexpr std::uint64_t newest_format = 4;

struct Row {
  std::string session;              // Of the process that appended it.
  std::string anchor;               // The key that keeps it alive; empty: its session does.
  std::uint64_t request = 0;        // Numbers the requests of a session.
  std::optional<std::uint64_t> id;  // Chosen by the caller; only with an anchor key.
  std::vector<Claim> claims;
  std::uint64_t kept = 0;  // As Ticket::kept.
  Token replaces;          // As Ticket::replaces.
  Owner owner;
  std::string label;
  Instant since;
  std::chrono::nanoseconds max_hold{0};
  std::optional<Instant> deadline;
  bool evicted = false;
  bool asked = false;
  Token number;  // Zero: that of the key.

  [[nodiscard]] Ticket ticket(Token with_number) const {
    return {.number = with_number,
            .claims = claims,
            .owner = owner,
            .kept = kept,
            .replaces = replaces};
  }
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool anchored() const noexcept { return !anchor.empty(); }
  friend bool operator==(const Row&, const Row&) = default;
};

// The entry of a further claim.
struct Pointer {
  std::string session;  // Empty where it has an anchor.
  std::string anchor;
  Claim first;
  std::uint32_t weight = 1;  // Of the claim that the entry is for.
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Pointer&, const Pointer&) = default;
};

// A ticket as it was read from the store.
struct Seen {
  Entry entry;  // Of the whole ticket.
  Row row;
  Token number;
  // If a pointer led to the ticket: the revision of the read that found both unchanged.
  Revision at{};
};

// Exactly one of them. Bytes that are not UTF-8 are read as %XX.
struct Parsed {
  std::optional<Row> row;
  std::optional<Pointer> pointer;
};
// Why an entry cannot be read.
struct RowFault {
  std::string why;
  bool newer = false;  // A later version of Tenure wrote it.
};
[[nodiscard]] std::expected<Parsed, RowFault> read_row(const Entry& entry);
// Throws StoreError for an entry that cannot be read, and names it.
[[nodiscard]] Parsed parse_row(const Entry& entry);
[[noreturn]] void refuse_row(const Entry& entry, const RowFault& fault);

// How much of its limit the claim of that entry takes. Null: the entry cannot be read. Parses only
// entries of format 3 and later.
[[nodiscard]] std::optional<std::uint32_t> weight_in(const Entry& entry);

// The entry of one of its claims: the whole ticket at the first, a pointer at the others.
[[nodiscard]] std::string claim_text(const Row& row, std::size_t claim);
[[nodiscard]] std::string shadow_text(const Row& row, std::size_t claim);

// The guard "the anchor of this ticket is there". A session's entry must not be declared dead.
[[nodiscard]] Guard anchor_guard(const Row& row);
// Adds the end of the ticket's anchor to a watch.
void watch_anchor(const Row& row, WatchFor& what);

// The key of the entry that a request id adds to its ticket. The revision that created the entry is
// the ticket's number.
[[nodiscard]] std::string request_key(std::string_view anchor, std::uint64_t id);
// The value of that entry and of the one in the index of owners (keys.hpp): the first claim.
[[nodiscard]] std::string first_claim_text(const Row& row);
// Throws StoreError for an entry that no ticket has.
[[nodiscard]] Claim first_claim_in(const Entry& entry);

// The contents of a session's entry.
struct SessionRow {
  std::string host;
  std::int64_t pid = 0;
  std::string label;
  std::optional<Instant> since;
};
[[nodiscard]] SessionRow parse_session(const Entry& entry);

}  // namespace tenure::stored
