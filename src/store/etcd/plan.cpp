#include "store/etcd/plan.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace tenure::etcd {
namespace {

// Above this a request carries one proposal only.
constexpr std::size_t large_request = 16'384;
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

Plan::Plan(const Layout& layout, const Memo& memo, const Txn& txn, const Mark* mark)
    : layout_(layout), txn_(txn), mark_(mark), quiet_at_(txn.guards.size()) {
  add_steps(memo);
  for (std::size_t i = 0; i < txn.guards.size(); ++i) {
    const Guard& guard = txn.guards[i];
    if (guard.kind != Guard::Kind::quiet || guard.revision == Revision{} || is_void(guard.range)) {
      continue;
    }
    quiet_at_[i] = memo.by_etcd(guard.revision);
    if (!quiet_at_[i]) open_.push_back(i);
  }
}

// etcd takes a key once in a transaction: of several writes to one the last counts.
void Plan::add_steps(const Memo& memo) {
  for (const Write& write : txn_.writes) {
    bytes_ += write.key.size() + write.value.size();
    if (write.kind == Write::Kind::append) {
      Step& step = appends_[write.key];
      step.kind = Step::Kind::append;
      step.value = &write.value;
      continue;
    }
    const auto [at, first] = steps_.try_emplace(write.key);
    Step& step = at->second;
    if (first) step.seen = memo.made(write.key);
    step.fresh = step.fresh || (!first && step.kind == Step::Kind::remove);
    step.kind = write.kind == Write::Kind::put ? Step::Kind::put : Step::Kind::remove;
    step.value = &write.value;
  }
}

void Plan::answer(std::int64_t at, Revision head) {
  asked_at_ = head;
  for (const std::size_t i : open_) {
    quiet_at_[i] = at;
    // What comes later is larger than the head; whether it is larger than the guard's is open where
    // that is ahead of the head.
    certain_ = certain_ && txn_.guards[i].revision <= head;
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
std::size_t Plan::proposals() const noexcept {
  if (!writes()) return 0;
  if (bytes_ > large_request) return 1;
  const std::size_t outer = std::max(txn_.guards.size(), txn_.reads.size() + 1);
  const std::size_t each = steps_.size() + appends_.size() + txn_.reads.size() + 2;
  return std::clamp<std::size_t>((max_operations - std::min(outer, max_operations)) / each, 1,
                                 max_proposals);
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
        if (!quiet_at_[i]) {
          compare_created(request, Compare::EQUAL, std::move(key), std::move(end));
          break;
        }
        Compare* const compare = add_compare(request, Compare::MOD, Compare::LESS, std::move(key));
        compare->set_mod_revision(*quiet_at_[i] + 1);
        compare->set_range_end(std::move(end));
        break;
      }
    }
  }
}

void Plan::add_head(google::protobuf::RepeatedPtrField<pb::RequestOp>& ops) const {
  ops.Add()->mutable_request_range()->set_key(layout_.head());
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

void Plan::add_reads(google::protobuf::RepeatedPtrField<pb::RequestOp>& ops) const {
  for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
    if (reads_anything(i)) *ops.Add()->mutable_request_range() = range_request(i);
  }
}

void Plan::add_writes(pb::TxnRequest& request, std::uint64_t revision, Instant now) const {
  const Revision own{revision};
  for (const auto& [key, step] : steps_) {
    if (step.kind == Step::Kind::remove) {
      request.add_success()->mutable_request_delete_range()->set_key(layout_.key(key));
      continue;
    }
    const bool anew = step.fresh || step.seen.mod_revision == 0;
    pb::PutRequest* const put = request.add_success()->mutable_request_put();
    put->set_key(layout_.key(key));
    put->set_value(entry_value(
        {.changed = own, .created = anew ? own : step.seen.created, .bytes = *step.value}));
  }
  for (const auto& [prefix, step] : appends_) {
    pb::PutRequest* const put = request.add_success()->mutable_request_put();
    put->set_key(layout_.key(prefix + stamp(own)));
    put->set_value(entry_value({.changed = own, .created = own, .bytes = *step.value}));
  }
  if (mark_ != nullptr && mark_->lease != 0) {
    pb::PutRequest* const put = request.add_success()->mutable_request_put();
    put->set_key(layout_.mark(mark_->id));
    put->set_lease(mark_->lease);
  } else if (mark_ != nullptr) {
    request.add_success()->mutable_request_delete_range()->set_key(layout_.mark(mark_->id));
  }
  pb::PutRequest* const head = request.add_success()->mutable_request_put();
  head->set_key(layout_.head());
  head->set_value(head_value({.revision = own, .time = now}));
}

