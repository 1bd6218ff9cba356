#include "store/etcd/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/etcd/numbers.hpp"

namespace tenure::etcd {
namespace {

// What all proposals of a request together may write, and what each adds to that.
constexpr std::size_t max_bytes = 32'768;
constexpr std::size_t bytes_a_write = 96;
constexpr std::size_t max_operations = 128;  // A server may be set to take more, and then does.

// Nothing can be in it.
bool is_void(const Range& range) noexcept { return !range.to.empty() && range.to <= range.from; }

pb::Compare* add_compare(pb::TxnRequest& request, pb::Compare::CompareTarget target,
                         pb::Compare::CompareResult result, std::string key) {
  pb::Compare* const compare = request.add_compare();
  compare->set_target(target);
  compare->set_result(result);
  compare->set_key(std::move(key));
  return compare;
}

void compare_created(pb::TxnRequest& request, pb::Compare::CompareResult result, std::string key,
                     std::string end = {}) {
  pb::Compare* const compare = add_compare(request, pb::Compare::CREATE, result, std::move(key));
  compare->set_create_revision(0);
  if (!end.empty()) compare->set_range_end(std::move(end));
}

void compare_value(pb::TxnRequest& request, pb::Compare::CompareResult result, std::string key,
                   std::string value) {
  add_compare(request, pb::Compare::VALUE, result, std::move(key))->set_value(std::move(value));
}

}  // namespace

std::optional<Position> parse_position(const Layout& layout, const pb::RangeResponse& found) {
  std::optional<Position> position;
  const std::string head = layout.head();
  for (const pb::KeyValue& kv : found.kvs()) {
    const std::int64_t at = kv.mod_revision();
    if (kv.key() == head) {
      const Head parsed = parse_head(kv.value());
      position = {.head = parsed, .put_at = at, .newest = parsed.revision, .newest_at = at};
    } else if (position && at > position->put_at) {  // The tail, behind the head.
      position->newest = revision_at(position->head.revision, position->put_at, at);
      position->newest_at = at;
    }
  }
  return position;
}

Plan::Plan(const Layout& layout, const Memo& memo, const Txn& txn, const LeaseKey* lease_key,
           const Batch* batch)
    : layout_(layout),
      txn_(txn),
      lease_key_(lease_key),
      batch_(batch),
      quiet_at_(txn.guards.size()) {
  add_steps(memo);
  for (std::size_t i = 0; i < txn.guards.size(); ++i) {
    const Guard& guard = txn.guards[i];
    if (guard.kind != Guard::Kind::quiet || guard.revision == Revision{} || is_void(guard.range)) {
      continue;
    }
    quiet_at_[i] = memo.by_etcd(guard.revision);
    if (!quiet_at_[i]) open_.push_back(i);
  }
  for (const Range& range : txn.reads) {
    const bool last = range.reverse && range.limit == 1 && range.skip == 0 && !is_void(range);
    hints_.push_back(last ? memo.last_in(range) : std::string{});
  }
}

// etcd takes a key once in a transaction: of several writes to one the last counts.
void Plan::add_steps(const Memo& memo) {
  for (std::size_t i = 0; i < txn_.writes.size(); ++i) {
    const Write& write = txn_.writes[i];
    const std::size_t txn = batch_ == nullptr ? 0 : batch_->txn_of_write[i];
    bytes_ += write.key.size() + write.value.size();
    if (write.kind == Write::Kind::append) {
      Step& step = appends_[{write.key, txn}];
      step.txn = txn;
      step.kind = Step::Kind::append;
      step.value = &write.value;
      continue;
    }
    const auto [at, first] = steps_.try_emplace(write.key);
    Step& step = at->second;
    if (first) step.seen = memo.made(write.key);
    step.txn = txn;
    step.fresh = step.fresh || (!first && step.kind == Step::Kind::remove);
    step.kind = write.kind == Write::Kind::put ? Step::Kind::put : Step::Kind::remove;
    step.value = &write.value;
  }
  for (const auto& [key, step] : steps_) {
    changes_ = changes_ || step.kind == Step::Kind::put;
    assumed_ += step.assumes() ? 1 : 0;
  }
  puts_ = changes_ || !appends_.empty() || (lease_key_ != nullptr && lease_key_->lease != 0);
}

// NOLINTNEXTLINE(bugprone-easily-swappable-parameters)
void Plan::answer(std::int64_t by_etcd, Revision at, Revision head) {
  asked_at_ = head;
  for (const std::size_t i : open_) {
    quiet_at_[i] = by_etcd;
    // What comes later is larger; whether it is larger than the guard's is open where that is
    // ahead.
    certain_ = certain_ && txn_.guards[i].revision <= at;
  }
}

pb::TxnRequest Plan::question() const {
  pb::TxnRequest request;
  add_head(*request.mutable_success());
  add_reads(*request.mutable_success());
  for (const std::size_t i : open_) {
    const Range& range = txn_.guards[i].range;
    pb::RangeRequest* const newest = request.add_success()->mutable_request_range();
    newest->set_key(layout_.key(range.from));
    newest->set_range_end(layout_.range_end(range));
    newest->set_sort_target(pb::RangeRequest::VALUE);
    newest->set_sort_order(pb::RangeRequest::DESCEND);
    newest->set_limit(1);
  }
  return request;
}

// etcd counts the operations along a path of nested transactions.
std::size_t Plan::max_heads() const noexcept {
  if (!writes()) return 0;
  if (batch_ != nullptr) return 1;
  const std::size_t writes = steps_.size() + appends_.size() + 2;
  const std::size_t outer = std::max(txn_.guards.size(), txn_.reads.size() + 1);
  constexpr std::size_t depth = 8;
  if (outer + depth + 1 + writes + static_cast<std::size_t>(assumed_) > max_operations) return 1;
  return std::clamp<std::size_t>(max_bytes / (bytes_ + writes * bytes_a_write), 1, max_proposals);
}

void Plan::add_guards(pb::TxnRequest& request) const {
  using Compare = pb::Compare;
  for (std::size_t i = 0; i < txn_.guards.size(); ++i) {
    const Guard& guard = txn_.guards[i];
    std::string key = layout_.key(guard.range.from);
    switch (guard.kind) {
      case Guard::Kind::absent: compare_created(request, Compare::EQUAL, std::move(key)); break;
      case Guard::Kind::present: compare_created(request, Compare::GREATER, std::move(key)); break;
      case Guard::Kind::unchanged:
        // A value begins with the stamp, and goes on.
        compare_value(request, Compare::GREATER, key, stamp(guard.revision));
        if (guard.revision.value != std::numeric_limits<std::uint64_t>::max()) {
          compare_value(request, Compare::LESS, std::move(key),
                        stamp(Revision{guard.revision.value + 1}));
        }
        break;
      case Guard::Kind::quiet: {
        if (is_void(guard.range)) break;
        std::string end = layout_.range_end(guard.range);
        const std::optional<std::int64_t> quiet_at = quiet_at_[i];
        if (!quiet_at) {
          compare_created(request, Compare::EQUAL, std::move(key), std::move(end));
          break;
        }
        Compare* const compare = add_compare(request, Compare::MOD, Compare::LESS, std::move(key));
        compare->set_mod_revision(*quiet_at + 1);
        compare->set_range_end(std::move(end));
        break;
      }
    }
  }
}

void Plan::add_head(Ops& ops) const {
  pb::RangeRequest* const both = ops.Add()->mutable_request_range();
  both->set_key(layout_.head());
  both->set_range_end(layout_.tail_end());
}

bool Plan::reads_anything(std::size_t read) const noexcept { return !is_void(txn_.reads[read]); }

pb::RangeRequest Plan::range_request(std::size_t read) const {
  const Range& range = txn_.reads[read];
  pb::RangeRequest request;
  request.set_key(layout_.key(range.from));
  request.set_range_end(layout_.range_end(range));
  if (range.limit != 0) {
    // Where stamps count, the keys that this apply itself appends are passed over.
    const std::size_t extra = range.before == Revision{} ? 0 : appends_.size();
    request.set_limit(std::int64_t{range.skip} + range.limit + static_cast<std::int64_t>(extra));
  }
  if (range.reverse) request.set_sort_order(pb::RangeRequest::DESCEND);
  return request;
}

void Plan::add_reads(Ops& ops, const SoleWriter::Use* own) const {
  for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
    if (!reads_anything(i) || (own != nullptr && own->empty[i])) continue;
    pb::RangeRequest& request = *ops.Add()->mutable_request_range();
    request = range_request(i);
    if (!hints_[i].empty()) request.set_key(layout_.key(hints_[i]));
  }
}

