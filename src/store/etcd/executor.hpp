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

#include "store/common/post_queue.hpp"
#include "store/etcd/client.hpp"
#include "store/etcd/clock.hpp"
#include "store/etcd/key_cache.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/proposer.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

struct LeaseKey;

class Executor {
 public:
  // Puts the head if there is none. Throws StoreError.
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
  // Head and tail, and etcd's revision at which they were read. Throws StoreError.
  struct PositionNow {
    Position position;
    std::int64_t by_etcd = 0;
  };
  [[nodiscard]] PositionNow read_position();

  // The values of these keys of etcd's, and the newest revision, at one moment. Throws StoreError.
  struct ValuesNow {
    Revision newest;
    std::int64_t by_etcd = 0;
    std::vector<std::optional<std::string>> values;  // Nothing: there is no such key.
  };
  [[nodiscard]] ValuesNow read_values(std::span<const std::string> etcd_keys);

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
    const auto use = sole_writer_.use(txn);
    return use ? std::optional{use->empty} : std::nullopt;
  }

 private:
  class Attempt;
  bool apply_together(std::span<stores::Posting> postings);
  void make_head();
  // Moves the head behind `last`: transactions proposed up to there have committed by then, or
  // never will. Returns etcd's revision of such a head.
  [[nodiscard]] std::int64_t pass(std::uint64_t last);
  // At a revision of etcd's at which the head or the tail was put.
  [[nodiscard]] Position position_at(std::int64_t by_etcd);
  // Transactions proposed up to `last` may still commit: the next apply of this process first
  // passes them.
  void leave_unresolved(std::uint64_t last) noexcept;
  void pass_unresolved();
  // `asked_ns`: when the request was sent. Its answer may have been on its way for long.
  void see(std::int64_t by_etcd, std::int64_t asked_ns) noexcept;
  [[nodiscard]] Proposer::Seen seen() const noexcept;

  Client client_;
  const Layout layout_;
  Clock clock_;
  Caches caches_;
  SoleWriter sole_writer_;
  Contention contention_;
  Counts counts_;
  std::atomic<std::int64_t> by_etcd_{0};      // etcd's newest revision that was seen,
  std::atomic<std::int64_t> seen_ns_{0};      // and when the request was sent that showed it.
  std::atomic<std::uint64_t> unresolved_{0};  // Zero: none.
};

}  // namespace tenure::etcd