pb::TxnRequest Plan::request(const std::vector<std::uint64_t>& proposals, Instant now) const {
  pb::TxnRequest request;
  add_guards(request);
  add_head(*request.mutable_failure());
  add_reads(*request.mutable_failure());
  if (!writes()) {
    *request.mutable_success() = request.failure();
    return request;
  }
  pb::TxnRequest* inner = request.add_success()->mutable_request_txn();
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    compare_value(*inner, pb::Compare::LESS, layout_.head(), stamp(Revision{proposals[i]}));
    for (const auto& [key, step] : steps_) {
      if (!step.assumes()) continue;
      add_compare(*inner, pb::Compare::MOD, pb::Compare::EQUAL, layout_.key(key))
          ->set_mod_revision(step.seen.mod_revision);
    }
    add_writes(*inner, proposals[i], now);
    add_reads(*inner->mutable_success());
    if (i + 1 < proposals.size()) inner = inner->add_failure()->mutable_request_txn();
  }
  add_head(*inner->mutable_failure());
  for (const auto& [key, step] : steps_) {
    if (step.assumes()) inner->add_failure()->mutable_request_range()->set_key(layout_.key(key));
  }
  return request;
}

void Plan::take_head(const pb::ResponseOp& op, Result& result) const {
  const pb::RangeResponse& range = op.response_range();
  if (range.kvs().empty()) return;
  result.head = parse_head(range.kvs(0).value());
  result.head_mod_revision = range.kvs(0).mod_revision();
}

template <typename Ops>
void Plan::take_reads(const Ops& ops, int first, Result& result) const {
  for (std::size_t i = 0; i < txn_.reads.size(); ++i) {
    if (reads_anything(i)) result.reads.push_back(&ops.Get(first++).response_range());
  }
}

Plan::Result Plan::result(const pb::TxnResponse& response,
                          const std::vector<std::uint64_t>& proposals, Memo& memo) const {
  using Kind = Result::Kind;
  Result result;
  result.revision = response.header().revision();
  if (!response.succeeded() || !writes()) {
    take_head(response.responses(0), result);
    take_reads(response.responses(), 1, result);
    // Where nothing was written since the question, it was another guard.
    const bool sure = certain_ || (result.head && result.head->revision == asked_at_);
    result.kind = !result.head           ? Kind::headless
                  : response.succeeded() ? Kind::committed
                  : sure                 ? Kind::refused
                                         : Kind::unanswered;
    return result;
  }
  const pb::TxnResponse* inner = &response.responses(0).response_txn();
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    if (inner->succeeded()) {
      result.kind = Kind::committed;
      result.head = Head{.revision = Revision{proposals[i]}, .time = {}};
      result.head_mod_revision = result.revision;
      const int writes =
          static_cast<int>(steps_.size() + appends_.size()) + (mark_ != nullptr ? 1 : 0) + 1;
      take_reads(inner->responses(), writes, result);
      return result;
    }
    if (i + 1 < proposals.size()) inner = &inner->responses(0).response_txn();
  }
  take_head(inner->responses(0), result);
  learn_keys(*inner, memo);
  result.kind = !result.head                                      ? Kind::headless
                : result.head->revision.value >= proposals.back() ? Kind::outrun
                                                                  : Kind::surprised;
  return result;
}

void Plan::learn_keys(const pb::TxnResponse& refused, Memo& memo) const {
  int at = 1;
  for (const auto& [key, step] : steps_) {
    if (!step.assumes()) continue;
    const pb::RangeResponse& found = refused.responses(at++).response_range();
    if (found.kvs().empty()) {
      memo.gone(key);
    } else {
      memo.made(key, {.mod_revision = found.kvs(0).mod_revision(),
                      .created = parse_value(found.kvs(0).value()).created});
    }
  }
}

void Plan::learn(Revision revision, std::int64_t by_etcd, Memo& memo) const {
  for (const auto& [key, step] : steps_) {
    if (step.kind == Step::Kind::remove) {
      memo.gone(key);
      continue;
    }
    const bool anew = step.fresh || step.seen.mod_revision == 0;
    memo.made(key, {.mod_revision = by_etcd, .created = anew ? revision : step.seen.created});
  }
}

}  // namespace tenure::etcd