void Plan::add_tail(Ops& ops, Instant time) const {
  pb::PutRequest* const put = ops.Add()->mutable_request_put();
  put->set_key(layout_.tail());
  put->set_value(tail_value(time));
}

void Plan::add_removals(Ops& ops) const {
  for (const auto& [key, step] : steps_) {
    if (step.kind != Step::Kind::remove) continue;
    ops.Add()->mutable_request_delete_range()->set_key(layout_.key(key));
  }
  if (lease_key_ == nullptr || lease_key_->lease != 0) return;
  ops.Add()->mutable_request_delete_range()->set_key(layout_.lease_key(lease_key_->id));
}

Revision Plan::revision_of(std::size_t txn, Revision last) const noexcept {
  const std::size_t behind = batch_ == nullptr ? 0 : batch_->count - 1 - txn;
  return Revision{last.value - (behind * apart)};
}

void Plan::add_writes(Ops& ops, std::uint64_t head, Instant now) const {
  add_removals(ops);
  for (const auto& [key, step] : steps_) {
    if (step.kind != Step::Kind::put) continue;
    const Revision own = revision_of(step.txn, Revision{head});
    const bool anew = step.fresh || step.seen.mod_revision == 0;
    pb::PutRequest* const put = ops.Add()->mutable_request_put();
    put->set_key(layout_.key(key));
    put->set_value(entry_value(
        {.changed = own, .created = anew ? own : step.seen.created, .bytes = *step.value}));
  }
  for (const auto& [prefix, step] : appends_) {
    const Revision own = revision_of(step.txn, Revision{head});
    pb::PutRequest* const put = ops.Add()->mutable_request_put();
    put->set_key(layout_.key(prefix.first + stamp(own)));
    put->set_value(entry_value({.changed = own, .created = own, .bytes = *step.value}));
  }
  if (lease_key_ != nullptr && lease_key_->lease != 0) {
    pb::PutRequest* const put = ops.Add()->mutable_request_put();
    put->set_key(layout_.lease_key(lease_key_->id));
    put->set_lease(lease_key_->lease);
  }
  pb::PutRequest* const put = ops.Add()->mutable_request_put();
  put->set_key(layout_.head());
  put->set_value(head_value({.revision = Revision{head}, .time = now}));
  put->set_prev_kv(!only_appends());  // Other forms know what they replaced.
}

