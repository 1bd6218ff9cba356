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
//   8        some range, of code 1 to 6                       nothing else
//   9        no interest: a process that takes new ones       nothing else
//
// All hashes include the schema and a bucket (buckets.hpp): writers of one bucket run one after
// another, so none of them takes another one's try for an interest. Each process with an interest
// in a bucket also holds that bucket's *watching* lock, the only one that a writer has to try as
// long as nobody watches anything there. An interest in ranges over several buckets is an interest
// of code 0 in all of them: two locks for each bucket, and a channel of its own.
//
// A process first LISTENs, takes its locks, commits, and reads the entries after that: reading
// before the locks are held would miss a commit in between.
//
// A writer of a few keys tries the locks of each key: its own, and those of its prefixes if a
// process watches some range. A large batch would fill the server's lock table that way. It takes
// lock 9 of each of its buckets instead, so that no interest is added before its commit, and looks
// the others up in pg_locks. Writers wait for no other lock than that, and then hold none that they
// tried; everybody takes it in ascending order, and before all others. So nobody can deadlock.
//
// Interests with the same hash share a lock, and those with the same last 12 bits a channel. The
// cost is a notice without a reason.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tenure::postgres {

// First of the two numbers of the advisory locks of interests ("TNUI").
inline constexpr int interest_class = 0x544e5549;
// The same of the watching locks ("TNUW"); the other one is watching_sql().
inline constexpr int watching_class = 0x544e5557;
// The codes of the table above.
inline constexpr int key_code = 7;
inline constexpr int ranges_code = 8;
inline constexpr int adding_code = 9;
inline constexpr std::size_t prefix_codes = 7;
inline constexpr std::array<std::size_t, prefix_codes> prefix_sizes{0, 1, 2, 4, 8, 16, 32};
// In place of a bucket: all of them. The number of an interest, as watch() returns it, has its
// bucket above the lower 32 bits.
inline constexpr int every_bucket = 255;
// The channels of interests are numbered below this one, which is that of interests in all buckets.
inline constexpr std::int64_t wide_channel = 4096;

// The second number of a bucket's watching lock.
[[nodiscard]] constexpr std::int64_t watching_lock(std::int64_t schema, int bucket) noexcept {
  return ((schema * 256) + bucket) & 0x7fffffff;
}
[[nodiscard]] inline std::string watching_sql(std::string_view bucket) {
  return std::string{"((('@'::regnamespace::oid::bigint * 256) + "}.append(bucket).append(
      ") & 2147483647)::int");
}

// The second number of an interest's lock, as an expression. `schema` is the schema's number, as
// text, and so is the bucket's.
[[nodiscard]] inline std::string interest_sql(std::string_view schema, std::string_view code,
                                              std::string_view bucket, std::string_view part) {
  return std::string{"(("}
      .append(code)
      .append(" << 27) | (hashtext(")
      .append(schema)
      .append(" || '.' || ")
      .append(bucket)
      .append(" || ' ' || encode(")
      .append(part)
      .append(", 'hex')) & 134217727))");
}
// Tries to take that lock until the end of the transaction. False: some process has the interest.
[[nodiscard]] inline std::string try_interest_sql(const std::string& interest) {
  return "pg_try_advisory_xact_lock(" + std::to_string(interest_class) + ", " + interest + ")";
}

// Notifies those who watch one of the keys, or of the prefixes with the revision behind them. Each
// has a bucket.
[[nodiscard]] std::string tell_sql();
// Takes interests, in the order of their buckets, and drops others of this connection; returns the
// numbers of the new ones.
[[nodiscard]] std::string watch_sql();

}  // namespace tenure::postgres
