// row.hpp: what is written at a claim's key: JSON, so that any SQLite tool can read it.
//
// The first claim's entry has the whole ticket:
//   {"session":"16 digits","request":7,
//    "claims":[["book/3"],["shelf","shared"],["api","permits",3]],
//    "owner":"job-7","label":"deploy","since":NS,"max_hold":NS,"deadline":NS,"evicted":true,
//    "number":N}
// and those of further claims say where that is:
//   {"session":"16 digits","first":["book/3"]}
//
// Paths, groups and owners are in the text form of path.hpp. A label is any text; its zero bytes,
// and bytes that are not UTF-8, are written as %XX. Times are nanoseconds of the store's
// clock, since 1970. owner, label, max_hold, deadline and evicted are left out where there is none;
// number is there only after a downgrade moved the entry, as its key's own revision is another
// then.
#pragma once

#include <chrono>
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

struct Row {
  std::string session;
  std::uint64_t request = 0;  // Numbers the requests of a session.
  std::vector<Claim> claims;
  Owner owner;
  std::string label;
  Instant since;
  std::chrono::nanoseconds max_hold{0};
  std::optional<Instant> deadline;
  bool evicted = false;
  Token number;  // Zero: as in the key.

  [[nodiscard]] std::string text() const;
  friend bool operator==(const Row&, const Row&) = default;
};

// The entry of a further claim.
struct Pointer {
  std::string session;
  Claim first;
  [[nodiscard]] std::string text() const;
};

// Either of them, as read from the store.
struct Seen {
  Entry entry;  // Of the whole ticket.
  Row row;
  Token number;
};

// Exactly one of them. Bytes that are not UTF-8 are read as %XX.
struct Parsed {
  std::optional<Row> row;
  std::optional<Pointer> pointer;
};
// The error says why the entry cannot be read.
[[nodiscard]] std::expected<Parsed, std::string> read_row(const Entry& entry);
// Throws StoreError for an entry that cannot be read, and names it.
[[nodiscard]] Parsed parse_row(const Entry& entry);
[[noreturn]] void refuse_row(const Entry& entry, std::string_view why);

// What a session's entry tells.
struct SessionRow {
  std::string host;
  std::int64_t pid = 0;
  std::string label;
  std::optional<Instant> since;
};
[[nodiscard]] SessionRow parse_session(const Entry& entry);

}  // namespace tenure::stored
