// executor.hpp: runs applies on etcd. For each apply it loops: a Proposer decides what to propose,
// a Form builds the request and parses the answer, a RangeReader completes the reads.
//
// Thread safety: all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/annotations.hpp"
#include "base/mutex.hpp"
#include "store/common/post_queue.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/clock.hpp"
#include "store/etcd/key_cache.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/orders.hpp"
#include "store/etcd/proposer.hpp"
#include "store/etcd/scope.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

struct LeaseKey;

class Executor {
 public:
  // Puts the first heads if there are none. Throws StoreError.
  explicit Executor(Address address);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  ~Executor();

  [[nodiscard]] Outcome apply(const Txn& txn) { return apply(txn, nullptr); }
  // Puts or removes the lease key of a session in the same transaction.
  [[nodiscard]] Outcome apply(const Txn& txn, const LeaseKey* lease_key);
  // In order; as many as possible in one transaction of etcd's.
  void apply_all(std::span<stores::Posting> postings);

  // Whether the lease key of a session exists, and at which revision of etcd's.
  struct Life {
    bool alive = false;
    std::int64_t at = 0;
  };
  [[nodiscard]] Life read_lease_key(std::string_view id);
  // etcd's revision of the last apply that wrote anything, and of this read. Throws StoreError.
  struct LastApply {
    std::int64_t at = 0;
    std::int64_t by_etcd = 0;
    bool restored = false;  // etcd's revisions went back: the cluster is that of a backup.
  };
  [[nodiscard]] LastApply read_last_apply();

  // etcd's revisions of these keys of etcd's at one moment. Throws StoreError.
  struct KeysNow {
    std::int64_t by_etcd = 0;
    bool restored = false;
    std::vector<std::int64_t> put_at;  // Zero: there is no such key.
  };
  [[nodiscard]] KeysNow read_keys(std::span<const std::string> etcd_keys);
  // etcd's revision of a revision of ours, if this process knows it.
  [[nodiscard]] std::optional<std::int64_t> by_etcd(Revision revision) const {
    return caches_.revisions.by_etcd(revision);
  }

  // The watch stream reported that the key was removed.
  void key_removed(std::string_view key) { caches_.keys.erase(key); }

  [[nodiscard]] Client& client() noexcept { return client_; }
  [[nodiscard]] Clock& clock() noexcept { return clock_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }
  // For tests: which of the reads a sole writer would leave out; nothing: it would rely on nothing.
  [[nodiscard]] std::optional<std::vector<bool>> knows(const std::vector<Range>& reads) {
    Txn txn;
    txn.reads = reads;
    const auto use = orders_[touched_by(txn).first()].sole_writer.use(txn);
    return use ? std::optional{use->empty} : std::nullopt;
  }
  [[nodiscard]] Orders& orders() noexcept { return orders_; }

 private:
  class Attempt;
  bool apply_together(std::span<stores::Posting> postings);
  void make_heads(const Scope& scope);
  // A head of an order: transactions proposed up to there have committed once it is passed, or
  // never will.
  struct Mark {
    OrderId order = other_order;
    std::uint64_t last = 0;
  };
  // Moves the head behind the mark. Returns etcd's revision of such a head.
  [[nodiscard]] std::int64_t pass(const Mark& mark);
  // The head as it was at a revision of etcd's.
  [[nodiscard]] Head head_at(OrderId order, std::int64_t by_etcd);
  // Transactions proposed up to the mark may still commit: the next apply of this process first
  // passes them.
  void leave_unresolved(const Mark& mark);
  void pass_unresolved();
  void see(std::int64_t by_etcd) noexcept;
  // A read that was sent when `before` was the newest revision. True: etcd's revisions went back,
  // and this process forgets those that it knows.
  [[nodiscard]] bool see_restored(std::int64_t before, std::int64_t by_etcd);

  Client client_;
  const Layout layout_;
  Clock clock_;
  Caches caches_;
  Orders orders_;
  Counts counts_;
  std::atomic<std::int64_t> by_etcd_{0};  // etcd's newest revision that was seen.
  std::atomic<bool> any_unresolved_{false};
  base::Mutex mutex_;
  std::vector<Mark> unresolved_ TENURE_GUARDED_BY(mutex_);
};

}  // namespace tenure::etcd
