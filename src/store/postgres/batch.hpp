// batch.hpp: the two applies that a lock is, as a few plain statements in one message.
//
//   append   BEGIN; number; add; COMMIT; flush      a ticket, while its session is there
//            number; add                            the same, while nobody else writes;
//            number; add to our own number          and what is there is known (sole_writer.hpp)
//   remove   number; drop                           an entry that is there, or is unchanged
//
// The first append commits without waiting for the disk, which gives the row of `head` back, and
// then waits; the second does both in one, and whoever comes meanwhile has to wait as well. Where
// durable means a standby too, that may be long: there it is always the first.
//
// `number` updates the row of `head`, as change() does, and the statements behind it have snapshots
// of their own. They do what change() would: a PL/pgSQL routine costs as much again as all that is
// in it, since it prepares its expressions anew in every transaction.
//
// Invariants
//   1. A batch is one write to the socket, and short enough to be one segment of any network, or
//      one record of TLS: a client that is stopped or cut off has sent all of it or nothing, so no
//      backend waits for the rest with the row of `head` locked. Longer ones go to change().
//   2. It runs only on a connection that has seen the marker. A crash of the server, or of any
//      backend, ends all connections, so for as long as this one lasts nothing was lost. `number`
//      fails where the table is another one by now, or the isolation not the one that we set.
//   3. What is unusual (a ticket whose session is gone, a table that was replaced, somebody else's
//      write where there was to be none) is left to change(), which then has the last word: a
//      batch whose guard does not hold changes nothing but the number in `head`.
//
// Thread safety: all of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/request.hpp"
#include "store/postgres/url.hpp"
#include "tenure/store.hpp"

namespace tenure::postgres {

class Batches {
 public:
  Batches(const Target& target, std::int64_t schema_number);

  struct Batch {
    const Statement* write = nullptr;
    Params number;
    // NOLINTNEXTLINE(readability-redundant-member-init): so that designated ones may leave it out.
    Params written{};
    bool reads = false;  // What is written comes with what was read.
    bool drops = false;
    [[nodiscard]] std::size_t size() const noexcept { return number.size() + written.size(); }
  };
  // Nothing: it is for change(). `own`: if that is the newest revision still, the guard holds, and
  // what is read is empty.
  [[nodiscard]] std::optional<Batch> batch_of(const Txn& txn, std::optional<Revision> own) const;
  // `alone`: nobody else is likely to write meanwhile. Nothing: it was not made. Throws Failed.
  [[nodiscard]] std::optional<Answer> run(const Txn& txn, Batch& batch, bool alone,
                                          Connection& connection, const Patience& patience) const;

 private:
  static constexpr std::size_t max_ranges = 16;
  static constexpr std::size_t max_statements = 64;
  static constexpr std::size_t max_size = 1'000;  // And some 300 that are in every batch.

  // Null: change() has to read these.
  [[nodiscard]] const Statement* add_statement(const std::vector<Range>& reads) const;
  [[nodiscard]] bool vouch(Connection& connection, const Patience& patience) const;

  const Statement marker_;
  const Statement begin_;
  const Statement number_;
  const Statement commit_;
  const Statement flush_;
  const Statement drop_;
  const Statement drop_unchanged_;
  const Statement add_to_own_;
  const Target target_;
  mutable base::Mutex mutex_;
  mutable std::map<std::string, Statement> add_ TENURE_GUARDED_BY(mutex_);  // Never erased from.
};

}  // namespace tenure::postgres
