// form.hpp: the forms of etcd transactions. Each form builds its request and parses its answer, so
// that the order of operations and the order of their results are defined in one place. Only forms
// and RangeReader decode responses of transactions.
//
//   form             transaction
//   -----------------+-----------------------------------------------------------------------------
//   ReadForm         if   the guards hold
//                    then heads, reads
//                    else the same
//   OneHeadForm      if   the guards hold, heads < s, keys are as this process remembers them
//                    then writes, heads = s, reads
//                    else heads, those keys, reads
//   SeveralHeadsForm if   the guards hold, what is on / is earlier
//                    then a nested transaction finds the first s of s1 < s2 < … that is larger than
//                         the head, by halves; if the keys are as remembered: writes, head = s.
//                         Then reads
//                    else heads, reads
//   SoleWriterForm   if   the guards hold, the head is the one that this process put last, and
//                         nothing was written on / since
//                    then writes, head = s, reads that may find something
//                    else nothing
//
// "heads": of all orders of the transaction (scope.hpp); "head": it has one order. QuestionForm
// asks about guards before the transaction; MakeHeadsForm and PassHeadForm move heads.
//
// Thread safety: none; a form belongs to one thread. Plan and proposal must outlive their form.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc.pb.h"
#include "store/etcd/heads.hpp"
#include "store/etcd/key_cache.hpp"
#include "store/etcd/layout.hpp"
#include "store/etcd/plan.hpp"
#include "store/etcd/proposer.hpp"

namespace tenure::etcd {

// What etcd answered. Points into the response.
struct Answer {
  Verdict verdict = Verdict::no_head;
  std::int64_t by_etcd = 0;          // etcd's revision of the transaction.
  std::optional<Heads> heads;        // Nothing: the answer does not have them, or one is missing.
  std::optional<Revision> replaced;  // The head that a commit replaced, if that is known.
  // One for each read that may find something, in order; null: known to be empty.
  std::vector<const pb::RangeResponse*> reads;
  // The state of each key that the plan assumes something about, if the assumption may be wrong.
  struct SeenKey {
    std::string key;
    KeyState state;
  };
  std::vector<SeenKey> keys;

  [[nodiscard]] Revision newest() const noexcept { return heads ? heads->newest : Revision{}; }
};

class Form {
 public:
  Form(const Plan& plan, const Proposal& proposal) noexcept : plan_(plan), proposal_(proposal) {}
  Form(const Form&) = delete;
  Form& operator=(const Form&) = delete;
  virtual ~Form() = default;

  // Into an empty request.
  virtual void build(pb::TxnRequest& request) const = 0;
  [[nodiscard]] virtual Answer parse(const pb::TxnResponse& response) const = 0;

 protected:
  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  [[nodiscard]] const Proposal& proposal() const noexcept { return proposal_; }
  [[nodiscard]] static Answer empty_answer(const pb::TxnResponse& response);
  // Fill in a part of the answer, from the result at index `first` on.
  void parse_heads(const Results& results, int first, Answer& answer) const;
  [[nodiscard]] int head_reads() const noexcept { return etcd::head_reads(plan_.shown()); }
  void parse_reads(const Results& results, int first, Answer& answer,
                   const SoleWriter::Use* own = nullptr) const;
  void parse_keys(const Results& results, int first, Answer& answer) const;
  // A guard does not hold, or that is not certain.
  void parse_refusal(const Results& results, int first, Answer& answer) const;
  void commit(std::uint64_t head, Answer& answer) const;
  [[nodiscard]] bool keys_are_as_assumed(const Answer& answer) const;

 private:
  const Plan& plan_;
  const Proposal& proposal_;
};

[[nodiscard]] std::unique_ptr<const Form> make_form(const Plan& plan, const Proposal& proposal);

// Are the ranges of the open questions quiet?
class QuestionForm {
 public:
  explicit QuestionForm(const Plan& plan) noexcept : plan_(plan) {}
  [[nodiscard]] pb::TxnRequest build() const;
  // Verdict: committed (all are quiet), refused (one is not), or no_head.
  [[nodiscard]] Answer parse(const pb::TxnResponse& response) const;

 private:
  const Plan& plan_;
};

// Puts the heads of these orders that are missing. Those of a store's first apply make the store.
class MakeHeadsForm {
 public:
  [[nodiscard]] static pb::TxnRequest build(const Layout& layout, const Scope& scope,
                                            std::uint64_t slot, Instant time);
  // Throws StoreError if the store has another version of the layout.
  static void parse(const pb::TxnResponse& response);
};

// Moves a head to `beyond`, unless it is there or further already.
class PassHeadForm {
 public:
  [[nodiscard]] static pb::TxnRequest build(const std::string& key, const Head& beyond);
  // etcd's revision of the head; nothing: there is no head.
  [[nodiscard]] static std::optional<std::int64_t> parse(const pb::TxnResponse& response);
};

// What this process knows after a commit that moved the head: the head, the written keys, and which
// of the ranges that it read have nothing in them but what it wrote.
[[nodiscard]] SoleWriter::Commit own_commit(const Plan& plan, const Proposal& proposal,
                                            const Answer& answer);

}  // namespace tenure::etcd
