// notices.hpp: which processes a commit notifies, as SQL.
//
// NOTIFY signals every listening backend of the database, whatever its channel, so a writer sends
// it only if a process watches exactly what changes. There is no table of watches: a process that
// watches something holds a shared advisory lock on an *interest*, and a writer tries to take the
// same lock exclusively until its commit. Either that fails, and the writer notifies the channel of
// the interest; or the process gets its lock after the commit, and then reads what was committed.
//
//   code     interest in                                      the lock is on a hash of
//   0 … 6    a range: keys with a common prefix, of which     these bytes
//            the first 0, 1, 2, 4, 8, 16 or 32 bytes count
//   7        one key                                          the key
//   8        some range                                       the schema
//   9        no interest: a process that takes new ones       the schema
//
// A process first LISTENs, takes its locks, commits, and reads the entries after that: reading
// before the locks are held would miss a commit in between.
//
// A writer of a few keys tries the locks of each key: its own, and those of its prefixes if a
// process watches some range. A large batch would fill the server's lock table that way. It takes
// lock 9 instead, so that no interest is added before its commit, and looks the others up in
// pg_locks. Writers never wait for other locks than that one, which is held for one short
// transaction, so they cannot deadlock.
//
// Interests with the same hash share a lock, and those with the same last 12 bits a channel. The
// cost is a notice without a reason.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tenure::postgres {

// First of the two numbers of the advisory locks of interests ("TNUI").
inline constexpr int interest_class = 0x544e5549;
// The codes of the table above.
inline constexpr int key_code = 7;
inline constexpr int ranges_code = 8;
inline constexpr int adding_code = 9;
inline constexpr std::size_t prefix_codes = 7;
inline constexpr std::array<std::size_t, prefix_codes> prefix_sizes{0, 1, 2, 4, 8, 16, 32};

// The second number of an interest's lock, as an expression. `schema` is the schema's number, as
// text.
[[nodiscard]] inline std::string interest_sql(std::string_view schema, std::string_view code,
                                              std::string_view part) {
  return std::string{"(("}
      .append(code)
      .append(" << 27) | (hashtext(")
      .append(schema)
      .append(" || ' ' || encode(")
      .append(part)
      .append(", 'hex')) & 134217727))");
}
// Tries to take that lock until the end of the transaction. False: some process has the interest.
[[nodiscard]] inline std::string try_interest_sql(const std::string& interest) {
  return "pg_try_advisory_xact_lock(" + std::to_string(interest_class) + ", " + interest + ")";
}

// Notifies those who watch one of the keys, or of the prefixes with the revision behind them.
[[nodiscard]] std::string tell_sql();
// Takes and drops interests of this connection; returns the numbers of the new ones.
[[nodiscard]] std::string watch_sql();

}  // namespace tenure::postgres