int Plan::written() const noexcept {
  return static_cast<int>(steps_.size() + appends_.size()) + (lease_key_ != nullptr ? 1 : 0) + 1;
}

void Plan::add_assumptions(pb::TxnRequest& request) const {
  for (const auto& [key, step] : steps_) {
    if (!step.assumes()) continue;
    add_compare(request, pb::Compare::MOD, pb::Compare::EQUAL, layout_.key(key))
        ->set_mod_revision(step.seen.mod_revision);
  }
}

void Plan::add_assumed_keys(Ops& ops) const {
  for (const auto& [key, step] : steps_) {
    if (step.assumes()) ops.Add()->mutable_request_range()->set_key(layout_.key(key));
  }
}

// A node: the first of the heads from `low` to `high` that is larger than the one there is.
// NOLINTNEXTLINE(misc-no-recursion): six deep at most.
void Plan::add_halves(pb::TxnRequest& node, const Proposal& proposal, std::size_t low,
                      std::size_t high) const {
  const std::size_t middle = (low + high) / 2;
  compare_value(node, pb::Compare::LESS, layout_.head(), stamp(Revision{proposal.heads[middle]}));
  if (low < middle) {
    add_halves(*node.add_success()->mutable_request_txn(), proposal, low, middle);
  } else if (assumed_ == 0) {
    add_writes(*node.mutable_success(), proposal.heads[middle], proposal.time);
  } else {
    pb::TxnRequest& leaf = *node.add_success()->mutable_request_txn();
    add_assumptions(leaf);
    add_writes(*leaf.mutable_success(), proposal.heads[middle], proposal.time);
    add_head(*leaf.mutable_failure());
    add_assumed_keys(*leaf.mutable_failure());
  }
  if (middle < high) {
    add_halves(*node.add_failure()->mutable_request_txn(), proposal, middle + 1, high);
  } else {
    add_head(*node.mutable_failure());
    add_assumed_keys(*node.mutable_failure());
  }
}

