// batch.hpp: the two transactions of a lock, each as a few plain statements in one message.
//
//   append   BEGIN; number; add; COMMIT; flush      a ticket, if its session exists
//            number; add                            the same, while no other process writes;
//            number; add to our own number          and the rest is known (sole_writer.hpp)
//   remove   number; drop                           an entry that exists, or is unchanged
//
// Both touch one bucket (buckets.hpp). The first append commits without waiting for the disk, which
// unlocks the bucket's row of `head`, and then waits. The second does both in one commit, so other
// writers of the bucket wait for the disk too. If durability includes a standby, that wait may be
// long, and only the first is used.
//
// `number` updates the row of `head`, as change() does, and each later statement has its own
// snapshot. The statements have the same effect as change(), but cost half as much: a PL/pgSQL
// routine prepares its expressions anew in every transaction.
//
// Invariants
//   1. A batch is one write to the socket, short enough for one network segment or one TLS record.
//      A client that is stopped or cut off has therefore sent all of it or nothing, and no backend
//      waits for the rest while it holds the row of `head`. Longer transactions go to change().
//   2. A batch runs only on a connection that has seen the marker. A crash of the server, or of any
//      backend, ends all connections, so nothing was lost as long as this connection lasts.
//      `number` fails if the table was replaced, or if the isolation level is not ours.
//   3. Unusual cases (the session of a ticket is gone, a table was replaced, another process wrote
//      unexpectedly) are left to change(). A batch whose guard does not hold changes nothing, and
//      gives its number back in the same transaction.
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
    bool reads = false;  // The write statement also returns what was read.
    bool drops = false;
    [[nodiscard]] std::size_t size() const noexcept { return number.size() + written.size(); }
  };
  // Nothing: leave the transaction to change(). `bucket`: the only one that it touches. `own`: if
  // this is still the newest revision there, the guard holds and the ranges are empty.
  [[nodiscard]] std::optional<Batch> batch_of(const Txn& txn, int bucket,
                                              std::optional<Revision> own) const;
  // `alone`: other processes are unlikely to write meanwhile. Nothing: the transaction was not
  // made. Throws Failed.
  [[nodiscard]] std::optional<Answer> run(const Txn& txn, Batch& batch, bool alone,
                                          Connection& connection, const Patience& patience) const;

 private:
  static constexpr std::size_t max_ranges = 16;
  static constexpr std::size_t max_statements = 64;
  static constexpr std::size_t max_size = 1'000;  // Every batch has some 300 more.

  // Null: only change() can read these ranges.
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
  const std::int64_t schema_number_;
  mutable base::Mutex mutex_;
  mutable std::map<std::string, Statement> add_ TENURE_GUARDED_BY(mutex_);  // Never erased from.
};

}  // namespace tenure::postgres
