// plan.hpp: one apply as one etcd transaction.
//
// A key that is appended ends in the revision of its own apply, and etcd can't put a key that has
// its revision in it. So revisions are ours: the client proposes one, and the transaction commits
// only if the head still has a smaller one, which it then replaces. Five forms:
//
//   read     if   the guards hold
//            then read the head, reads
//            else the same                                        (not committed)
//
//   remove   if   the guards hold, the head is young (numbers.hpp), and head < far ahead
//            then removals, tail = a unique time, read head and tail, reads
//            else read the head, reads                            (not committed, or: number it)
//
//   one      if   the guards hold, head < s, and the keys to be put are as they were last seen
//            then writes, head = s, reads
//            else read the head and those keys, reads             (which of the three it was)
//
//   several  if   the guards hold
//            then of s1 < s2 < … the first that is larger than the head: found by halves, each a
//                 nested transaction; those keys are as they were last seen: writes, head = it,
//                 reads
//            else read the head, reads                            (not committed)
//
//   alone    if   the guards hold, and the head is the one that this process put last
//            then writes, head = s (or removals, tail = a unique time), reads of the ranges that
//                 are not known to be empty (store/common/sole_writer.hpp)
//            else nothing                                         (another form)
//
// Only "one" and "several" race: with several proposals a race costs no round trip, as long as
// others get no further than the last. "alone" is for who has the store to itself, and has the
// least for etcd to read twice, judge and answer.
//
// A batch is several transactions that do not depend on each other, in the form "one": all of their
// guards, all of their writes, and the revisions s1 < s2 < … one each, if the head is smaller than
// the first; it becomes the last. Where one guard fails nothing is made.
//
// Why that is sound: etcd makes transactions one after the other, and each that puts anything
// raises the head; what only removes has a number between two heads that is its own. So revisions
// rise in the order of commits, no two are the same, and a larger stamp is a later commit: FIFO.
// Nobody puts anything without moving the head, so while it is one's own, what was empty is empty.
// Nothing depends on clocks being right, but how often one tries. Somebody always gets through,
// since of those that race the first does; and who fails proposes further ahead each time, so a
// slow one gets through too.
//
// Thread safety: none, one plan is one thread's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/layout.hpp"
#include "store/etcd/memo.hpp"
#include "tenure/store.hpp"

namespace tenure::etcd {

namespace pb = ::etcdserverpb;

// Where a store is: its head, and etcd's revision of it; and its newest revision.
struct Position {
  Head head;
  std::int64_t put_at = 0;
  Revision newest;
  std::int64_t newest_at = 0;  // etcd's revision of it.
};
// Of the range of head and tail; nothing: there is no head.
[[nodiscard]] std::optional<Position> parse_position(const Layout& layout,
                                                     const pb::RangeResponse& found);

// A session's lease key, which is put or removed with its entry.
struct LeaseKey {
  std::string id;
  std::int64_t lease = 0;  // Zero: it goes.
};

// Of a batch: which of `count` transactions each of the writes belongs to.
struct Batch {
  std::vector<std::size_t> txn_of_write;
  std::size_t count = 1;
};

class Plan {
 public:
  static constexpr std::size_t max_proposals = 64;

  Plan(const Layout& layout, const Memo& memo, const Txn& txn, const LeaseKey* lease_key,
       const Batch* batch = nullptr);

  // Of the guards on quiet ranges, those that can't be said in etcd's revisions; by index.
  [[nodiscard]] const std::vector<std::size_t>& open_questions() const noexcept { return open_; }
  // They were quiet at etcd's revision, when our newest was `at`, and the head this.
  void answer(std::int64_t by_etcd, Revision at, Revision head);
  // The snapshot that answers them: the newest of each range, the head, the reads.
  [[nodiscard]] pb::TxnRequest question() const;

  // `oldest`: where nothing is put, etcd's revision of the oldest head that is young enough;
  // nothing: it is to have a number of its own all the same. `heads` are none where the plan needs
  // no number; the head must then be behind `last`. Once the head has reached the last of them, the
  // request can't be made any more. `time` is nobody else's, and says which request it was. `own`:
  // the head must be that one.
  struct Proposal {
    std::optional<SoleWriter::Use> own;
    std::vector<std::uint64_t> heads;
    std::optional<std::int64_t> oldest;
    std::uint64_t last = 0;
    Instant time;
  };
  // Into an empty one.
  void request(const Proposal& proposal, pb::TxnRequest& request) const;
  // How many heads a request may propose: a large one is not sent many times over.
  [[nodiscard]] std::size_t max_heads() const noexcept;
  [[nodiscard]] bool writes() const noexcept {
    return !txn_.writes.empty() || lease_key_ != nullptr;
  }
  [[nodiscard]] bool only_removes() const noexcept { return writes() && !puts_; }
  // It puts no keys but such that no apply puts twice.
  [[nodiscard]] bool only_appends() const noexcept { return lease_key_ == nullptr && !changes_; }