void Plan::request_alone(const Proposal& proposal, const SoleWriter::Use& own,
                         pb::TxnRequest& request) const {
  add_guards(request);
  compare_value(request, pb::Compare::EQUAL, layout_.head(), head_value(own.head));
  if (puts_) {
    add_writes(*request.mutable_success(), proposal.heads[0], proposal.time);
  } else {
    add_removals(*request.mutable_success());
    add_tail(*request.mutable_success(), proposal.time);
  }
  add_reads(*request.mutable_success(), &own);
}

void Plan::request(const Proposal& proposal, pb::TxnRequest& request) const {
  if (proposal.own) {
    request_alone(proposal, *proposal.own, request);
    return;
  }
  add_guards(request);
  add_head(*request.mutable_failure());
  if (proposal.heads.size() > 1) {
    add_halves(*request.add_success()->mutable_request_txn(), proposal, 0,
               proposal.heads.size() - 1);
  } else if (proposal.heads.size() == 1) {
    compare_value(request, pb::Compare::LESS, layout_.head(),
                  stamp(revision_of(0, Revision{proposal.heads[0]})));
    add_assumptions(request);
    add_writes(*request.mutable_success(), proposal.heads[0], proposal.time);
    add_assumed_keys(*request.mutable_failure());
  } else {
    if (writes()) {
      add_compare(request, pb::Compare::MOD, pb::Compare::GREATER, layout_.head())
          ->set_mod_revision(proposal.oldest.value_or(0));
      compare_value(request, pb::Compare::LESS, layout_.head(), stamp(Revision{proposal.last}));
      add_removals(*request.mutable_success());
      add_tail(*request.mutable_success(), proposal.time);
    }
    add_head(*request.mutable_success());
  }
  add_reads(*request.mutable_success());
  add_reads(*request.mutable_failure());
}

void Plan::take_head(const pb::ResponseOp& op, Result& result) const {
  const auto position = parse_position(layout_, op.response_range());
  if (!position) return;
  result.head = position->head;
  result.head_put_at = position->put_at;
  result.at = position->newest;
  result.at_by_etcd = position->newest_at;
}

void Plan::take_reads(const Answers& ops, int first, Result& result,
                      const SoleWriter::Use* own) const {
  for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
    if (!reads_anything(i)) continue;
    const bool known = own != nullptr && own->empty[i];
    result.reads.push_back(known ? nullptr : &ops.Get(first++).response_range());
  }
}

void Plan::commit(std::uint64_t head, Result& result) {
  result.kind = Result::Kind::committed;
  result.head = Head{.revision = Revision{head}, .time = {}};
  result.head_put_at = result.by_etcd;
  result.at = Revision{head};
  result.at_by_etcd = result.by_etcd;
}

// A guard does not hold. Where nothing was put since the question, it was another one.
void Plan::take_refusal(const Answers& ops, int first, Result& result) const {
  take_reads(ops, first, result);
  const bool sure = certain_ || (result.head && result.head->revision == asked_at_);
  result.kind = sure ? Result::Kind::refused : Result::Kind::unanswered;
}

void Plan::take_one(const pb::TxnResponse& response, const Proposal& proposal, Memo& memo,
                    Result& result) const {
  if (response.succeeded()) {
    commit(proposal.heads[0], result);
    const pb::PutResponse& head = response.responses(written() - 1).response_put();
    if (head.has_prev_kv()) result.on = parse_head(head.prev_kv().value()).revision;
    take_reads(response.responses(), written(), result);
    return;
  }
  take_head(response.responses(0), result);
  if (!result.head) {
    result.kind = Result::Kind::headless;
  } else if (result.head->revision >= revision_of(0, Revision{proposal.heads[0]})) {
    static_cast<void>(learn_keys(response.responses(), 1, memo));
    result.kind = Result::Kind::outrun;
  } else if (!learn_keys(response.responses(), 1, memo)) {
    result.kind = Result::Kind::surprised;
  } else {
    take_refusal(response.responses(), 1 + assumed_, result);
  }
}

