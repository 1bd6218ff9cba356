// plan.hpp: one apply as one etcd transaction.
//
// A key that is appended ends in the revision of its own apply, and etcd can't put a key that has
// its revision in it. So revisions are ours: the client proposes one, and the transaction commits
// only if the head still has a smaller one, which it then replaces.
//
//   if   the guards hold
//   then if head < s1, and the keys to be put are as they were last seen (for `created`)
//        then writes, head = s1, reads
//        else if head < s2 …           s2, …: further ahead, so that a race costs no round trip
//        else read the head, and those keys               (try again)
//   else read the head, reads                             (not committed)
//
// Why that is sound: etcd makes transactions one after the other, and each that writes raises the
// head. So revisions rise in the order of commits, no two are the same, and a larger stamp is a
// later commit: FIFO. Nothing depends on clocks being right, but how often one tries. Somebody
// always gets through, since of those that race the first does; and who fails proposes further
// ahead each time, so a slow one gets through too.
//
// Thread safety: none, one plan is one thread's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/layout.hpp"
#include "store/etcd/memo.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

namespace pb = ::etcdserverpb;

// A session's mark, which is put or removed with its entry.
struct Mark {
  std::string id;
  std::int64_t lease = 0;  // Zero: it goes.
};

class Plan {
 public:
  static constexpr std::size_t max_proposals = 8;

  Plan(const Layout& layout, const Memo& memo, const Txn& txn, const Mark* mark);

  // Of the guards on quiet ranges, those that can't be said in etcd's revisions; by index.
  [[nodiscard]] const std::vector<std::size_t>& open_questions() const noexcept { return open_; }
  // They were quiet at etcd's revision, when the head was this.
  void answer(std::int64_t at, Revision head);
  // The snapshot that answers them: the newest of each range, the head, the reads.
  [[nodiscard]] pb::TxnRequest question() const;

  [[nodiscard]] pb::TxnRequest request(const std::vector<std::uint64_t>& proposals,
                                       Instant now) const;
  // How many proposals a request should have: a large one is not sent many times over.
  [[nodiscard]] std::size_t proposals() const noexcept;
  [[nodiscard]] bool writes() const noexcept { return !txn_.writes.empty() || mark_ != nullptr; }

  // What became of a request.
  struct Result {
    enum class Kind : std::uint8_t {
      committed,
      refused,     // A guard does not hold.
      outrun,      // By others: propose again.
      surprised,   // A key was not as it was last seen: learned now, try again.
      unanswered,  // A guard that may hold all the same: ask anew.
      headless,    // There is no head: make one.
    };
    Kind kind = Kind::refused;
    std::optional<Head> head;
    std::int64_t head_mod_revision = 0;
    std::int64_t revision = 0;  // etcd's.
    // One for each of the reads that has anything in it, in order.
    std::vector<const pb::RangeResponse*> reads;
  };
  // The response must outlive the result. Learns.
  [[nodiscard]] Result result(const pb::TxnResponse& response,
                              const std::vector<std::uint64_t>& proposals, Memo& memo) const;
  // Remembers what a commit made.
  void learn(Revision revision, std::int64_t by_etcd, Memo& memo) const;

  [[nodiscard]] bool reads_anything(std::size_t read) const noexcept;
  [[nodiscard]] pb::RangeRequest range_request(std::size_t read) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { put, append, remove };
    Kind kind = Kind::put;
    const std::string* value = nullptr;
    bool fresh = false;  // Removed before in the same apply: it is made anew.
    Memo::Made seen;
    // Its `created` depends on what was there before.
    [[nodiscard]] bool assumes() const noexcept { return kind == Kind::put && !fresh; }
  };

  void learn_keys(const pb::TxnResponse& refused, Memo& memo) const;
  void add_steps(const Memo& memo);
  void add_guards(pb::TxnRequest& request) const;
  void add_writes(pb::TxnRequest& request, std::uint64_t revision, Instant now) const;
  void add_reads(google::protobuf::RepeatedPtrField<pb::RequestOp>& ops) const;
  void add_head(google::protobuf::RepeatedPtrField<pb::RequestOp>& ops) const;
  void take_head(const pb::ResponseOp& op, Result& result) const;
  template <typename Ops>
  void take_reads(const Ops& ops, int first, Result& result) const;

  const Layout& layout_;
  const Txn& txn_;
  const Mark* mark_;
  std::map<std::string, Step> steps_;                  // By key,
  std::map<std::string, Step> appends_;                // and by what stands before the stamp.
  std::vector<std::optional<std::int64_t>> quiet_at_;  // For each guard.
  std::vector<std::size_t> open_;
  bool certain_ = true;  // A refusal means that a guard does not hold.
  Revision asked_at_;    // The head when the open questions were answered.
  std::size_t bytes_ = 0;
};

}  // namespace tenure::etcd