  // What became of a request.
  struct Result {
    enum class Kind : std::uint8_t {
      committed,
      refused,     // A guard does not hold.
      outrun,      // By others: propose again.
      aged,        // The head is too old for what only removes: propose.
      surprised,   // A key was not as it was last seen: learned now, try again.
      unanswered,  // A guard that may hold all the same: ask anew.
      disturbed,   // The head is not our own, or a guard does not hold: another form.
      headless,    // There is no head: make one.
    };
    Kind kind = Kind::refused;
    std::optional<Head> head;
    std::int64_t head_put_at = 0;  // etcd's revisions: of the head,
    std::int64_t by_etcd = 0;      // and of the transaction.
    std::optional<Revision> on;    // The head that a commit replaced, if that is known.
    Revision at;                   // Our newest, and etcd's of that.
    std::int64_t at_by_etcd = 0;
    // One for each of the reads that has anything in it, in order; null: known to be empty.
    std::vector<const pb::RangeResponse*> reads;
  };
  // The response must outlive the result. Learns.
  [[nodiscard]] Result result(const pb::TxnResponse& response, const Proposal& proposal,
                              Memo& memo) const;
  // Of the transaction at that index of the batch, when the last one has this.
  [[nodiscard]] Revision revision_of(std::size_t txn, Revision last) const noexcept;
  // What a commit wrote.
  [[nodiscard]] std::vector<stores::Change> changes(Revision revision) const;
  // Remembers what a commit made.
  void learn(Revision revision, std::int64_t by_etcd, Memo& memo, SoleWriter& own) const;

  [[nodiscard]] bool reads_anything(std::size_t read) const noexcept;
  [[nodiscard]] pb::RangeRequest range_request(std::size_t read) const;
  // Where a read of the last entry of a range begins: etcd fetches all of a range that it is to
  // read backwards. What is before that is read only where nothing was found behind it. Empty: at
  // the range's own beginning.
  [[nodiscard]] const std::string& hint(std::size_t read) const noexcept { return hints_[read]; }

 private:
  struct Step {
    enum class Kind : std::uint8_t { put, append, remove };
    Kind kind = Kind::put;
    const std::string* value = nullptr;
    bool fresh = false;   // Removed before in the same apply: it is made anew.
    std::size_t txn = 0;  // Of its transaction in the batch.
    Memo::Made seen;
    // Its `created` depends on what was there before.
    [[nodiscard]] bool assumes() const noexcept { return kind == Kind::put && !fresh; }
  };

  using Ops = google::protobuf::RepeatedPtrField<pb::RequestOp>;
  using Answers = google::protobuf::RepeatedPtrField<pb::ResponseOp>;

  void add_steps(const Memo& memo);
  void add_guards(pb::TxnRequest& request) const;
  void add_assumptions(pb::TxnRequest& request) const;
  void add_removals(Ops& ops) const;
  void add_writes(Ops& ops, std::uint64_t head, Instant now) const;
  void add_assumed_keys(Ops& ops) const;
  void add_reads(Ops& ops, const SoleWriter::Use* own = nullptr) const;
  void add_head(Ops& ops) const;
  void add_tail(Ops& ops, Instant time) const;
  void add_halves(pb::TxnRequest& node, const Proposal& proposal, std::size_t low,
                  std::size_t high) const;

  void take_head(const pb::ResponseOp& op, Result& result) const;
  void request_alone(const Proposal& proposal, const SoleWriter::Use& own,
                     pb::TxnRequest& request) const;
  void take_reads(const Answers& ops, int first, Result& result,
                  const SoleWriter::Use* own = nullptr) const;
  void take_refusal(const Answers& ops, int first, Result& result) const;
  void take_one(const pb::TxnResponse& response, const Proposal& proposal, Memo& memo,
                Result& result) const;
  void take_alone(const pb::TxnResponse& response, const Proposal& proposal,
                  const SoleWriter::Use& own, Result& result) const;
  void take_several(const pb::TxnResponse& response, const Proposal& proposal, Memo& memo,
                    Result& result) const;
  static void commit(std::uint64_t head, Result& result);
  // Whether all of them are as they were assumed to be.
  bool learn_keys(const Answers& ops, int first, Memo& memo) const;
  // Operations of a commit: those of the writes, and the head's.
  [[nodiscard]] int written() const noexcept;

  const Layout& layout_;
  const Txn& txn_;
  const LeaseKey* lease_key_;
  const Batch* batch_;
  std::map<std::string, Step> steps_;  // By key,
  // and by what stands before the stamp, and the index of the transaction in the batch.
  std::map<std::pair<std::string, std::size_t>, Step> appends_;
  std::vector<std::optional<std::int64_t>> quiet_at_;  // For each guard.
  std::vector<std::size_t> open_;
  std::vector<std::string> hints_;  // For each read.
  bool certain_ = true;             // A refusal means that a guard does not hold.
  Revision asked_at_;               // The head when the open questions were answered.
  bool puts_ = false;
  bool changes_ = false;  // Puts of keys that may have been there before.
  int assumed_ = 0;       // How many steps assume something.
  std::size_t bytes_ = 0;
};

}  // namespace tenure::etcd