void Plan::take_alone(const pb::TxnResponse& response, const Proposal& proposal,
                      const SoleWriter::Use& own, Result& result) const {
  result.kind = Result::Kind::disturbed;
  if (!response.succeeded()) return;
  if (puts_) {
    commit(proposal.heads[0], result);
    result.on = own.head.revision;
  } else {
    result.kind = Result::Kind::committed;
    result.head = own.head;
    result.head_put_at = own.head.put_at;
    result.at = revision_at(own.head.revision, own.head.put_at, result.by_etcd);
    result.at_by_etcd = result.by_etcd;
  }
  take_reads(response.responses(), written(), result, &own);
}

void Plan::take_several(const pb::TxnResponse& response, const Proposal& proposal, Memo& memo,
                        Result& result) const {
  if (!response.succeeded()) {
    take_head(response.responses(0), result);
    if (result.head) take_refusal(response.responses(), 1, result);
    return;
  }
  const pb::TxnResponse* node = &response.responses(0).response_txn();
  std::size_t low = 0;
  std::size_t high = proposal.heads.size() - 1;
  for (;;) {
    const std::size_t middle = (low + high) / 2;
    if (node->succeeded() && low == middle) {
      if (assumed_ > 0) node = &node->responses(0).response_txn();
      if (!node->succeeded()) break;
      commit(proposal.heads[middle], result);
      take_reads(response.responses(), 1, result);
      return;
    }
    if (!node->succeeded() && low == high) break;
    (node->succeeded() ? high : low) = node->succeeded() ? middle : middle + 1;
    node = &node->responses(0).response_txn();
  }
  take_head(node->responses(0), result);
  static_cast<void>(learn_keys(node->responses(), 1, memo));
  if (!result.head) return;
  result.kind = result.head->revision.value >= proposal.heads.back() ? Result::Kind::outrun
                                                                     : Result::Kind::surprised;
}

Plan::Result Plan::result(const pb::TxnResponse& response, const Proposal& proposal,
                          Memo& memo) const {
  using Kind = Result::Kind;
  Result result;
  result.kind = Kind::headless;
  result.by_etcd = response.header().revision();
  if (proposal.own) {
    take_alone(response, proposal, *proposal.own, result);
    return result;
  }
  if (proposal.heads.size() == 1) {
    take_one(response, proposal, memo, result);
    return result;
  }
  if (proposal.heads.size() > 1) {
    take_several(response, proposal, memo, result);
    return result;
  }
  const int first = response.succeeded() && writes() ? written() : 0;
  take_head(response.responses(first), result);
  if (!result.head) return result;
  if (response.succeeded()) {
    result.kind = Kind::committed;
    take_reads(response.responses(), first + 1, result);
  } else if (writes() && (result.head_put_at <= proposal.oldest.value_or(0) ||
                          result.head->revision.value >= proposal.last)) {
    result.kind = Kind::aged;
  } else {
    take_refusal(response.responses(), 1, result);
  }
  return result;
}

bool Plan::learn_keys(const Answers& ops, int first, Memo& memo) const {
  bool as_assumed = true;
  for (const auto& [key, step] : steps_) {
    if (!step.assumes()) continue;
    const pb::RangeResponse& found = ops.Get(first++).response_range();
    if (found.kvs().empty()) {
      as_assumed = as_assumed && step.seen.mod_revision == 0;
      memo.gone(key);
    } else {
      as_assumed = as_assumed && step.seen.mod_revision == found.kvs(0).mod_revision();
      memo.made(key, {.mod_revision = found.kvs(0).mod_revision(),
                      .created = parse_value(found.kvs(0).value()).created});
    }
  }
  return as_assumed;
}

std::vector<stores::Change> Plan::changes(Revision revision) const {
  std::vector<stores::Change> changes;
  changes.reserve(steps_.size() + appends_.size());
  for (const auto& [key, step] : steps_) {
    changes.push_back({.key = key, .removed = step.kind == Step::Kind::remove});
  }
  for (const auto& [prefix, step] : appends_) {
    changes.push_back({.key = prefix.first + stamp(revision_of(step.txn, revision))});
  }
  return changes;
}

void Plan::learn(Revision revision, std::int64_t by_etcd, Memo& memo, SoleWriter& own) const {
  for (const auto& [key, step] : steps_) {
    if (step.kind == Step::Kind::remove) {
      memo.gone(key);
      own.removed(key);
      continue;
    }
    const bool anew = step.fresh || step.seen.mod_revision == 0;
    memo.made(key, {.mod_revision = by_etcd,
                    .created = anew ? revision_of(step.txn, revision) : step.seen.created});
  }
}

}  // namespace tenure::etcd
