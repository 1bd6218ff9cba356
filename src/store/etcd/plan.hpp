// plan.hpp: one apply, or a batch of applies, in terms of etcd: which comparisons, operations and
// reads it consists of. Forms (form.hpp) put these parts into requests.
//
// A batch is several transactions that do not depend on each other: all of their guards, all of
// their writes, and one revision for each, `apart` from the next. The heads of all of their orders
// become the last of them. If one guard fails, etcd makes none of them.
//
// Thread safety: none; a plan belongs to one thread. The transaction must outlive its plan.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/heads.hpp"
#include "store/etcd/key_cache.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/proposer.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

namespace pb = ::etcdserverpb;

// The lease key of a session, put or removed together with its entry.
struct LeaseKey {
  std::string id;
  std::int64_t lease = 0;  // Zero: the key is removed.
};

// Which of `count` transactions each write belongs to.
struct Batch {
  std::vector<std::size_t> txn_of_write;
  std::size_t count = 1;
};

class Plan {
 public:
  Plan(const Layout& layout, const Caches& caches, const Txn& txn,
       const LeaseKey* lease_key = nullptr, const Batch* batch = nullptr);

  [[nodiscard]] Needs needs() const;
  [[nodiscard]] bool writes() const noexcept {
    return !txn_.writes.empty() || lease_key_ != nullptr;
  }
  // The orders whose heads a write compares and moves, and those whose heads an answer shows.
  [[nodiscard]] const Scope& scope() const noexcept { return scope_; }
  [[nodiscard]] const Scope& shown() const noexcept { return shown_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Txn& txn() const noexcept { return txn_; }

  // Guards on quiet ranges whose revision this process can't translate into one of etcd's, by
  // index.
  [[nodiscard]] const std::vector<std::size_t>& open_questions() const noexcept { return open_; }
  // Those ranges were quiet at etcd's revision `by_etcd`, at which `heads` were read.
  void answer(std::int64_t by_etcd, const Heads& heads);
  // Whether a refusal means that a guard does not hold. `newest`: the last commit in shown().
  [[nodiscard]] bool refusal_is_certain(Revision newest) const noexcept {
    return certain_ || newest == asked_at_;
  }

  // --- parts of requests

  void add_guards(pb::TxnRequest& request) const;
  // Compares each key that is put with what this process remembers of it: a put keeps `created`.
  void add_assumptions(pb::TxnRequest& request) const;
  void add_removals(Ops& ops) const;
  // All writes, and the heads; operations() of them.
  void add_writes(Ops& ops, std::uint64_t head, Instant time) const;
  void add_assumed_keys(Ops& ops) const;
  // `own`: leaves out the reads that it knows to be empty.
  void add_reads(Ops& ops, const SoleWriter::Use* own = nullptr) const;
  void add_heads(Ops& ops) const { add_head_reads(layout_, shown_, ops); }
  // The newest entry of each range of open_questions().
  void add_questions(Ops& ops) const;

  [[nodiscard]] int operations() const noexcept;  // Of a commit: the writes, and the heads.
  [[nodiscard]] int assumed() const noexcept { return assumed_; }
  struct AssumedKey {
    const std::string& key;
    const KeyState& state;
  };
  [[nodiscard]] std::vector<AssumedKey> assumed_keys() const;

  [[nodiscard]] bool reads_anything(std::size_t read) const noexcept;
  [[nodiscard]] pb::RangeRequest range_request(std::size_t read) const;
  // Where a read of the last entry of a range begins. etcd fetches all of a range that it reads
  // backwards, so the read begins at the last key that this process knows, and reads the part
  // before it only if it finds nothing. Empty: at the beginning of the range.
  [[nodiscard]] const std::string& hint(std::size_t read) const noexcept { return hints_[read]; }

  // --- after a commit

  // The revision of one transaction of the batch, if `last` is that of the last one.
  [[nodiscard]] Revision revision_of(std::size_t txn, Revision last) const noexcept;
  // The keys that a commit wrote.
  [[nodiscard]] std::vector<stores::Change> changes(Revision revision) const;
  // Updates what this process remembers of the written keys.
  void remember(Revision revision, std::int64_t by_etcd, KeyCache& keys) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { put, append, remove };
    Kind kind = Kind::put;
    const std::string* value = nullptr;
    bool removed_before = false;  // By an earlier write of the same apply: the put makes it anew.
    std::size_t txn = 0;          // Index in the batch.
    KeyState seen;
    // Its `created` depends on whether the key exists.
    [[nodiscard]] bool assumes() const noexcept { return kind == Kind::put && !removed_before; }
    [[nodiscard]] bool creates() const noexcept { return removed_before || seen.mod_revision == 0; }
  };

  void add_steps(const KeyCache& keys);
  [[nodiscard]] bool needs_replaced() const;
  [[nodiscard]] std::size_t max_heads() const;

  const Layout& layout_;
  const Txn& txn_;
  const LeaseKey* lease_key_;
  const Batch* batch_;
  std::map<std::string, Step> steps_;                            // By key.
  std::map<std::pair<std::string, std::size_t>, Step> appends_;  // By prefix and `txn`.
  std::vector<std::optional<std::int64_t>> quiet_at_;            // For each guard.
  std::vector<std::size_t> open_;
  std::vector<std::string> hints_;  // For each read.
  bool certain_ = true;
  Revision asked_at_;  // The last commit when the open questions were answered.
  Scope scope_;
  Scope shown_;
  std::vector<OrderId> moved_;  // Of scope_.
  bool changes_ = false;        // It puts keys that may exist already.
  int assumed_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace tenure::etcd
